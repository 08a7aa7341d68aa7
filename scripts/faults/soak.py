"""`make soak MINUTES=90`: loads, resumes and aborts again and again, and whether anything grows.

Watched are the client's memory and open files, the server's connections and resident memory, the
catalogs (autovacuum keeps them) and what a run leaves in the state folder. Each figure's median in
the last third must not be above that of the first third by more than a tenth and its slack.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import statistics
import sys
import time
from contextlib import suppress
from pathlib import Path

import checks
from faults import Kill
from load import LOADED, Command
from places import CACHE, Wrong
from trial import Trial
from ways import WAYS
from world import World

MEGABYTES = 80

# What a figure may grow by whatever it is: kilobytes, and numbers of things.
SLACK = {"client_kb": 20_000, "client_files": 4, "server_kb": 20_000, "catalog_kb": 2_000,
         "connections": 0, "state_kb_a_run": 50}  # fmt: skip

CATALOGS = """
    SELECT sum(pg_total_relation_size(oid)) / 1024 FROM pg_class
     WHERE relname IN ('pg_class', 'pg_attribute', 'pg_type', 'pg_index', 'pg_depend',
                       'pg_constraint', 'pg_statistic', 'pg_inherits')"""
CONNECTIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    " AND pid <> pg_backend_pid()"
)


class Watched(Command):
    """A load whose memory and files are looked at while it runs."""

    def watch(self, until: float | None = None) -> dict[str, int]:
        """Until it ends, or is so old; the most that was seen."""
        most = {"client_kb": 0, "client_files": 0}
        process = Path(f"/proc/{self.process.pid}")
        while not self.has_ended() and (until is None or self.age() < until):
            # A process that has just ended has a status without memory.
            with suppress(OSError, ValueError, IndexError):
                status = (process / "status").read_text()
                most["client_kb"] = int(status.split("VmHWM:")[1].split()[0])
                files = sum(1 for _ in (process / "fd").iterdir())
                most["client_files"] = max(most["client_files"], files)
            time.sleep(0.02)
        return most


def one(trial: Trial, rng: random.Random) -> dict[str, object]:
    """A load that is left alone, or stopped and gone on with, or stopped and rolled back."""
    setting = trial.setting
    what = rng.choice(("load", "load", "resume", "abort"))
    load = Watched(setting.home, trial.arguments(resume=False), setting.prefix)
    seen = load.watch(None if what == "load" else rng.random() * 1.2)
    if what != "load":
        load.send(rng.choice((signal.SIGINT, signal.SIGKILL)))
    ended = load.end()
    checks.sessions_have_ended(setting.server)
    state, _, _ = checks.ledger_state(setting.server)
    if what == "abort" and state in ("loading", "preparing"):
        run = setting.server.sql("SELECT run FROM fullbore_ledger.runs")
        aborted = Command(setting.home, ["runs", "abort", run, "--to", setting.url]).end()
        stays = trial.way.publish == "append" and not trial.atomic
        checks.require(aborted.code == LOADED or stays, f"abort: {aborted.code}: {aborted.said}")
        checks.taken_back(setting.server, rows_stay=stays)
    else:
        if ended.code != LOADED:
            trial.resume()
        trial.check()
    return {"what": what, "way": trial.way.name, **seen}


def state_of(world: World, trial: Trial, home: Path) -> dict[str, int]:
    """What the server has open and keeps, and what runs left on the client's disk."""
    server = trial.setting.server
    runs = list(home.glob("runs/*"))
    kept = sum(file.stat().st_size for run in runs for file in run.rglob("*") if file.is_file())
    pid = int((server.data / "postmaster.pid").read_text().split("\n", 1)[0])
    status = Path(f"/proc/{pid}/status").read_text()
    return {
        "connections": int(server.sql(CONNECTIONS)),
        "catalog_kb": int(float(server.sql(CATALOGS))),
        "server_kb": int(status.split("RssAnon:")[1].split()[0]),
        "state_kb_a_run": kept // 1024 // max(1, len(runs)),
    }


def grown(lines: list[dict[str, object]]) -> dict[str, tuple[float, float, bool]]:
    """Medians of the first and the last third, and whether that is growth."""
    third = max(1, len(lines) // 3)
    found = {}
    for name, slack in SLACK.items():
        first, last = (
            statistics.median(float(str(line[name])) for line in part if name in line)
            for part in (lines[:third], lines[-third:])
        )
        found[name] = (first, last, last > first * 1.1 + slack)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=90)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    args = parser.parse_args()
    rng = random.Random(args.seed)
    print(f"seed {args.seed}", file=sys.stderr)
    began, lines = time.monotonic(), []
    world = World(MEGABYTES, ("replica",))
    home = world.folder / "soak-home"
    home.mkdir()
    CACHE.mkdir(parents=True, exist_ok=True)
    log = CACHE / f"soak-{args.seed}.jsonl"
    try:
        world.server("replica").sql("ALTER SYSTEM SET autovacuum_naptime = '5s'")
        world.server("replica").sql("SELECT pg_reload_conf()")
        while time.monotonic() - began < args.minutes * 60:
            trial = Trial(world, Kill(), rng.choice(WAYS), len(lines), args.seed)
            trial.strikes_again = False
            trial.settle()
            trial.setting.home = home
            line = {**one(trial, rng), **state_of(world, trial, home)}
            line["at_s"] = round(time.monotonic() - began, 1)
            lines.append(line)
            with log.open("a") as out:
                out.write(json.dumps(line) + "\n")
    except Wrong as wrong:
        print(f"wrong in round {len(lines)}: {wrong}", file=sys.stderr)
        return 1
    finally:
        world.close()
    found = grown(lines)
    print(f"{len(lines)} rounds in {(time.monotonic() - began) / 60:.1f} minutes; {log}")
    for name, (first, last, is_growth) in found.items():
        print(f"{name:16} first third {first:>10.0f}   last third {last:>10.0f}"
              f"   {'GROWS' if is_growth else 'flat'}")  # fmt: skip
    return 1 if any(is_growth for _, _, is_growth in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
