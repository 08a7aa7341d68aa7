"""`make faults`: loads that are struck at random moments, and must lose and double nothing.

Faults of machines: kill, interrupt, terminate, restart, network, disk, source. Faults of people:

    ddl      the target is renamed, altered, truncated, dropped, moved while it is loaded
    writer   others write to the target, with and without --replace-anyway and --lock-writers
    spelled  a load that was killed is resumed by a command that is spelled otherwise
    limits   no connection is to be had, the server only reads, a session ends while it publishes
    late     a COMMIT is held, lost or unheard on its way, the client cut off, killed or gone
    zombie   a client that was stopped wakes when its run has gone on elsewhere
    two      two loads of one target at once

Of a slow disk: straggler, whose pieces are split while they are loaded, and one of the first. Of
two paths to one server: path, one of which is cut, some times to be mended.

Of these each exit code, summary and last word is held against the table and the ledger, and what
is advised is done (promises.py).

    python scripts/faults/run.py                        all of it, or what is left of it
    python scripts/faults/run.py --only kill --count 5
    python scripts/faults/run.py --minutes 8            and go on another time
    python scripts/faults/run.py --short                a few of each, for `make test`

What was done is kept line by line in benchmarks/runs/<date>-<host>-faults/trials.jsonl: a run that
was ended goes on after its last line, with its seed. A trial depends on seed, fault and number
alone: `--seed S --only FAULT --number N` repeats one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import sys
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import repeated
import summary
from faults import Cut, Fault, Interrupt, Kill, Restart, Terminate
from faults_ddl import Ddl
from faults_disk import DiskFull
from faults_late import Late
from faults_limits import Limits
from faults_path import TwoPaths
from faults_source import SourceChanged
from faults_spelled import Spelled
from faults_straggler import Straggler
from faults_two import Two
from faults_writer import Writers
from faults_zombie import Zombie
from load import LOADED
from places import CACHE, FULLBORE, RUNS, Failed, Missing, Wrong
from trial import Trial
from ways import ALL, Way
from world import World

FAULTS: dict[str, type[Fault]] = {
    fault.name: fault
    for fault in (
        Kill, Terminate, Restart, Cut, DiskFull, Interrupt, SourceChanged,
        Ddl, Writers, Spelled, Limits, Late, Zombie, Two, Straggler, TwoPaths,
    )
}  # fmt: skip
COUNTS = {
    "kill": 200, "terminate": 100, "restart": 40, "network": 40, "disk": 10, "interrupt": 40,
    "source": 10,
    "ddl": 80, "writer": 60, "spelled": 80, "limits": 40, "late": 50, "zombie": 50, "two": 40,
    "straggler": 40, "path": 40,
}  # fmt: skip
SHORT = {
    "kill": 4, "terminate": 2, "restart": 2, "network": 4, "disk": 2, "interrupt": 2, "source": 2,
    "ddl": 5, "writer": 4, "spelled": 4, "limits": 3, "late": 2, "zombie": 3, "two": 4,
    "straggler": 2, "path": 2,
}  # fmt: skip
MEGABYTES, MEGABYTES_SHORT = 80, 40
# How much was repeated after kills at nine tenths; measured once all trials are done.
REPEATED = "repeated.jsonl"
DURATIONS = "undisturbed.json"


@dataclass(frozen=True)
class Planned:
    """A trial that is to be done."""

    fault: str
    number: int
    way: Way


def planned(counts: dict[str, int]) -> list[Planned]:
    """All trials, faults mixed, each fault's spread evenly over the ways."""
    trials = []
    for fault, count in counts.items():
        # Each fault begins with another way, so that few trials are not all of one; always with
        # the same, so that a trial can be repeated alone.
        at, ways = list(COUNTS).index(fault), FAULTS[fault].loaded_by
        for number in range(count):
            trials.append(Planned(fault, number, ways[(number + at) % len(ways)]))
    # In the order of their share done, so that a run that is cut off has seen all faults.
    return sorted(trials, key=lambda t: (t.number + 0.5) / counts[t.fault])


