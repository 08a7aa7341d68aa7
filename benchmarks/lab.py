"""The server, the data, and the accounting of CPU and memory."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FULLBORE = ROOT / ".venv" / "bin" / "fullbore"
DATA = ROOT / "benchmarks" / "data"
HOME = DATA / "home"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Measured:
    """One load: seconds include the final CHECKPOINT; CPU is in seconds, memory in bytes."""

    seconds: float
    server_cpu: float
    client_cpu: float
    client_memory: int
    notes: dict[str, object] = field(default_factory=dict)


class Failed(RuntimeError):
    """A peer that did not load."""


def environment() -> dict[str, str]:
    """The environment of every command: our own server's home, no PG* settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    kept.pop("DATABASE_URL", None)
    return kept | {"FULLBORE_HOME": str(HOME)}


class Server:
    """The embedded PostgreSQL, tuned as Fullbore tunes it."""

    def __init__(self) -> None:
        HOME.mkdir(parents=True, exist_ok=True)
        started = run_text([str(FULLBORE), "server", "start"])
        self.url = started.strip().splitlines()[-1]

    def sql(self, text: str) -> str:
        """Runs SQL; rows as lines, columns divided by ``|``."""
        command = [str(FULLBORE), "psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-c", text]
        return run_text(command)

    def cpu_seconds(self) -> float:
        """CPU of all server processes so far, those that have ended included."""
        total = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                text = stat.read_text()
            except OSError:
                continue
            if "(postgres)" in text:
                fields = text.rpartition(")")[2].split()
                # utime, stime, and those of children that were waited for.
                total += sum(int(value) for value in fields[11:15])
        return total / TICKS

    def stop(self) -> None:
        run_text([str(FULLBORE), "server", "stop"])


def run_text(command: list[str], text: str | None = None) -> str:
    """A command's output; its errors raise."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, env=environment(), check=False
    )
    if done.returncode != 0:
        raise Failed(f"{' '.join(command[:3])}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def run_measured(server: Server, commands: list[tuple[list[str], str | None]]) -> Measured:
    """Runs commands side by side to their end, then CHECKPOINT.

    Each command comes with the file that is its standard input, if any.
    """
    server_before = server.cpu_seconds()
    began = time.monotonic()
    processes = []
    for number, (command, stdin) in enumerate(commands):
        log = DATA / f"client-{number}.log"
        with log.open("wb") as out, Path(stdin or os.devnull).open("rb") as source:
            process = subprocess.Popen(
                command, stdin=source, stdout=out, stderr=subprocess.STDOUT, env=environment()
            )
        processes.append((process, log))
    cpu, memory = 0.0, 0
    for process, log in processes:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        cpu += usage.ru_utime + usage.ru_stime
        memory += usage.ru_maxrss * 1024
        if process.returncode != 0:
            raise Failed(log.read_text(errors="replace")[-2000:])
    loaded = time.monotonic() - began
    server.sql("CHECKPOINT")
    seconds = time.monotonic() - began
    server_cpu = server.cpu_seconds() - server_before
    return Measured(seconds, server_cpu, cpu, memory, {"seconds_before_checkpoint": loaded})


def tpch(scale: str, streams: int, tables: str) -> list[Path]:
    """TPC-H files, generated once."""
    folder = DATA / f"tpch-{scale}-{streams}"
    done = folder / f".{tables}.done"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [str(FULLBORE), "gen", "tpch", "--scale", scale, "--streams", str(streams)]
        run_text([*command, "--tables", tables, "--out", str(folder)])
        done.touch()
    found = (path for path in folder.glob(f"{tables}.tbl*") if path.suffix != ".plain")
    return sorted(path for path in found if path.is_file())


def without_trailing_delimiter(files: list[Path]) -> list[Path]:
    """The same rows as plain COPY takes them."""
    made = []
    for path in files:
        plain = path.with_name(path.name + ".plain")
        if not plain.exists():
            with plain.open("wb") as out:
                subprocess.run(["sed", "s/|$//", str(path)], stdout=out, check=True)
        made.append(plain)
    return made
