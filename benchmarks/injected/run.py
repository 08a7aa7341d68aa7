"""Injects bottlenecks into loads and asks whether the verdict names them: see README.md."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent))

import matrix
from expected import EXPECTED
from kinds import KINDS
from lab import FULLBORE, ROOT, SCRATCH, Failed, Missing, environment, windows
from trial import Load, Stage

LOAD_TIMEOUT_S = 120
# A trial that somebody else disturbed is made again, so often. It is kept, and not judged.
ATTEMPTS_MAX = 3
OTHERS_MAX = 0.25


def main() -> int:
    """Runs the trials that have not been run yet, until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = ", ".join(KINDS)
    parser.add_argument("--kind", action="append", help=f"only this kind, may be repeated: {known}")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1, help="decides order and settings")
    parser.add_argument("--minutes", type=float, help="begin no trial after so long")
    parser.add_argument(
        "--out", type=Path, required=True, help="a folder; goes on with what is there"
    )
    parser.add_argument("--show", action="store_true", help="only write the summary anew")
    args = parser.parse_args()
    if unknown := set(args.kind or ()) - set(KINDS):
        parser.error(f"no such kind: {', '.join(sorted(unknown))}; there are {known}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    args.out.mkdir(parents=True, exist_ok=True)
    left = 0 if args.show else _trials(args)
    matrix.write(args.out)
    print(f"{left} trials are left" if left else "all trials are run", flush=True)
    return 0


def _trials(args: argparse.Namespace) -> int:
    raw = args.out / "raw.jsonl"
    lines = raw.read_text().splitlines() if raw.exists() else []
    tried = [(line["kind"], line["repeat"]) for line in map(json.loads, lines)]
    good = [line for line in map(json.loads, lines) if not line.get("disturbed")]
    done = {(line["kind"], line["repeat"]) for line in good}
    done |= {trial for trial in tried if tried.count(trial) >= ATTEMPTS_MAX}
    # Complete blocks, each in an order of its own: what changes with time meets all kinds alike.
    order = []
    for repeat in range(args.repeats):
        block = list(args.kind or KINDS)
        Random(f"{args.seed} {repeat}").shuffle(block)
        order += [(kind, repeat) for kind in block if (kind, repeat) not in done]
    ends = time.monotonic() + (args.minutes or 1e9) * 60
    stage = Stage()
    try:
        with raw.open("a") as out:
            while order and time.monotonic() < ends:
                kind, repeat = order.pop(0)
                line = _trial(stage, args.seed, kind, repeat, EXPECTED[kind][1])
                out.write(json.dumps(line) + "\n")
                out.flush()
    finally:
        stage.end()
        shutil.rmtree(SCRATCH, ignore_errors=True)
    return len(order)


def _trial(stage: Stage, seed: int, kind: str, repeat: int, accept: list[str]) -> dict:
    draw = Random(f"{seed} {kind} {repeat}")
    line: dict[str, object] = {"kind": kind, "repeat": repeat, "seed": seed, "accept": accept}
    try:
        with KINDS[kind](stage, draw) as load:
            line |= {"notes": load.notes, "options": _without_paths(load.options)}
            line |= loaded(load)
        line["disturbed"] = disturbed(kind, line["window"])
    except Missing as reason:
        line["missing"] = str(reason)
    except (Failed, subprocess.SubprocessError) as error:
        line["failed"] = str(error)[-1500:]
    said = line.get("limit") or line.get("missing") or line.get("failed")
    right = "right" if line.get("limit") in accept else "WRONG"
    shares = " ".join(
        f"{share['limit']} {share['share']:.2f}" for share in line.get("shares", [])[:4]
    )
    seconds = line.get("seconds", 0)
    print(
        f"{kind} {repeat}: {right}: {said} in {seconds:.1f} s ({shares}) {line.get('notes')}",
        flush=True,
    )
    return line


def _without_paths(options: list[str]) -> list[str]:
    return [option.replace(f"{ROOT}/", "") for option in options]


def loaded(load: Load) -> dict:
    """Loads, and says what was made of it."""
    command = [
        *load.prefix,
        str(FULLBORE),
        "load",
        "--json",
        "--to",
        load.server.url,
    ]
    if "--statistics" not in load.options:
        command += ["--statistics", "none"]
    if "--table" not in load.options:
        command += ["--table", "lineitem", "--format", "tbl"]
    if "--method" not in load.options:
        command += ["--method", "copy"]
    command += [*load.options, "--", *map(str, load.files)]
    with load.during or nullcontext():
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment(), timeout=LOAD_TIMEOUT_S
        )
    if done.returncode != 0:
        raise Failed(f"{done.stderr[-1000:]} {done.stdout[-500:]}")
    summary = json.loads(done.stdout)
    verdict = summary["verdict"]
    record = Path(environment()["FULLBORE_HOME"]) / "runs" / summary["run_id"] / "record.jsonl"
    return {
        "limit": verdict["limit"],
        "share": verdict["share"],
        "sure": verdict["sure"],
        "shares": verdict["shares"],
        "phases": verdict.get("phases", []),
        "stragglers": [
            straggler | {"file": Path(straggler["file"]).name}
            for straggler in verdict.get("stragglers", [])
        ],
        "advice": summary["advice"],
        "seconds": summary["seconds"],
        "bytes": summary["bytes"],
        "window": windows(record),
    }


def disturbed(kind: str, window: dict) -> bool:
    """Whether somebody who is no part of the trial took much of the machine.

    Known from the machine's counters, whatever the verdict: CPU of all, less the client's and the
    server's. Of a server on another host it is not known, and little matters.
    """
    settings = window.get("settings")
    if kind == "busy_neighbour" or not settings or not settings["is_here"]:
        return False
    first, last = window["first"], window["last"]
    host = {name: last["host"][name] - first["host"].get(name, 0) for name in last["host"]}
    counted = ("cpu_ms", "watch_cpu_ms")
    server = sum(last["server"][name] - first["server"].get(name, 0) for name in counted)
    backends = sum(stream.get("backend_cpu_ms") or 0 for stream in last["streams"])
    others = host["all_ms"] - host["idle_ms"] - host["own_cpu_ms"] - server - backends
    return others > OTHERS_MAX * host["all_ms"]


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