class Runner:
    """Carries trials out, one after the other, and keeps what they came to."""

    def __init__(self, out: Path | None, seed: int, world: World) -> None:
        self.out = out
        self.seed = seed
        self.world = world
        # Of loads that nothing strikes, measured once in a run.
        self.durations: dict[str, float] = {}
        if out is not None and (out / DURATIONS).exists():
            self.durations = json.loads((out / DURATIONS).read_text())

    def duration(self, trial: Trial) -> float:
        """How long a load takes that nothing strikes: measured, the median of three."""
        calm = trial.fault.undisturbed()
        size = f"{calm.data(self.world).bytes / 1e6:.0f} MB"
        where = f" {calm.name}" if calm.name else ""
        key = f"{trial.way.name} {trial.level}{' atomic' if trial.atomic else ''} {size}{where}"
        if key not in self.durations:
            seconds = []
            for _ in range(1 if where else 3):
                one = Trial(self.world, calm, trial.way, trial.number, self.seed)
                one.streams, one.atomic = 2, trial.atomic
                one.settle()
                ended = one.start(resume=False).end()
                calm.end(one)
                if ended.code != LOADED:
                    raise Failed(f"an undisturbed load ended with {ended.code}: {ended.said}")
                seconds.append(ended.seconds)
            one.check(thoroughly=True)
            self.durations[key] = round(statistics.median(seconds), 3)
            if self.out is not None:
                (self.out / DURATIONS).write_text(json.dumps(self.durations, indent=1) + "\n")
        return self.durations[key]

    def carry_out(self, plan: Planned) -> bool:
        """One trial; whether nothing was wrong."""
        began = time.monotonic()
        line: dict[str, object] = {
            "fault": plan.fault, "number": plan.number, "way": plan.way.name, "seed": self.seed,
            "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }  # fmt: skip
        trial = Trial(self.world, FAULTS[plan.fault](), plan.way, plan.number, self.seed)
        line.update(level=trial.level, atomic=trial.atomic, streams=trial.streams)
        try:
            duration = self.duration(trial)
            line["undisturbed_s"] = round(duration, 3)
            trial.run(duration)
            line["outcome"] = "equal"
        except Missing as missing:
            line.update(outcome="skipped", why=str(missing))
        except (Wrong, Failed) as wrong:
            line.update(outcome="wrong", why=str(wrong)[:3000])
            self.keep_evidence(trial, plan)
        line.update(trial.facts)
        line["seconds"] = round(time.monotonic() - began, 2)
        self.keep(line)
        return line["outcome"] != "wrong"

    def keep(self, line: dict[str, object]) -> None:
        if self.out is not None:
            with (self.out / "trials.jsonl").open("a") as out:
                out.write(json.dumps(line) + "\n")
        mark = {"equal": "ok  ", "skipped": "SKIP", "wrong": "FAIL"}[str(line["outcome"])]
        named = f"{line['fault']:9} {line['number']:>3}  {line['way']:17} {line['level']:8}"
        detail = f"struck at {line.get('share', '-')}, ended with {line.get('code', '-')}"
        detail += f", left {line.get('left') or 'nothing'}, resumes {line.get('resumes', [])}"
        print(f"{mark} {named} {line['seconds']:>6} s  {detail}", file=sys.stderr, flush=True)
        if "why" in line:
            print(f"     {line['why']}", file=sys.stderr, flush=True)

    def keep_evidence(self, trial: Trial, plan: Planned) -> None:
        """What may tell why: the client's state folder, the server's log."""
        folder = CACHE / "failures" / f"{self.seed}-{plan.fault}-{plan.number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        setting = getattr(trial, "setting", None)
        if setting is not None:
            (folder / "server.log").write_text(setting.server.log_end(200_000))
            if setting.home.exists():
                shutil.copytree(setting.home, folder / "home", dirs_exist_ok=True)
        print(f"     evidence: {folder}", file=sys.stderr)


def read_lines(folder: Path) -> list[dict[str, object]]:
    path = folder / "trials.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def has_all_trials(folder: Path) -> bool:
    done = {(line["fault"], line["number"]) for line in read_lines(folder)}
    return not any((t.fault, t.number) not in done for t in planned(COUNTS))


def folder_of_run(fresh: bool) -> Path:
    """The newest run that is not complete, or a new one."""
    known = sorted(RUNS.glob("*-faults*"))
    if known and not fresh and not (known[-1] / REPEATED).exists():
        return known[-1]
    base = f"{datetime.now(timezone.utc):%Y-%m-%d}-{os.uname().nodename}-faults"
    names = [base, *(f"{base}-{n}" for n in range(2, 100))]
    folder = next(RUNS / name for name in names if not (RUNS / name).exists())
    folder.mkdir(parents=True)
    return folder


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, help="repeat what another run did")
    parser.add_argument("--only", metavar="FAULT[,FAULT]", help=f"of {', '.join(FAULTS)}")
    parser.add_argument("--count", type=int, help="so many trials of each fault")
    parser.add_argument("--number", type=int, help="the one trial of this number")
    ways = [way.name for way in ALL]
    parser.add_argument("--way", choices=ways, help="in this one alone")
    parser.add_argument("--minutes", type=float, help="begin no trial after so long")
    parser.add_argument("--short", action="store_true", help="a few of each")
    parser.add_argument("--fresh", action="store_true", help="leave an unfinished run as it is")
    return parser.parse_args()


