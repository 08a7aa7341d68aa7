"""pgloader, from the system's packages."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from data import DataSet
from lab import SCRATCH, Measured, Missing
from measure import run_measured
from server import Server


def pgloader(server: Server, data: DataSet) -> Callable[[], Measured]:
    """A command per file in one load file; its own defaults, but that errors stop it."""
    program = shutil.which("pgloader")
    if program is None:
        raise Missing("it is not installed (Debian: apt-get install pgloader)")

    def load() -> Measured:
        server.sql(data.create())
        where = parse_qs(urlsplit(server.url).query)
        socket, port = where["host"][0], where["port"][0]
        script = SCRATCH / "pgloader.load"
        columns = ", ".join(data.columns)
        header = "skip header = 1, " if data.header else ""
        quoted = "optionally enclosed by '\"'" if data.quote else "not enclosed"
        script.write_text(
            "".join(
                f"LOAD CSV FROM '{path}' ({columns})\n"
                f"INTO postgresql://postgres@unix:{socket}:{port}/postgres\n"
                f"TARGET TABLE public.{data.table} ({columns})\n"
                f"WITH {header}fields {quoted}, fields terminated by '{data.delimiter}',"
                " on error stop;\n\n"
                for path in data.plain
            )
        )
        work = SCRATCH / "pgloader"
        work.mkdir(parents=True, exist_ok=True)
        command = [program, "--quiet", "--root-dir", str(work), str(script)]
        return run_measured(server, [(command, None)])

    return load
