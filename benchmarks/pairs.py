"""Two builds of the command beside each other: is the newer one slower?

    .venv/bin/python benchmarks/pairs.py --before OLD/fullbore --case direct --way 'one table'

Ways of ours alone, in pairs on one server: before and after in turn, each time in the other order,
so that what drifts on the machine meets both alike. Kept under runs/<date>-<name>-pairs/.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import bench
from cases import CASES
from cases.setting import STANDARD_SCALE, Setting
from lab import DATA, FULLBORE, Case, Measured, Way, run_folder
from peers import ours
from server import Server

HEAD = [
    "| case | way | pairs | seconds before, after | ratio of medians | median of the pairs' ratios "
    "| client CPU | server CPU | client memory |",
    "|---|---|---|---|---|---|---|---|---|",
]


def main() -> int:
    """Runs the chosen ways in pairs and prints how they compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--before", type=Path, required=True, help="the older command")
    parser.add_argument("--after", type=Path, default=FULLBORE, help="the newer one")
    parser.add_argument("--case", action="append", choices=CASES, required=True)
    parser.add_argument("--way", action="append", help="only ways with this in their name")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--scale", default=f"{STANDARD_SCALE:g}", help="TPC-H scale of lineitem")
    parser.add_argument("--name", default=f"{platform.node()}-pairs")
    args = parser.parse_args()
    builds = {"before": args.before.resolve(), "after": args.after.resolve()}

    DATA.mkdir(parents=True, exist_ok=True)
    out = run_folder(args.name)
    server = Server()
    server.start()
    lines = [f"# {out.name}\n", "Ratios above 1: slower, or more, after.\n", *HEAD]
    try:
        with (out / "raw.jsonl").open("w") as raw:
            for name in args.case:
                with CASES[name](Setting(server, args.scale)) as case:
                    for way in case.ways:
                        is_asked = not args.way or any(part in way.name for part in args.way)
                        if way.name.startswith("fullbore") and is_asked:
                            found = in_pairs(case, way, case.server or server, builds, args.pairs)
                            for build, each in found:
                                line = {"case": name, "way": way.name, "build": build}
                                raw.write(json.dumps(line | asdict(each)) + "\n")
                            raw.flush()
                            lines.append(row(name, way, found))
                            print(lines[-1], flush=True)
    finally:
        (out / "summary.md").write_text("\n".join(lines) + "\n")
        server.stop()
    return 0


def in_pairs(
    case: Case, way: Way, server: Server, builds: dict[str, Path], pairs: int
) -> list[tuple[str, Measured]]:
    """What both builds took, one pair after the other."""
    found = []
    for number in range(pairs):
        for build in sorted(builds, reverse=number % 2 == 0):
            server.clear()
            bench.warm(case.files)
            ours.COMMAND = builds[build]
            found.append((build, way.load()))
    ours.COMMAND = FULLBORE
    return found


def row(name: str, way: Way, found: list[tuple[str, Measured]]) -> str:
    """A line of the table."""

    def values(build: str, of: str) -> list[float]:
        return [getattr(each, of) for which, each in found if which == build]

    def ratio(of: str) -> str:
        before, after = (statistics.median(values(build, of)) for build in ("before", "after"))
        return f"{after / before:.3f}" if before else "-"

    before, after = values("before", "seconds"), values("after", "seconds")
    pairs = statistics.median(b / a for a, b in zip(before, after, strict=True))
    return (
        f"| {name} | {way.name} | {len(before)} "
        f"| {statistics.median(before):.3f}, {statistics.median(after):.3f} "
        f"| {ratio('seconds')} | {pairs:.3f} "
        f"| {ratio('client_cpu')} | {ratio('server_cpu')} | {ratio('client_memory')} |"
    )


if __name__ == "__main__":
    sys.exit(main())
