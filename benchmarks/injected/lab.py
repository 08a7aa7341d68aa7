"""Folders and commands of the injections, and what they take away again at the end."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DATA = ROOT / "benchmarks" / "data"
FULLBORE = ROOT / ".venv" / "bin" / "fullbore"
# Servers run as an ordinary user, who must be able to reach their folders.
SCRATCH = Path("/tmp") / f"fullbore-injected-{os.getpid()}"
SCHEMA = ROOT / "demo" / "schema" / "lineitem.sql"


class Failed(RuntimeError):
    """A command that did not do its work."""


class Missing(RuntimeError):
    """What a kind needs and this machine does not have; the message is the reason."""


def environment() -> dict[str, str]:
    """The environment of every command: no PG* settings of whoever runs this."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    for name in ("DATABASE_URL", "FULLBORE_TO"):
        kept.pop(name, None)
    return kept | {"FULLBORE_HOME": str(SCRATCH / "home")}


def run(command: list[str], timeout: float = 120) -> str:
    """A command's output; its errors raise."""
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), check=False, timeout=timeout
    )
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise Failed(f"{' '.join(command[:4])}: {said}")
    return done.stdout


@contextmanager
def beside(*commands: list[str], env: dict[str, str] | None = None) -> Iterator[None]:
    """Commands that run for as long as the load."""
    processes = [subprocess.Popen(command, env=env) for command in commands]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def lineitem(scale: str, files: int) -> list[Path]:
    """TPC-H's lineitem in so many files, the first one first."""
    return tpch(DATA / f"tpch-{scale}-{files}", scale, files, ("lineitem",))


def tpch(folder: Path, scale: str, files: int, tables: tuple[str, ...]) -> list[Path]:
    """Tables of TPC-H in so many files each, made once, and read so that they lie in memory."""
    has = {table for table in tables if any(folder.glob(f"{table}.tbl*"))}
    if not (folder / ".done").exists() or has != set(tables):
        folder.mkdir(parents=True, exist_ok=True)
        command = [str(FULLBORE), "gen", "tpch", "--scale", scale, "--streams", str(files)]
        run([*command, "--tables", ",".join(tables), "--out", str(folder)], timeout=600)
        (folder / ".done").touch()
    # The folder may hold other tables, too.
    all_of = [path for table in sorted(tables) for path in folder.glob(f"{table}.tbl.*")]
    found = sorted(all_of, key=lambda path: (path.stem, int(path.suffix[1:])))
    for path in found:
        with path.open("rb", buffering=0) as source:
            while source.read(1 << 20):
                pass
    return found


def windows(record: Path) -> dict[str, object]:
    """What a verdict was made from: the first and the last observation, and the settings."""
    kept: dict[str, object] = {}
    for line in record.read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "observed":
            kept.setdefault("first", event["observation"])
            kept["last"] = event["observation"]
        elif event["event"] == "server_settings":
            kept["settings"] = event["settings"]
    return kept