def wanted(args: argparse.Namespace) -> list[Planned]:
    counts = dict(SHORT if args.short else COUNTS)
    if args.only:
        names = args.only.split(",")
        unknown = [name for name in names if name not in FAULTS]
        if unknown:
            raise SystemExit(f"there is no fault {unknown[0]!r}: known are {', '.join(FAULTS)}")
        counts = {name: counts[name] for name in names}
    if args.count is not None:
        counts = dict.fromkeys(counts, args.count)
    if args.number is not None:
        counts = dict.fromkeys(counts, max(args.number + 1, *counts.values()))
    trials = planned(counts)
    if args.number is not None:
        trials = [trial for trial in trials if trial.number == args.number]
    if args.way:
        way = next(way for way in ALL if way.name == args.way)
        trials = [Planned(trial.fault, trial.number, way) for trial in trials]
    return trials


def main() -> int:
    args = arguments()
    if not FULLBORE.exists():
        raise SystemExit(f"{FULLBORE} is not there: run `make build`")
    # A part of it is for looking into something; only the whole is kept.
    is_part = args.short or any(
        value is not None for value in (args.only, args.count, args.number, args.way)
    )
    out = None if is_part else folder_of_run(args.fresh)
    before = read_lines(out) if out else []
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 31)
    if before:
        seed = int(str(before[0]["seed"]))
    done = {(line["fault"], line["number"]) for line in before}
    trials = [t for t in wanted(args) if (t.fault, t.number) not in done]
    print(f"seed {seed}; {len(trials)} trials, {len(done)} done before", file=sys.stderr)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began, failures = time.monotonic(), sum(line["outcome"] == "wrong" for line in before)
    levels = ("minimal",) if args.short else ("minimal", "replica")
    world = World(MEGABYTES_SHORT if args.short else MEGABYTES, levels)
    try:
        if world.network is None:
            print(f"SKIP network faults: {world.why_no_network}", file=sys.stderr)
        runner = Runner(out, seed, world)
        for trial in trials:
            if args.minutes is not None and time.monotonic() - began > args.minutes * 60:
                print("the time is over; the same command goes on", file=sys.stderr)
                break
            failures += not runner.carry_out(trial)
    finally:
        world.close()
    if out is not None and has_all_trials(out) and not (out / REPEATED).exists():
        lines = repeated.measure_all()
        failures += sum(line["outcome"] != repeated.RIGHT for line in lines)
        (out / REPEATED).write_text("".join(json.dumps(line) + "\n" for line in lines))
    if out is not None:
        summary.write(out, read_lines(out), len(planned(COUNTS)))
        print(f"{out / 'summary.md'}", file=sys.stderr)
    print(f"seed {seed}: {failures} wrong", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
