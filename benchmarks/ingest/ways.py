"""Ways to take batches: each shows a batch's rows before it takes the next one."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

from lab import FULLBORE, Failed, environment
from rows import BEGAN, COLUMNS, INDEXES
from servers import Server

TABLE = f"CREATE TABLE events ({COLUMNS})"
INDEXED = "; ".join(f"CREATE INDEX ON events ({column})" for column in INDEXES)
# A day in so many partitions: the newest one's indexes take a fifth of the server's memory.
CHUNKS = 48
# Files of our own are in memory: the disk has nothing but what the server writes.
FOLDER = Path("/dev/shm/fullbore-ingest")


class Way:
    """A program that runs all the time."""

    process: subprocess.Popen[str]

    def __init__(self) -> None:
        self.merges: list[dict] = []

    def take(self, batch: Path) -> None:
        """Returns once the batch's rows are shown."""
        raise NotImplementedError

    def end(self) -> None:
        """Lets it come to its end."""
        self.process.communicate()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


class Ingest(Way):
    """`fullbore ingest`."""

    indexed = INDEXED

    def __init__(self, server: Server, options: list[str]) -> None:
        super().__init__()
        server.sql(TABLE)
        server.sql(self.indexed)
        self.folder = FOLDER / "incoming"
        self.folder.mkdir(parents=True)
        command = [str(FULLBORE), "ingest", str(self.folder), "--to", server.url]
        command += ["--table", "events", "--adopt", "--format", "csv", "--header", "none"]
        command += ["--settle", "0s", "--every", "400ms", "--batch-bytes", "1MB", "--delete"]
        command += ["--json", *options]
        env = {**environment(), "FULLBORE_HOME": str(FOLDER / "home")}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
        self.until("begins")

    def until(self, event: str) -> dict:
        """The next event of this name."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            if told.get("event") == "merged":
                self.merges.append(told)
            if told.get("event") == event:
                return told
        raise Failed(f"the ingest ended with {self.process.wait()}")

    def take(self, batch: Path) -> None:
        batch.rename(self.folder / batch.name)
        self.until("loaded")

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        super().end()


class Extended(Ingest):
    """The same, into a server that has the extension: lookups by the random key have filters."""

    def __init__(self, server: Server, options: list[str]) -> None:
        server.sql("CREATE EXTENSION fullbore")
        self.indexed = f"{INDEXED}; CREATE INDEX ON events USING fullbore_filter (id)"
        super().__init__(server, options)


class Copy(Way):
    """One session of psql that stays: COPY into a table that has its indexes."""

    def __init__(self, server: Server, options: list[str]) -> None:
        super().__init__()
        for statement in (*options, INDEXED):
            server.sql(statement)
        self.process = subprocess.Popen(
            server.psql(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def take(self, batch: Path) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"\\copy events from '{batch}' (format csv)\n\\echo done\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "done\n":
            raise Failed(f"psql ended with {self.process.wait()}")
        batch.unlink()


def partitioned(hours: float, first: str, count: int) -> list[str]:
    """A table of partitions by time."""
    made = [f"{TABLE} PARTITION BY RANGE (at)"]
    start = datetime.fromisoformat(first)
    for number in range(count):
        since, until = (start + timedelta(hours=hours * end) for end in (number, number + 1))
        made.append(
            f"CREATE TABLE events_{number} PARTITION OF events"
            f" FOR VALUES FROM ('{since}') TO ('{until}')"
        )
    return made


# Name: what makes it, and with which options.
WAYS: dict[str, tuple[type[Ingest | Copy], list[str]]] = {
    "fullbore ingest": (Ingest, []),
    "fullbore ingest, extension": (Extended, []),
    "COPY into one table": (Copy, [TABLE]),
    "COPY into partitions of a day": (Copy, partitioned(24, "2026-03-01", 2)),
    "COPY into partitions that fit": (Copy, partitioned(24 / CHUNKS, f"{BEGAN}", CHUNKS)),
}


@contextmanager
def taking(name: str, server: Server, options: list[str]) -> Iterator[Way]:
    """One way, at work."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    make, its = WAYS[name]
    way = make(server, [*its, *options])
    try:
        yield way
    finally:
        way.close()
        with suppress(OSError):
            shutil.rmtree(FOLDER)
