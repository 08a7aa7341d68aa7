"""Record 2 in miniature: "Lack of parallelism on data loads", a blog on overlapped I/O.

    python benchmarks/records/blog.py

The disk by total size, chunk and writes in flight; load and index on one core against all. About 6
minutes. Raw data and the page are written to benchmarks/records/blog.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
from pathlib import Path

import loads
import page
from lab import DATA, FULLBORE, SCRATCH
from servers import REPLICA, Server

OUT = loads.HERE / "blog"
# Total sizes, chunks, and writes in flight.
SIZES = ("256M", "2G")
CHUNKS = ("4k", "64k", "1M")
IN_FLIGHT = (1, 4, 16, 64)
ROWS = 4_000_000
TABLE = (
    "CREATE TABLE orders (id bigint PRIMARY KEY, customer int NOT NULL, at timestamp NOT NULL,"
    " amount numeric(10,2) NOT NULL);"
    " CREATE INDEX ON orders (customer); CREATE INDEX ON orders (at)"
)
LOAD = ["--format", "csv", "--header", "none", "--table", "orders"]
ONE_CORE = ["--streams", "1", "--parsers", "1"]
# Name: the cores of load and server, and the options of the load.
WAYS: dict[str, tuple[int, list[str]]] = {
    "one core, index while rows are loaded": (1, ONE_CORE),
    "one core, index afterwards": (1, [*ONE_CORE, "--publish", "replace"]),
    "all cores, index while rows are loaded": (0, []),
    "all cores, index afterwards": (0, ["--publish", "replace"]),
}
BASELINE = next(iter(WAYS))


def disk() -> list[dict]:
    """What the disk takes, by total size, chunk and writes in flight."""
    cells = []
    for size in SIZES:
        command = [str(FULLBORE), "preflight", "disk", str(DATA), "--write", "--json"]
        command += ["--size", size, "--block", ",".join(CHUNKS), "--seconds", "1.5"]
        command += ["--depth", ",".join(map(str, IN_FLIGHT))]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        for cell in json.loads(done.stdout)["cells"]:
            cells.append(
                {
                    "size": size,
                    "chunk": cell["block_bytes"],
                    "in_flight": cell["depth"],
                    "rate": cell["bytes_per_second"] / 1e6,
                    "cpu": cell["cpu_seconds_per_gigabyte"],
                }
            )
    return cells


def rows() -> list[Path]:
    """Small rows, in the order of nothing: their index is written to all over."""
    folder = DATA / f"small-rows-{ROWS}"
    if not (folder / ".done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = ROWS // 8
        for number in range(8):
            with (folder / f"orders-{number}.csv").open("w") as out:
                for row in range(number * part, (number + 1) * part):
                    # A multiplicative order: every id once, none near the one before.
                    key = row * 2_654_435_761 % 2**32
                    minute, day = key // 60 % 60, 1 + key % 28
                    out.write(
                        f"{key},{key % 100_003},2008-02-{day:02} 11:{minute:02}:{key % 60:02},"
                        f"{key % 1_000_000 / 100:.2f}\n"
                    )
        (folder / ".done").touch()
    return sorted(folder.glob("orders-*.csv"))


def cores(server: Server, count: int) -> list[str]:
    """Ties the server to so many processors (0: all); what does the same to a load."""
    every = sorted(os.sched_getaffinity(0))
    mine = every[:count] if count else every
    for pid in server.pids():
        os.sched_setaffinity(pid, mine)
    return ["taskset", "-c", ",".join(map(str, mine))]


def ways(repeat: int) -> dict[str, list[dict]]:
    """Loads of small rows into a table with three indexes."""
    files = rows()
    server = Server("blog", settings=REPLICA | {"maintenance_work_mem": "256MB"})
    try:

        def one(name: str) -> dict:
            count, options = WAYS[name]
            server.clear()
            server.sql(TABLE)
            prefix = cores(server, count)
            done = loads.loaded([*LOAD, "--to", server.url, *options], files, prefix)
            seconds = {phase["name"]: phase["seconds"] for phase in done["phases"]}
            return {"total": done["seconds"], "phases": seconds, "verdict": done["verdict"]}

        found = loads.blocks(
            {name: lambda name=name: one(name) for name in WAYS}, repeat, said="total"
        )
    finally:
        server.remove()
    return found


def measured() -> dict:
    SCRATCH.mkdir(mode=0o755, exist_ok=True)
    try:
        return {"disk": disk(), "loads": ways(4)}
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)


def written(raw: dict) -> None:
    cells, found = raw["disk"], raw["loads"]
    total = {name: [one["total"] for one in its] for name, its in found.items()}
    minute = {name: ROWS / statistics.median(its) * 60 / 1e6 for name, its in total.items()}
    best = max(cells, key=lambda cell: cell["rate"])
    enough = min(
        (cell for cell in cells if cell["rate"] >= 0.95 * best["rate"]),
        key=lambda cell: cell["chunk"] * cell["in_flight"],
    )
    most = max(minute, key=lambda name: minute[name])
    size = sum(path.stat().st_size for path in rows())
    theirs = (
        ["what", "the blog", "here"],
        [
            ["small rows a minute", "1 million, one core of eight",
             f"{minute[BASELINE]:.1f} million on one core, {minute[most]:.1f} million on all"],
            ["the disk", "110 MB/s, almost no CPU",
             f"{best['rate']:,.0f} MB/s, {best['cpu']:.2f} CPU s/GB"],
            ["writes that are enough", "unbuffered, several in flight",
             f"{_size(enough['chunk'])} x {enough['in_flight']}"],
            ["load against the disk, of text", "under 1 of 110 MB/s",
             f"{size / statistics.median(total[most]) / 1e6:.0f} of {best['rate']:,.0f} MB/s"],
        ],
    )  # fmt: skip
    head = ["way", "million rows/min", "total s", "load s", "index s", "change", "verdict"]
    lines: list[list[object]] = [
        [
            name,
            f"{minute[name]:.2f}",
            f"{statistics.median(total[name]):.2f}",
            _phase(its, "load"),
            _phase(its, "index"),
            "baseline" if name == BASELINE else loads.change(total[BASELINE], total[name]),
            loads.shares(its[0]["verdict"], 2),
        ]
        for name, its in found.items()
    ]
    page.show(theirs, (head, lines))
    heats = []
    for size in SIZES:
        by = {(c["chunk"], c["in_flight"]): c["rate"] for c in cells if c["size"] == size}
        chunks = sorted({chunk for chunk, _ in by})
        values = [[by[chunk, depth] for depth in IN_FLIGHT] for chunk in chunks]
        names = [_size(chunk) for chunk in chunks]
        heats.append(f"<p>{size} in all:</p>" + page.heat(names, [*map(str, IN_FLIGHT)], values))
    page.write(
        OUT / "page.html",
        "Record 2: overlapped I/O, and loads on one core",
        [
            ("Theirs and ours", page.table(*theirs)),
            ("Writes to the disk, MB/s, by chunk and writes in flight", "".join(heats)),
            (f"{ROWS // 10**6} million small rows, three indexes", page.table(head, lines)),
            ("What came of it", _words(minute, best, found)),
        ],
    )


def _size(count: int) -> str:
    return f"{count >> 20}M" if count >= 1 << 20 else f"{count >> 10}k"


def _phase(its: list[dict], name: str) -> str:
    seconds = [sum(s for phase, s in one["phases"].items() if name in phase) for one in its]
    return f"{statistics.median(seconds):.2f}"


def _words(minute: dict[str, float], best: dict, found: dict[str, list[dict]]) -> str:
    names = list(WAYS)
    one, all_cores = minute[names[0]], minute[names[3]]
    return (
        f"<p>The disk takes {best['rate']:,.0f} MB/s at {best['cpu']:.2f} CPU seconds per GB, so it"
        f" is no limit to a load of small rows. On one core, with indexes kept while rows are"
        f" loaded, {one:.1f} million rows a minute go in"
        f" ({loads.shares(found[names[0]][0]['verdict'], 2)}). Indexes built afterwards bring"
        f" {minute[names[1]] / one:.2f} x on one core; all {os.cpu_count()} cores bring"
        f" {minute[names[2]] / one:.2f} x, and both together {all_cores / one:.2f} x. The blog's"
        " database used one core of eight for all of it.</p>"
        "<p>Its second finding, batches that take longer once the index is larger than memory, is"
        " a matter of many loads into one table, not of one.</p>"
    )


if __name__ == "__main__":
    page.record(OUT, measured, written)
