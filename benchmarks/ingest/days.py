"""Months of ingest with retention, with a second for each day.

    python benchmarks/ingest/days.py --out FOLDER [--days 300] [--keep 90]

A batch each second, and `--keep 90s`. What must stay as it is are the number of live partitions,
the bytes of catalogs, ledger and state directory, and the memory of the process. Needs root.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "injected"))
sys.path.append(str(Path(__file__).resolve().parent.parent / "records"))

import page
from lab import SCRATCH
from rows import write
from servers import Server
from ways import FOLDER, Ingest, taking

ROWS = 5_000
# Catalogs are cleaned as often as the days are shorter.
SETTINGS = {"autovacuum": "on", "autovacuum_naptime": "1s", "max_wal_size": "1GB"}
EVERY = 10

ASKED = """
SELECT (SELECT count(*) FROM pg_inherits WHERE inhparent = 'events'::regclass),
       (SELECT sum(pg_total_relation_size(oid)) FROM pg_class
         WHERE relkind = 'r' AND relnamespace = 'pg_catalog'::regnamespace),
       (SELECT sum(pg_total_relation_size(oid)) FROM pg_class
         WHERE relkind = 'r' AND relnamespace = 'fullbore_ledger'::regnamespace),
       (SELECT count(*) FROM events),
       (SELECT count(*) FROM pg_class)
"""
NAMES = ("partitions", "catalogs", "ledger", "rows", "relations")


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def memory(pid: int) -> int:
    """Resident bytes of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--days", type=int, default=300)
    parser.add_argument("--keep", type=int, default=90)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    server = Server("ingest-days", settings=SETTINGS)
    looks = []
    try:
        with taking("fullbore ingest", server, ["--keep", f"{args.keep}s"]) as way:
            assert isinstance(way, Ingest)
            begun = time.monotonic()
            for day in range(args.days):
                path = FOLDER / f"{day:06}.csv"
                write(path, day, args.days, ROWS)
                time.sleep(max(begun + day - time.monotonic(), 0))
                way.take(path)
                if day % EVERY == EVERY - 1:
                    values = map(int, server.sql(ASKED).strip().split("|"))
                    look = dict(zip(NAMES, values, strict=True))
                    look["state"] = size_of(FOLDER / "home")
                    look["memory"] = memory(way.process.pid)
                    looks.append({"day": day + 1, **look})
                    print(looks[-1], flush=True)
            way.end()
    finally:
        server.remove()
    kept = page.without_paths(json.dumps({"given": {"keep": args.keep}, "looks": looks}))
    (args.out / "days.json").write_text(kept + "\n")


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
