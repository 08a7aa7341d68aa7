"""Batches of small rows with random keys, into a server whose indexes outgrow its memory.

    python benchmarks/ingest/run.py --out FOLDER [--only WAY] [--option OPTION]...

A day of a blog's load (a million rows a minute), smaller by the same factor as the server's
memory. Each way takes the same batches, the next one at the earliest after `--interval`. Kept are
the seconds until each batch is seen, what the disk has written, and what readers wait for. Needs
root; `--page` writes the page of what was kept.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "injected"))
sys.path.append(str(Path(__file__).resolve().parent.parent / "records"))

import page
from lab import SCRATCH
from readers import Reader, answers
from reference import Reference
from rows import write
from servers import Server
from ways import FOLDER, WAYS, taking

# Rows of a batch, of which a day has 1,440.
ROWS = 18_750
MEMORY = 136 << 20
SETTINGS = {
    # What processes have of their own must leave something for cached pages.
    "shared_buffers": "24MB",
    "maintenance_work_mem": "20MB",
    "work_mem": "1MB",
    "max_connections": "20",
    "max_parallel_workers": "0",
    "max_parallel_maintenance_workers": "0",
    "io_method": "sync",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "5min",
    # Who waits longer for a lock is in the log.
    "log_lock_waits": "on",
    "deadlock_timeout": "100ms",
}
# What the server says that it has written, in bytes.
IO = """
    SELECT json_object_agg(what, bytes) FROM (
        SELECT concat_ws(' ', object, context, backend_type) AS what,
               sum(coalesce(write_bytes, 0) + coalesce(extend_bytes, 0)) AS bytes
          FROM pg_stat_io GROUP BY 1
        UNION ALL SELECT 'wal in all', wal_bytes FROM pg_stat_wal
        UNION ALL SELECT 'temporary files', sum(temp_bytes) FROM pg_stat_database
    ) AS written WHERE bytes > 1000000"""
# So many batches at the beginning and at the end are compared.
ENDS = 72


def sectors() -> int:
    """What the disk under our folder has written, in bytes."""
    device = Path(__file__).stat().st_dev
    at = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    return int(at.read_text().split()[6]) * 512


def sizes(server: Server) -> dict[str, int]:
    """Bytes of the table and of its indexes, and partitions with rows."""
    # The tree of a table that is not partitioned is empty.
    asked = (
        "SELECT sum(pg_table_size(oid)), sum(pg_indexes_size(oid)), count(*) FILTER"
        " (WHERE pg_table_size(oid) > 8192) FROM pg_class WHERE relkind = 'r' AND"
        " (oid = 'events'::regclass OR oid IN (SELECT relid FROM pg_partition_tree('events')))"
    )
    heap, indexes, partitions = server.sql(asked).strip().split("|")
    return {"heap": int(heap), "indexes": int(indexes), "partitions": int(partitions)}


def measured(name: str, args: argparse.Namespace) -> dict:
    server = Server("ingest", settings=SETTINGS)
    server.group.memory(args.memory)
    kept: dict = {"seconds": [], "sizes": [], "answers": [], "text": 0}
    every = max(args.batches // args.looks, 1)
    try:
        with taking(name, server, args.option) as way:
            reader = Reader(server, args.batches * args.rows)
            before = sectors()
            begun = time.monotonic()
            for batch in range(args.batches):
                path = FOLDER / f"{batch:06}.csv"
                write(path, batch, args.batches, args.rows)
                kept["text"] += path.stat().st_size
                time.sleep(max(begun + batch * args.interval - time.monotonic(), 0))
                since = time.monotonic()
                way.take(path)
                kept["seconds"].append(round(time.monotonic() - since, 4))
                if batch % every == every - 1:
                    kept["sizes"].append(sizes(server))
                    if args.queries:
                        away = time.monotonic()
                        kept["answers"].append(answers(server, (batch + 1) * args.rows))
                        begun += time.monotonic() - away
                    shown = statistics.mean(kept["seconds"][-every:])
                    print(f"{name} {batch + 1}: {shown:.2f} s {kept['sizes'][-1]}", flush=True)
                if time.monotonic() - begun > args.minutes * 60:
                    break
            way.end()
            kept["took"] = time.monotonic() - begun
            server.sql("CHECKPOINT")
            os.sync()
            kept["written"] = sectors() - before
            kept["io"] = json.loads(server.sql(IO))
            kept["reader"] = reader.end()
            kept["merges"] = way.merges
            kept["sizes"].append(sizes(server))
            kept["rows"] = int(server.sql("SELECT count(*) FROM events"))
        kept["waits"] = waits(server)
        lines = server.log.read_text().splitlines()
        kept["crashes"] = sum("was terminated by signal" in line for line in lines)
    finally:
        server.remove()
    if kept["rows"] != len(kept["seconds"]) * args.rows:
        raise RuntimeError(f"{kept['rows']} rows of {len(kept['seconds'])} batches")
    return kept


def file_name(way: str) -> str:
    return way.replace(",", "").replace(" ", "-")


def waits(server: Server) -> list[str]:
    """Queries that waited for a lock longer than 100 ms."""
    lines = server.log.read_text().splitlines()
    found = []
    for number, line in enumerate(lines):
        if "still waiting for" in line:
            statement = next((s for s in lines[number:] if "STATEMENT:" in s), "")
            if "SELECT" in statement and "LOCK TABLE" not in statement:
                found.append(statement.split("STATEMENT:", 1)[1].strip())
    return found


def of_one_table(args: argparse.Namespace) -> list[dict]:
    """The same queries of one table that was indexed afterwards."""
    every = max(args.batches // args.looks, 1)
    server = Server("ingest", settings=SETTINGS)
    try:
        reference = Reference(server, FOLDER, args)
        found = []
        for look in range(args.batches // every):
            server.group.memory(None)
            reference.grow((look + 1) * every)
            server.group.memory(args.memory)
            found.append(answers(server, (look + 1) * every * args.rows))
            print(f"one table {(look + 1) * every}: {found[-1]}", flush=True)
        return found
    finally:
        server.remove()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=[*WAYS, "queries of one table"], action="append")
    parser.add_argument("--batches", type=int, default=1440)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--memory", type=int, default=MEMORY)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds")
    parser.add_argument("--minutes", type=float, default=120.0, help="of one way")
    parser.add_argument("--looks", type=int, default=20, help="times that sizes are asked for")
    parser.add_argument("--queries", action="store_true", help="ask at each look")
    parser.add_argument("--option", action="append", default=[], help="of fullbore ingest")
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.page:
        for name in args.only or WAYS:
            its = of_one_table(args) if name not in WAYS else measured(name, args)
            given = {key: str(value) for key, value in vars(args).items()}
            kept = page.without_paths(json.dumps({"given": given, "found": its}))
            (args.out / f"{file_name(name)}.json").write_text(kept + "\n")
    written(args.out)


def written(out: Path) -> None:
    """A table and the curves, of all that was kept."""
    head = ["way", "first s", "last s", "last / first", "longest s", "partitions"]
    head += ["index / memory", "written / text", "waits over 100 ms"]
    lines, curves = [], {}
    for name in WAYS:
        path = out / f"{file_name(name)}.json"
        if not path.exists():
            continue
        kept = json.loads(path.read_text())
        found, memory = kept["found"], int(kept["given"]["memory"])
        seconds = found["seconds"]
        ends = min(ENDS, len(seconds) // 4)
        first, last = (statistics.median(some) for some in (seconds[:ends], seconds[-ends:]))
        lines.append(
            [
                name,
                f"{first:.2f}",
                f"{last:.2f}",
                f"{last / first:.2f}",
                f"{max(seconds):.2f}",
                max(one["partitions"] for one in found["sizes"]),
                f"{max(one['indexes'] for one in found['sizes']) / memory:.1f}",
                f"{found['written'] / found['text']:.1f}",
                len(found["waits"]),
            ]
        )
        step = max(len(seconds) // 72, 1)
        curves[name] = [
            (float(at), statistics.median(seconds[at : at + step]))
            for at in range(0, len(seconds) - step + 1, step)
        ]
    if not lines:
        return
    page.show((head, lines))
    sections = [
        ("Until a batch is seen", page.curves(curves, "batches", "seconds")),
        ("In all", page.table(head, lines)),
    ]
    page.write(out / "page.html", "Batches into indexes that outgrow memory", sections)


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
