"""Loads over one path, over two equal ones, and over two of which one is half as fast.

    python benchmarks/tuning/paths.py --out FOLDER [--blocks 5]

The paths are those of the WAN lab, slow enough to limit the load. Each block has every case once,
in random order. Needs root.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "injected"))

from files import carried_out
from lab import FULLBORE, SCRATCH
from links import wan
from servers import Server
from trial import Stage, table

RTT_MS, MEGABITS = 2, 100
# Of text; COPY binary of lineitem is about 1.7 times as long.
MEGABYTES = 90
CASES = {
    # Name: the paths' rates, how many are used, and the policy.
    "one path": ((MEGABITS, MEGABITS), 1, "least-queue"),
    "two, least-queue": ((MEGABITS, MEGABITS), 2, "least-queue"),
    "two, round-robin": ((MEGABITS, MEGABITS), 2, "round-robin"),
    "one half as fast, least-queue": ((MEGABITS, MEGABITS / 2), 2, "least-queue"),
    "one half as fast, round-robin": ((MEGABITS, MEGABITS / 2), 2, "round-robin"),
}


def measured(stage: Stage, name: str, number: int) -> dict:
    """Loads by the paths of a case."""
    rates, used, policy = CASES[name]
    each = ",".join(map(str, rates))
    with wan(RTT_MS, each, queue_bytes=250_000) as hosts:
        host = (hosts.server, ",".join(hosts.server_addresses))
        server = Server(f"far-{hosts.server[-6:]}-{number}", host=host)
        try:
            table(server)
            url = f"postgresql://postgres@{hosts.server_address}:5432/postgres"
            command = [
                "ip",
                "netns",
                "exec",
                hosts.client,
                str(FULLBORE),
                "load",
                "--json",
                "--statistics=none",
            ]
            command += ["--to", url, "--table", "lineitem", "--format", "tbl", "--method", "copy"]
            command += ["--streams", "8", "--piece-size", "2MB"]
            for address in hosts.server_addresses[:used]:
                command += ["--endpoint", address]
            command += ["--endpoint-policy", policy] if used > 1 else []
            files = stage.files(MEGABYTES)
            home = SCRATCH / f"home-{number}"
            done = carried_out(command, files, home, 300)
        finally:
            server.remove()
    by: dict[str, int] = {}
    for event in done["events"]:
        if event["event"] == "piece_committed":
            by[event["endpoint"]] = by.get(event["endpoint"], 0) + event["bytes"]
    return {"case": name, "rate": done["rate"], "by": by, "limit": done["verdict"]["limit"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--blocks", type=int, default=5)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    stage, draw = Stage(), Random(5)
    rates: dict[str, list[float]] = {name: [] for name in CASES}
    number = 0
    try:
        for block in range(args.blocks):
            for name in draw.sample(list(CASES), len(CASES)):
                number += 1
                line = measured(stage, name, number) | {"block": block}
                with (args.out / "paths.jsonl").open("a") as out:
                    out.write(json.dumps(line) + "\n")
                rates[name].append(line["rate"])
                print(f"{block} {name}: {line['rate']:.2f} MB/s {line['by']}", flush=True)
    finally:
        stage.end()
        shutil.rmtree(SCRATCH, ignore_errors=True)
    median = {name: statistics.median(found) for name, found in rates.items()}
    for name, rate in median.items():
        print(f"{name}: {rate:.2f} MB/s")
    print(f"two paths against one: {median['two, least-queue'] / median['one path']:.2f}")
    uneven = [median[f"one half as fast, {policy}"] for policy in ("least-queue", "round-robin")]
    print(f"least-queue against round-robin, one half as fast: {uneven[0] / uneven[1]:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
