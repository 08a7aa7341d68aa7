"""CPU of the server for an index: filled while rows are loaded directly, and by CREATE INDEX.

Random keys of one type each, NOT NULL. What filling costs is the server's CPU of a load into a
table with the index, less that of the same load without it; CREATE INDEX has 2 GB of memory and no
workers beside it. Every pair of indexes is compared in size. See README.md beside this.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import string
import sys
import time
from datetime import date, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from lab import DATA, FULLBORE, HERE, run_text
from server import Server

COLUMNS = {
    "i": "bigint",
    "n": "integer",
    "d": "date",
    "ts": "timestamp",
    "v": 'text COLLATE "C"',
}
SHAPE = ", ".join(f"{name} {kind} NOT NULL" for name, kind in COLUMNS.items())


def write(path: Path, rows: int) -> None:
    """The same random rows each time."""
    draw = random.Random(1)
    day, moment = date(1992, 1, 1), datetime(1992, 1, 1)
    with path.open("w") as out:
        for _ in range(rows):
            text = "".join(draw.choices(string.ascii_lowercase, k=draw.randint(8, 24)))
            row = (
                draw.getrandbits(62),
                draw.getrandbits(31),
                day + timedelta(days=draw.randrange(10_000)),
                moment + timedelta(microseconds=draw.randrange(10**15)),
                text,
            )
            out.write(",".join(map(str, row)) + "\n")


def loaded(server: Server, path: Path, index: str | None) -> float:
    """The server's CPU for a load into a table with this index, or without any."""
    server.sql(f"DROP TABLE IF EXISTS t; CREATE TABLE t ({SHAPE})")
    if index:
        server.sql(f"CREATE INDEX filled ON t ({index})")
    server.sql("CHECKPOINT")
    before = server.cpu_seconds()
    command = [str(FULLBORE), "load", str(path), "--to", server.url, "--table", "t", "--quiet"]
    command += ["--header", "none", "--format", "csv", "--publish", "replace", "--method", "direct"]
    command += ["--statistics", "none"]
    run_text(command, env=server.env)
    return server.cpu_seconds() - before


def created(server: Server, index: str) -> float:
    """The server's CPU for CREATE INDEX on what was loaded last."""
    before = server.cpu_seconds()
    server.sql(
        "SET maintenance_work_mem = '2GB'; SET max_parallel_maintenance_workers = 0;"
        f" CREATE INDEX created ON t ({index})"
    )
    return server.cpu_seconds() - before


def run(server: Server, path: Path, repeats: int, out: Path) -> list[str]:
    """Measures all types; the lines of the table."""
    alone: list[float] = []
    filled: dict[str, list[float]] = {name: [] for name in COLUMNS}
    plain: dict[str, list[float]] = {name: [] for name in COLUMNS}
    sizes: dict[str, float] = {}
    for repeat in range(repeats):
        alone.append(loaded(server, path, None))
        for name in COLUMNS:
            filled[name].append(loaded(server, path, name))
            plain[name].append(created(server, name))
            found = server.sql("SELECT pg_relation_size('filled'), pg_relation_size('created')")
            mine, theirs = (int(size) for size in found.split("|"))
            sizes[name] = mine / theirs
            line = {
                "repeat": repeat,
                "key": COLUMNS[name],
                "alone": alone[-1],
                "filled": filled[name][-1],
                "created": plain[name][-1],
                "bytes": [mine, theirs],
            }
            with (out / "raw.jsonl").open("a") as raw:
                raw.write(json.dumps(line) + "\n")
    lines = []
    for name, kind in COLUMNS.items():
        costs = statistics.median(filled[name]) - statistics.median(alone)
        server_costs = statistics.median(plain[name])
        lines.append(
            f"| {kind} | {costs:.2f} | {server_costs:.2f} | {costs / server_costs:.2f}"
            f" | {sizes[name]:.3f} |"
        )
        print(lines[-1], flush=True)
    return lines


def main() -> int:
    """Runs it, and keeps what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--name", default=f"{platform.node()}-index-cpu")
    args = parser.parse_args()
    out = HERE / "runs" / f"{time.strftime('%Y-%m-%d')}-{args.name}"
    out.mkdir(parents=True, exist_ok=True)
    (out / "raw.jsonl").unlink(missing_ok=True)
    DATA.mkdir(parents=True, exist_ok=True)
    path = DATA / "index_cpu.csv"
    write(path, args.rows)
    server = Server()
    server.start()
    server.clear()
    server.sql("CREATE EXTENSION IF NOT EXISTS fullbore")
    try:
        lines = run(server, path, args.repeats, out)
    finally:
        server.clear()
        server.stop()
        path.unlink()
    head = [
        f"# {out.name}\n",
        f"{args.rows:,} rows of random keys; seconds of the server's CPU, medians of"
        f" {args.repeats}.\n",
        "| key | filled with the rows, s | CREATE INDEX, s | share | size, filled / created |",
        "|---|---|---|---|---|",
    ]
    (out / "summary.md").write_text("\n".join([*head, *lines]) + "\n")
    print((out / "summary.md").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
