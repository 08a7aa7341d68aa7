"""Record 1 in miniature: "We loaded 1 TB in 30 minutes with SSIS" (2008).

    python benchmarks/records/ssis.py

TPC-H in 56 stream files over a network: a package per stream against one command, one setting upon
the other, a table per stream against one heap, one slow source disk. About 10 minutes. Needs root.
Raw data and the page are written to benchmarks/records/ssis.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import loads
import page
from lab import DATA, FULLBORE, ROOT, SCRATCH, environment, tpch
from links import Hosts, inside, shaped
from servers import Server
from straggler import slow_disk

OUT = loads.HERE / "ssis"
SCALE, STREAMS = "0.5", 56
TABLES = ("lineitem", "orders", "partsupp", "part", "customer", "supplier")
KEYS = {"lineitem": "l_orderkey", "orders": "o_orderkey", "partsupp": "ps_partkey"}
KEYS |= {"part": "p_partkey", "customer": "c_custkey", "supplier": "s_suppkey"}
# One setting after the other, as the record's table has them, each upon those that were kept.
STEPS = ("message-size=4kB,32kB", "piece-size=1MB,64MB", "streams=56,4")
BLOCKS = 4
ONE_HEAP = "one command, one heap"
# Of 56 files these are on a disk of their own: a server of four had 14.
SLOW_FILES = range(14)
# MB/s of a reader, ms of a request, readers at a time: fragments all over it.
FRAGMENTED = ("3", "4", "1")


def files(folder: Path, name: str, stream: int | None = None) -> str:
    """A table's files, or that of one stream."""
    return f"{folder}/{name}.tbl.{'*' if stream is None else stream}"


def job(at: Path, folder: Path, more: str = "", stream: int | None = None, each: str = "") -> Path:
    """A job of all tables, or of one stream of them."""
    lines = [f"{more}\n"]
    for name in TABLES:
        lines.append(f'[[table]]\nname = "{name}"\nformat = "tbl"\n')
        lines.append(f'sources = ["{files(folder, name, stream)}"]\n')
        lines.append(each.format(name=name, key=KEYS[name]) + "\n")
    at.write_text("".join(lines))
    return at


class Field:
    """Two hosts, a server on one of them, and the tables in it."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts, self.folder = hosts, folder
        self.server = Server(
            f"ssis-{os.getpid()}",
            settings={"max_connections": "150", "max_locks_per_transaction": "1024"},
            host=(hosts.server, hosts.server_address),
        )
        self.number = 0
        lines = (path.read_bytes().count(b"\n") for path in folder.glob("lineitem.tbl.*"))
        self.rows = sum(lines)

    def fresh(self, has_tables: bool = True) -> Path:
        """Empty tables, and a place for a job."""
        self.server.clear()
        self.server.sql("CREATE EXTENSION fullbore")
        if has_tables:
            for name in TABLES:
                self.server.sql((ROOT / "demo" / "schema" / f"{name}.sql").read_text())
        self.number += 1
        folder = SCRATCH / f"jobs-{self.number}"
        folder.mkdir()
        return folder

    def load(self, path: Path, *options: str) -> dict:
        """One command for all of it."""
        arguments = [
            "--to",
            self.server.url,
            "--statistics=none",
            "--streams",
            str(STREAMS),
            *options,
        ]
        done = loads.loaded(arguments, [path], inside(self.hosts.client))
        return {key: done[key] for key in ("seconds", "verdict", "events")}

    def one_heap(self, *options: str, folder: Path | None = None) -> dict:
        """All streams into one heap for each table."""
        path = job(self.fresh() / "job.toml", folder or self.folder, "tables_at_once = true")
        return self.load(path, *options)

    def table_per_stream(self, *options: str) -> dict:
        """A table per piece, each with its range, attached as partitions."""
        each = (
            'create = true\nschema_file = "{schema}/{name}.sql"\npublish = "partitions"\n'
            'partition_by = "{key}"'
        ).replace("{schema}", str(ROOT / "demo" / "schema"))
        at = self.fresh(has_tables=False) / "job.toml"
        return self.load(job(at, self.folder, "tables_at_once = true", each=each), *options)

    def packages(self) -> dict:
        """The record's way: a package for each stream, its tables in order, all at once."""
        folder = self.fresh()
        more = (
            'streams = 1\nparsers = 1\nno_ledger = true\nstatistics = "none"\npiece_size = "64MB"'
        )
        command = [*inside(self.hosts.client), str(FULLBORE), "load", "--quiet", "--method", "copy"]
        began = time.monotonic()
        processes = []
        for stream in range(1, STREAMS + 1):
            path = job(folder / f"{stream}.toml", self.folder, more, stream)
            env = environment() | {"FULLBORE_HOME": str(folder / f"home-{stream}")}
            arguments = [*command, "--to", self.server.url, str(path)]
            processes.append(subprocess.Popen(arguments, env=env, stdout=subprocess.DEVNULL))
        if any(process.wait() for process in processes):
            raise RuntimeError("a package failed")
        return {"seconds": time.monotonic() - began}


