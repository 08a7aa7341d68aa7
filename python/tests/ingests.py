"""What tests of `fullbore ingest` share: files and their table, and processes that load them."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fullbore
from embedded import Server

ROWS = 4000
# More than the least size of a batch: a file is one.
NOTE = "x" * 24


def write(folder: Path, number: int, rows: int = ROWS) -> Path:
    """A file of rows with random keys, which appears at once."""
    chance = random.Random(number)
    lines = (f"{number * ROWS + row},{chance.randrange(10**9)},{NOTE}\n" for row in range(rows))
    partial = folder / f".{number}.partial"
    partial.write_text("id,key,note\n" + "".join(lines))
    return partial.rename(folder / f"part-{number:04}.csv")


def command(server: Server, source: object, *options: str) -> list[str]:
    program = [str(fullbore.find_command()), "ingest", str(source), "--to", server.url]
    return [*program, "--table", "readings", "--settle", "0s", "--every", "200ms", *options]


def ingest(server: Server, source: object, *options: str, code: int = 0) -> str:
    """Ingests what there is, and ends; what was said."""
    run = command(server, source, "--once", *options)
    ended = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    said = ended.stdout + ended.stderr
    assert ended.returncode == code, f"{run}: {ended.returncode}\n{said}"
    return said


def events(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


@contextmanager
def running(server: Server, source: object, *options: str) -> Iterator[subprocess.Popen[str]]:
    """An ingest without end."""
    process = subprocess.Popen(
        command(server, source, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def transaction(server: Server, statement: str) -> Iterator[None]:
    """One that has run a statement, and stays open."""
    begun = f"BEGIN; {statement}"
    program = [str(fullbore.find_command()), "psql", "--", "-qX", "-c", begun, "-f", "-"]
    process = subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=server.environment
    )
    is_open = "SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction'"
    try:
        until(lambda: server.sql(f"{is_open} AND query = $${begun}$$") != [])
        yield
    finally:
        process.communicate(b"ROLLBACK;")


def clean(server: Server) -> Server:
    """A server without the table, and with nothing left of ones before."""
    server.sql("DROP TABLE IF EXISTS readings_batches CASCADE")
    server.sql("DROP TABLE IF EXISTS readings CASCADE")
    server.sql("DROP SCHEMA IF EXISTS fullbore_ledger CASCADE")
    return server


def made(server: Server) -> None:
    """The table, with an index and a key of everyday."""
    server.sql("CREATE TABLE readings (id bigint, key bigint, note text)")
    server.sql("CREATE INDEX readings_key ON readings (key)")


def held(server: Server) -> tuple[int, int]:
    [[rows, total]] = server.sql("SELECT count(*), coalesce(sum(id), 0) FROM readings")
    return int(rows), int(total)


def expected(files: int) -> tuple[int, int]:
    rows = files * ROWS
    return rows, rows * (rows - 1) // 2


def partitions(server: Server) -> list[str]:
    rows = server.sql(
        "SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'readings'::regclass"
        " ORDER BY inhrelid::regclass::text"
    )
    return [name for (name,) in rows]


def until(condition: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come to be"
        time.sleep(0.05)
