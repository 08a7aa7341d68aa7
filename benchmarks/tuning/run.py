"""Compares `--streams auto` with fixed numbers of streams where different things limit a load.

    python benchmarks/tuning/run.py --out FOLDER [--only NAME] [--blocks 2]

Each block has one load of every number, in random order, and one of `auto` that knows nothing and
one that knows what that settled on. Places are those of benchmarks/injected, with loads long enough
to settle. Needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "injected"))

from files import Distinct, Files, carried_out
from kinds import KINDS
from kinds.networks import _load
from lab import FULLBORE, SCRATCH
from links import wan
from trial import DIRECT, PARTITIONS, Load, Stage, kind, table

FIXED = (1, 2, 3, 4, 6, 8, 16, 32)
# How long a load of a fixed number takes, and one that has to find it.
FIXED_S, AUTO_S = 20.0, 75.0
# Within so much of the best a number is as good; one may be so many times the smallest of these.
GOOD, TIMES_MAX = 0.95, 1.3
SETTLED_S, SETTLED_SHARE = 30.0, 0.2


@dataclass
class Place:
    """A kind of injection, and about what it loads with the best number, in MB/s of text."""

    kind: object
    megabytes_per_second: float
    numbers: tuple[int, ...] = FIXED
    # Of files that have no key in common, as partitions need them.
    are_distinct: bool = False
    # Both as long, where a server's checkpoints make longer loads slower.
    seconds: tuple[float, float] = (FIXED_S, AUTO_S)
    options: tuple[str, ...] = ()


@kind
def local_copy(stage: Stage, draw: Random) -> Iterator[Load]:
    """COPY into a table, on this machine."""
    server = stage.server()
    table(server)
    yield Load(server, stage.files(100), [], {})


@kind
def local_direct(stage: Stage, draw: Random) -> Iterator[Load]:
    """Direct into partitions, on this machine."""
    server = stage.server()
    server.sql("CREATE EXTENSION IF NOT EXISTS fullbore")
    yield Load(server, stage.files(100), [*PARTITIONS, *DIRECT], {})


@kind
def far(stage: Stage, draw: Random) -> Iterator[Load]:
    """180 ms away, over 400 Mb/s."""
    with (
        wan(180, 400, queue_bytes=9_000_000) as hosts,
        _load(stage, draw, hosts, 20, 4, {"rtt_ms": 180, "megabits": 400}) as load,
    ):
        yield load


@kind
def link_100(stage: Stage, draw: Random) -> Iterator[Load]:
    """100 Mb/s, 2 ms away."""
    with (
        wan(2, 100, queue_bytes=250_000) as hosts,
        _load(stage, draw, hosts, 12, 4, {"rtt_ms": 2, "megabits": 100}) as load,
    ):
        yield load


PLACES = {
    "local_copy": Place(local_copy, 100, (1, 2, 3, 4, 6, 8, 16), seconds=(35, 35)),
    "local_direct": Place(
        local_direct, 180, (1, 2, 3, 4, 6, 8), are_distinct=True, seconds=(35, 35)
    ),
    "client_cpu": Place(
        KINDS["client_quota"], 55, (1, 2, 3, 4, 6, 8), are_distinct=True, seconds=(40, 40)
    ),
    "server_cpu": Place(KINDS["server_one_core"], 60, (1, 2, 3, 4, 6, 8), seconds=(45, 45)),
    "wal": Place(KINDS["wal_throttled"], 19, (1, 2, 3, 4, 6, 8)),
    "link_100": Place(link_100, 11, (1, 2, 3, 4, 6, 8)),
    # All as long: windows grow for a long time.
    "far": Place(far, 30, (8, 16, 24, 32, 48), seconds=(60, 60)),
    "slow_source": Place(
        KINDS["source_throttled"],
        26,
        (1, 2, 3, 4, 6, 8),
        seconds=(12, 35),
        # Rows that are appended are known again by their files' contents, which are read before.
        options=("--publish", "replace"),
    ),
}


@contextmanager
def staged(stage: Stage, place: Place, seconds: float) -> Iterator[Load]:
    """A load of about so many seconds."""
    files = Distinct() if place.are_distinct else Files(stage)
    wanted = place.megabytes_per_second * seconds
    stage.files = lambda megabytes: files.of(wanted)  # type: ignore[method-assign]
    try:
        with place.kind(stage, Random(7)) as load:
            options, given = [], iter(load.options)
            for option in given:
                if option in ("--streams", "--parsers"):
                    next(given)
                else:
                    options.append(option)
            load.options = options
            yield load
    finally:
        del stage.files


def measured(stage: Stage, place: Place, streams: str, home: Path) -> dict:
    """Loads with a number of streams, and says how fast."""
    fixed, auto = place.seconds
    with staged(stage, place, auto if streams == "auto" else fixed) as load:
        command = [*load.prefix, str(FULLBORE), "load", "--json", "--statistics=none", "--to"]
        command += [load.server.url, "--streams", streams, "--format", "tbl"]
        if "--table" not in load.options:
            command += ["--table", "lineitem"]
        if "--method" not in load.options:
            command += ["--method", "copy"]
        command += [*load.options, *place.options]
        with load.during or nullcontext():
            return told(carried_out(command, load.files, home))


def told(summary: dict) -> dict:
    """What is kept of a load: its rate while rows moved, and when its number was settled."""
    events = summary["events"]
    settled = next((e for e in events if e["event"] == "streams_settled"), None)
    samples = [
        (e["at"], sum(t["bytes_sent"] for t in e["tables"]))
        for e in events
        if e["event"] == "sample"
    ]
    begun = next((at for at, sent in samples if sent > 0), 0.0)
    line = {
        "rate": summary["rate"],
        "seconds": summary["load_s"],
        "streams": summary["streams"],
        "limit": summary["verdict"]["limit"],
        "tried": [[e["at"] - begun, e["streams"]] for e in events if e["event"] == "streams_tried"],
    }
    if settled:
        line["settled_at"] = settled["at"] - begun
        line["known"] = settled["tried"]
    # The last fifth is the tail.
    end = samples[-1][0] - 0.1 * summary["load_s"]
    begin = settled["at"] + 1 if settled else begun + 2
    inside = [(at, sent) for at, sent in samples if begin <= at <= end]
    if len(inside) > 5:
        (first, sent), (last, sent_last) = inside[0], inside[-1]
        line["steady"] = (sent_last - sent) / (last - first) / 1e6
    return line


def judged(lines: list[dict]) -> dict:
    """How auto compares with the best number."""
    rates: dict[int, list[float]] = {}
    for line in lines:
        if line["asked"] != "auto":
            rates.setdefault(int(line["asked"]), []).append(line.get("steady", line["rate"]))
    mean = {streams: statistics.mean(found) for streams, found in sorted(rates.items())}
    best = max(mean.values())
    smallest = min(streams for streams, rate in mean.items() if rate >= GOOD * best)
    found = {"rates": mean, "best": best, "smallest": smallest}
    for name in ("first", "again"):
        its = [line for line in lines if line["asked"] == "auto" and line["name"] == name]
        if its:
            settled = [one.get("settled_at", one["seconds"]) for one in its]
            late = [max(SETTLED_S, SETTLED_SHARE * one["seconds"]) for one in its]
            found[name] = {
                "is_small": all(one["streams"] <= TIMES_MAX * smallest for one in its),
                "is_early": all(at <= by for at, by in zip(settled, late, strict=True)),
                "of_best": statistics.mean(one["rate"] for one in its) / best,
                "steady_of_best": statistics.mean(one.get("steady", 0) for one in its) / best,
                "streams": [one["streams"] for one in its],
                "settled_at": [one.get("settled_at") for one in its],
                "seconds": [one["seconds"] for one in its],
            }
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", action="append", choices=list(PLACES))
    parser.add_argument("--blocks", type=int, default=2)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    raw = args.out / "raw.jsonl"
    stage = Stage()
    try:
        for name in args.only or PLACES:
            place, draw = PLACES[name], Random(name)
            for block in range(args.blocks):
                home = SCRATCH / f"home-{name}-{block}"
                order = [str(number) for number in place.numbers] + ["auto"]
                draw.shuffle(order)
                order.insert(order.index("auto") + 1, "auto again")
                for asked in order:
                    line = measured(stage, place, asked.split()[0], home)
                    line |= {"place": name, "block": block, "asked": asked.split()[0]}
                    line["name"] = "again" if asked.endswith("again") else "first"
                    with raw.open("a") as out:
                        out.write(json.dumps(line) + "\n")
                    said = f"{line['rate']:.1f} MB/s, steady {line.get('steady', 0):.1f}"
                    print(f"{name} {block} {asked}: {said}, {line['streams']} streams", flush=True)
                    if line["tried"]:
                        print(f"    {line['tried']} {line.get('settled_at')}", flush=True)
            lines = [json.loads(line) for line in raw.read_text().splitlines()]
            print(
                name, json.dumps(judged([one for one in lines if one["place"] == name])), flush=True
            )
    finally:
        stage.end()
        shutil.rmtree(SCRATCH, ignore_errors=True)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