def counted(field: Field, found: dict) -> dict:
    """The load is whole: as many rows of lineitem as there are lines."""
    count = int(field.server.sql("SELECT count(*) FROM lineitem"))
    if count != field.rows:
        raise RuntimeError(f"{count} rows of lineitem, not {field.rows}")
    return found


def slow(field: Field) -> dict:
    """The same load, with a quarter of the files on a fragmented disk."""
    folder = SCRATCH / "four-servers"
    folder.mkdir(exist_ok=True)
    slow_files = [field.folder / f"lineitem.tbl.{n + 1}" for n in SLOW_FILES]
    with slow_disk(slow_files, FRAGMENTED) as mounted:
        for path in field.folder.glob("*.tbl*"):
            link = folder / path.name
            link.unlink(missing_ok=True)
            is_slow = path in slow_files
            link.symlink_to(mounted[slow_files.index(path)] if is_slow else path)
        return field.one_heap("--method", "copy", folder=folder)


def measured() -> dict:
    folder = DATA / f"tpch-all-{SCALE}-{STREAMS}"
    SCRATCH.mkdir(mode=0o755, exist_ok=True)
    size = sum(path.stat().st_size for path in tpch(folder, SCALE, STREAMS, TABLES))
    try:
        with shaped(None) as hosts:
            field = Field(hosts, folder)
            try:
                path = job(field.fresh() / "job.toml", folder, "tables_at_once = true")
                stepwise = loads.swept(
                    [
                        "--to",
                        field.server.url,
                        "--statistics=none",
                        "--method",
                        "copy",
                        "--stepwise",
                    ],
                    [path],
                    OUT / "steps",
                    list(STEPS),
                    BLOCKS,
                    inside(hosts.client),
                )
                ways: dict[str, Callable[[], dict]] = {
                    "a package per stream, one heap": field.packages,
                    ONE_HEAP: lambda: field.one_heap("--method", "copy"),
                    "one command, a table per stream": lambda: field.table_per_stream(
                        "--method", "copy"
                    ),
                    "the same, rows laid out by the client": lambda: field.table_per_stream(
                        "--method", "direct"
                    ),
                }
                checked = {
                    name: lambda way=way: counted(field, way()) for name, way in ways.items()
                }
                found = loads.blocks(checked, BLOCKS, said="seconds")
                fragmented = slow(field)
            finally:
                field.server.remove()
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
    # Of all curves one is shown.
    by_table = loads.rates_by_table(found[ONE_HEAP][-1]["events"])
    slow_by_table = loads.rates_by_table(fragmented.pop("events"))
    for one in (one for its in found.values() for one in its):
        one.pop("events", None)
    return {
        "bytes": size,
        "steps": {key: stepwise[key] for key in ("rows", "steps")},
        "ways": found,
        "fragmented": fragmented,
        "by_table": by_table,
        "slow_by_table": slow_by_table,
    }


