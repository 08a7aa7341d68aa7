"""Queries by an indexed key: all the time while batches come, and many at once."""

from __future__ import annotations

import signal
import statistics
import subprocess
import tempfile
from pathlib import Path

from lab import environment
from servers import Server, programs

LOOKUP = "\\set row random(0, {last})\nSELECT * FROM events WHERE id = md5(:row::text)::uuid;\n"
RANGE = (
    "\\set row random(0, {last})\nSELECT * FROM events WHERE id >= md5(:row::text)::uuid"
    " ORDER BY id LIMIT 100;\n"
)
# Queries at each look.
LOOKUPS, RANGES = 10_000, 1_000
# Of the reader that is there all the time, each second.
RATE = 20


class Logged:
    """pgbench with a script; its latencies are in a log."""

    def __init__(self, server: Server, script: str, *options: str, form: str = "simple") -> None:
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        path = Path(self.folder.name) / "script.sql"
        path.write_text(script)
        command = [str(programs(18) / "pgbench"), "-n", "-l", "-f", str(path), "-M", form]
        command += [*options, server.url]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
            cwd=self.folder.name,
        )

    def latencies(self) -> list[float]:
        """In ms, ascending. The fields of a line: client, transaction, microseconds, ..."""
        logs = Path(self.folder.name).glob("pgbench_log.*")
        lines = [line.split() for log in logs for line in log.read_text().splitlines()]
        self.folder.cleanup()
        # The last line may be cut.
        return sorted(int(line[2]) / 1000 for line in lines if len(line) > 5)


class Reader:
    """Looks rows up all the time."""

    def __init__(self, server: Server, rows: int) -> None:
        script = LOOKUP.format(last=rows - 1)
        self.logged = Logged(server, script, "--rate", str(RATE), "-T", "1000000")

    def end(self) -> dict[str, float]:
        """Its latencies; `failed` is 1 where a query failed."""
        ended = self.logged.process.poll()
        self.logged.process.send_signal(signal.SIGINT)
        self.logged.process.wait()
        return {**told(self.logged.latencies()), "failed": float(ended is not None)}


def told(latencies: list[float]) -> dict[str, float]:
    """The median and what few took longer than, in ms."""
    return {
        "count": len(latencies),
        "median": statistics.median(latencies),
        "p99": latencies[len(latencies) * 99 // 100],
        "most": latencies[-1],
    }


def answers(server: Server, rows: int) -> dict[str, dict[str, float]]:
    """How long lookups and ranges take among so many rows."""
    found = {}
    kinds = (
        ("lookup", LOOKUP, LOOKUPS, "simple"),
        ("lookup, prepared", LOOKUP, LOOKUPS, "prepared"),
        ("range", RANGE, RANGES, "simple"),
    )
    for name, script, count, form in kinds:
        logged = Logged(server, script.format(last=rows - 1), "-t", str(count), form=form)
        if logged.process.wait() != 0:
            raise RuntimeError(f"pgbench ended with {logged.process.returncode}")
        found[name] = told(logged.latencies())
    return found
