"""What observation costs: CPU of its threads and of its backend, beside the load's own."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from lab import DATA, SCRATCH, lineitem
from run import loaded
from trial import DIRECT, Load, Stage, table

PART_MAX = 0.01


def main() -> int:
    """Loads by both methods; 1 where observation took more than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    args.out.mkdir(parents=True, exist_ok=True)
    lines = []
    stage = Stage()
    try:
        for repeat in range(args.repeats):
            for name, way in (("copy", by_copy), ("direct", by_direct)):
                with way(stage) as load:
                    result = loaded(load)
                lines.append({"way": name, "repeat": repeat} | cost(result))
                print(json.dumps(lines[-1]), flush=True)
    finally:
        stage.end()
        shutil.rmtree(SCRATCH, ignore_errors=True)
    with (args.out / "cost.jsonl").open("w") as out:
        out.writelines(json.dumps(line) + "\n" for line in lines)
    text = [
        "# What observation costs\n",
        "CPU seconds: of the load (client, backends and the server's own processes), of the threads"
        " that observe, of the backend that they ask.\n",
        "| method | seconds | load | threads | backend | share |",
        "|---|---|---|---|---|---|",
    ]
    text += [
        f"| {line['way']} | {line['seconds']:.1f} | {line['load']:.2f} | {line['threads']:.3f}"
        f" | {line['backend']:.3f} | {line['share']:.2%} |"
        for line in lines
    ]
    (args.out / "cost.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))
    return 0 if all(line["share"] <= PART_MAX for line in lines) else 1


@contextmanager
def by_copy(stage: Stage) -> Iterator[Load]:
    """Appended to a table."""
    server = stage.server()
    table(server)
    yield Load(server, lineitem("1", 16), ["--streams", "3"], {})


@contextmanager
def by_direct(stage: Stage) -> Iterator[Load]:
    """Four times as much, since it is so much faster."""
    server = stage.server()
    server.sql("CREATE EXTENSION IF NOT EXISTS fullbore")
    table(server)
    options = ["--streams", "3", *DIRECT, "--publish", "replace"]
    yield Load(server, _four_times(), options, {})


def _four_times() -> list[Path]:
    """Lineitem's files under four names each: links, so that they lie in memory once."""
    folder = DATA / "tpch-1-16-four"
    folder.mkdir(exist_ok=True)
    files = []
    for path in lineitem("1", 16):
        for number in range(4):
            link = folder / f"{number}-{path.name}"
            if not link.exists():
                os.link(path, link)
            files.append(link)
    return files


def cost(result: dict) -> dict[str, object]:
    """Seconds of CPU, from the first and the last observation of a load."""
    first, last = result["window"]["first"], result["window"]["last"]

    def added(of: str, name: str) -> float:
        return (last[of][name] - first[of].get(name, 0)) / 1000

    # Of these two, what came before the first observation counts too: their beginning.
    threads = last["observing_ms"] / 1000
    backend = last["server"]["watch_cpu_ms"] / 1000
    backends = sum(stream.get("backend_cpu_ms") or 0 for stream in last["streams"]) / 1000
    load = added("host", "own_cpu_ms") - threads + backends + added("server", "cpu_ms")
    return {
        "seconds": result["seconds"],
        "load": load,
        "threads": threads,
        "backend": backend,
        "share": (threads + backend) / load,
    }


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