def written(raw: dict) -> None:
    """Tables and the page."""
    stepwise, found, fragmented = raw["steps"], raw["ways"], raw["fragmented"]
    size = raw["bytes"]
    names = list(found)
    seconds = {name: [one["seconds"] for one in its] for name, its in found.items()}
    middle = {name: statistics.median(its) for name, its in seconds.items()}
    cores = os.cpu_count() or 1
    best = min(middle.values())
    theirs = (
        ["what", "2008", "here"],
        [
            ["data", "1.18 TB of TPC-H, 56 streams",
             f"{size / 1e9:.2f} GB of TPC-H, {STREAMS} streams"],
            ["rate", "658 MB/s on 96 cores", f"{size / best / 1e6:.0f} MB/s on {cores} cores"],
            ["rate by core", "6.9 MB/s", f"{size / best / 1e6 / cores:.0f} MB/s"],
            ["packets of 4 to 32 KB", "-25% time", _step(stepwise, "message-size")],
            ["batch size", "no difference", _step(stepwise, "piece-size")],
            ["56 streams or fewer", "swept by hand", _step(stepwise, "streams")],
            ["a table per stream against one heap", "a little faster",
             loads.change(seconds[names[1]], seconds[names[2]])],
            ["one fragmented disk", "the long tail of a few streams",
             f"{fragmented['seconds'] / middle[names[1]]:.1f} x the time, named by the verdict"],
        ],
    )  # fmt: skip
    ways_head = ["way", "seconds", "MB/s", "change in time", "verdict"]
    ways_rows = [
        [
            name,
            f"{middle[name]:.2f}",
            f"{size / middle[name] / 1e6:.1f}",
            "baseline" if name == names[0] else loads.change(seconds[names[0]], seconds[name]),
            loads.shares(its[-1]["verdict"], 2) if "verdict" in its[-1] else "",
        ]
        for name, its in found.items()
    ]
    ways_rows.append(
        [
            "one heap, a fragmented source disk",
            f"{fragmented['seconds']:.2f}",
            f"{size / fragmented['seconds'] / 1e6:.1f}",
            "",
            loads.shares(fragmented["verdict"], 2),
        ]
    )
    steps = loads.table_of(stepwise)
    page.show(theirs, (ways_head, ways_rows), steps)
    stragglers = fragmented["verdict"].get("stragglers", [])
    named = [f"{Path(one['file']).name}: {one['seconds']:.1f} s" for one in stragglers[:5]]
    page.write(
        OUT / "page.html",
        "Record 1: a terabyte in 30 minutes",
        [
            ("Theirs and ours", page.table(*theirs)),
            ("Ways to load", page.table(ways_head, ways_rows)),
            ("One setting upon the other, one command into one heap", page.table(*steps)),
            ("MB/s by table, one heap", page.curves(raw["by_table"], "seconds", "MB/s")),
            (
                "MB/s by table, a quarter of lineitem on a fragmented disk",
                page.curves(raw["slow_by_table"], "seconds", "MB/s")
                + f'<p class="note">stragglers: {", ".join(named) or "none"}</p>',
            ),
            ("What came of it", _words(middle, names, fragmented, named)),
        ],
    )


def _step(stepwise: dict, name: str) -> str:
    step = next(step for step in stepwise["steps"] if step["factor"] == name)
    kept = "" if step["is_kept"] else ", not kept"
    return f"{step['tried']}: {loads.interval(step['alone'])}{kept}"


def _words(middle: dict[str, float], names: list[str], fragmented: dict, named: list[str]) -> str:
    return (
        f"<p>56 packages take {middle[names[0]] / middle[names[1]]:.2f} x as long as one command"
        " with 56 sessions: each starts, plans and looks at the catalog by itself, and cores are"
        " shared by 56 parsers. Rows that the client lays out as pages take"
        f" {middle[names[3]] / middle[names[1]]:.2f} of the time of one heap by COPY.</p>"
        "<p>The record's packets saved round trips of its driver; COPY is a stream without any, so"
        " the size of messages is a matter of CPU here, and streams beyond the cores are one of"
        " memory.</p>"
        f"<p>With a quarter of lineitem on a fragmented disk, the verdict is"
        f" {loads.shares(fragmented['verdict'], 2)}. In 2008 that disk was taken for the database"
        f" until the end. Pieces that took longest: {', '.join(named) or 'none'}.</p>"
    )


if __name__ == "__main__":
    page.record(OUT, measured, written)
