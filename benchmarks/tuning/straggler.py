"""One source that gets ten times slower in its middle: how long the others wait for it.

    python benchmarks/tuning/straggler.py --out FOLDER [--before COMMAND] [--blocks 5]

Four files of one table, each a piece of its own for one of four streams; one of them is on a disk
that is ten times slower from its middle on. Compared in blocks of random order: the load as it is;
the same with an older command that does not split slow pieces, where one is named; and the ideal,
in which the slow file comes first and in pieces so small that nobody waits. Needs root.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "injected"))

from files import carried_out
from lab import FULLBORE, ROOT, SCRATCH, Missing, environment, lineitem
from trial import Stage, table

DISK = ROOT / "target" / "release" / "fullbore-disk"
# MB/s of a reader, ms of a request, readers at a time, from where it is how many times slower.
SLOW = ("20", "0.05", "16", "0.5", "10")
STREAMS = 4
# A piece is a file.
WHOLE = ["--piece-size", "1GB"]


@contextmanager
def slow_disk(files: list[Path], like: tuple[str, ...] = SLOW) -> Iterator[list[Path]]:
    """These files on a disk that gets slow, or is as slow as said."""
    if not DISK.exists():
        raise Missing("cargo build --release -p fullbore-testing --bin fullbore-disk")
    folder, mounted = SCRATCH / "disk", SCRATCH / "mounted"
    for made in (folder, mounted):
        made.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copy(file, folder / file.name)
    process = subprocess.Popen(
        [DISK, folder, mounted, *like], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin and process.stdout
    try:
        if process.stdout.readline() != "mounted\n":
            raise Missing("no file system of our own here")
        yield [mounted / file.name for file in files]
    finally:
        process.stdin.close()
        process.wait()


def loaded(stage: Stage, command: Path, files: list[Path], more: list[str]) -> dict:
    """Loads once, and says how long rows moved and how often a piece was split."""
    server = stage.server()
    table(server)
    arguments = [str(command), "load", "--json", "--to", server.url]
    arguments += ["--table", "lineitem", "--format", "tbl", "--method", "copy"]
    arguments += ["--streams", str(STREAMS), *more]
    done = carried_out(arguments, files, Path(environment()["FULLBORE_HOME"]))
    halved = sum(event["event"] == "piece_halved" for event in done["events"])
    return {"seconds": done["load_s"], "rows": done["rows"], "halved": halved}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--before", type=Path, help="a command without splitting")
    parser.add_argument("--blocks", type=int, default=5)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    raw = args.out / "straggler.jsonl"
    stage, draw = Stage(), Random(1)
    try:
        files = lineitem("1", 4)
        with slow_disk([files[-1]]) as slow:
            ways = {
                "ideal": (FULLBORE, [*slow, *files[:-1]], ["--piece-size", "16MB"]),
                "split": (FULLBORE, [*files[:-1], *slow], WHOLE),
            }
            if args.before:
                ways["whole"] = (args.before, [*files[:-1], *slow], WHOLE)
            for block in range(args.blocks):
                for way in draw.sample(sorted(ways), len(ways)):
                    line = {"way": way, "block": block, **loaded(stage, *ways[way])}
                    with raw.open("a") as out:
                        out.write(json.dumps(line) + "\n")
                    print(line, flush=True)
        lines = [json.loads(line) for line in raw.read_text().splitlines()]
        by_way = {way: [one["seconds"] for one in lines if one["way"] == way] for way in ways}
        middle = {way: statistics.median(found) for way, found in by_way.items()}
        for way, seconds in middle.items():
            print(f"{way}: {seconds:.1f} s, {seconds / middle['ideal']:.2f} x the ideal")
    finally:
        stage.end()
        shutil.rmtree(SCRATCH, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
