"""sling, a program in a wheel."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from data import DataSet
from lab import SCRATCH, Failed, Measured, Missing, run_text
from measure import run_measured
from server import Server
from wheels import python_with

FIND = "import sling_linux_amd64 as wheel; print(wheel.__path__[0])"


def sling(server: Server, data: DataSet) -> Callable[[], Measured]:
    """One run over all files into a table that is there already."""
    try:
        folder = run_text([python_with("sling_linux_amd64"), "-c", FIND]).strip()
    except Failed as error:
        raise Missing(str(error)) from error
    program = Path(folder) / "bin" / "sling-linux-amd64"
    if not program.exists():
        raise Missing("its wheel has no program for this machine")
    # It takes a folder or one file, and columns only by the names in a first line: so the files
    # are copied behind such a line, before anything is measured.
    files = SCRATCH / "sling"
    home = SCRATCH / "sling-home"

    def load() -> Measured:
        server.sql(data.create())
        files.mkdir(parents=True, exist_ok=True)
        for old in files.iterdir():
            old.unlink()
        for path in data.plain:
            with (files / f"{path.name}.csv").open("wb") as out, path.open("rb") as rows:
                if not data.header:
                    out.write((data.delimiter.join(data.columns) + "\n").encode())
                shutil.copyfileobj(rows, out)
        command = [str(program), "run", "--src-stream", f"file://{files}/", "--tgt-conn", "SERVER"]
        command += ["--tgt-object", f"public.{data.table}", "--mode", "truncate", "--src-options"]
        command.append(f"{{format: csv, delimiter: '{data.delimiter}', header: true}}")
        env = {"SERVER": server.url, "SLING_HOME_DIR": str(home), "SLING_DISABLE_TELEMETRY": "true"}
        # Straight into the table, and nothing but our columns.
        env |= {"SLING_DIRECT_INSERT": "true", "SLING_LOADED_AT_COLUMN": "false"}
        return run_measured(server, [(command, None)], env=env)

    return load
