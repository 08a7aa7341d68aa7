"""Loads into DuckDB, SQLite and MariaDB that are killed, interrupted, or lose their server.

    python scripts/faults/databases.py --out FOLDER [--count 20] [--seed N] [--only duckdb]

Each trial loads a file in one of the ways to publish, strikes at a random moment, and resumes until
the load says that it is done; every other one strikes once more while it is resumed. Then the table
must hold each row once, no other table may be left, and the ledger must know of no piece.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests"))

import fullbore
from database_places import DRIVERS, MariaDb, Place

ROWS = 120_000
WAYS = {"append": (), "atomic": ("--atomic",), "replace": ("--publish", "replace")}
# MariaDB's alone.
PARTITIONS = {"partitions": ("--publish", "partitions")}
KINDS = {
    "duckdb": ("kill", "interrupt"),
    "sqlite": ("kill", "interrupt"),
    "mysql": ("kill", "interrupt", "disconnect", "restart"),
}
TABLE = "CREATE TABLE numbers (id bigint, amount decimal(12,2), note varchar(200))"
TABLE_OF_SQLITE = "CREATE TABLE numbers (id integer, amount double, note text)"
FOUND = "SELECT count(*), sum(id), sum(round(amount * 100)), sum(length(note)) FROM numbers"
TRIES = 8


class Wrong(Exception):
    """What must not be."""


def numbers(path: Path) -> tuple[int, ...]:
    """A file of rows, and what a query should say of them."""
    chance = Random(1)
    cents = letters = 0
    with path.open("w") as file:
        file.write("id,amount,note\n")
        for number in range(ROWS):
            amount, note = chance.randrange(10**6), f"note {chance.random():.6f}"
            cents, letters = cents + amount, letters + len(note)
            file.write(f"{number},{amount / 100:.2f},{note}\n")
    return ROWS, ROWS * (ROWS - 1) // 2, cents, letters


class Trials:
    """Trials at one database."""

    def __init__(self, scheme: str, folder: Path, maria: MariaDb | None, draw: Random) -> None:
        self.scheme, self.folder, self.maria, self.draw = scheme, folder, maria, draw
        self.file = folder / "numbers.csv"
        self.expected = numbers(self.file)
        self.ways = WAYS | PARTITIONS if scheme == "mysql" else WAYS
        self.seconds: dict[str, float] = {}

    def place(self, name: str) -> Place:
        folder = self.folder / name
        folder.mkdir()
        place = Place(self.scheme, folder, self.maria)
        if self.scheme == "mysql":
            place.sql(f"{TABLE} PARTITION BY HASH (id) PARTITIONS 5")
        else:
            place.sql(TABLE_OF_SQLITE if self.scheme == "sqlite" else TABLE)
        return place

    def start(self, place: Place, *options: str) -> subprocess.Popen[str]:
        command = [str(fullbore.find_command()), "load", str(self.file), "--to", place.to]
        command += ["--table", "numbers", "--piece-size", "200kB", "--quiet", *options]
        # Long enough to be struck in its middle.
        command += ["--max-rate", "3MB/s"]
        environment = os.environ | {
            "FULLBORE_HOME": str(place.file.parent / "state"),
            "ADBC_DRIVER_PATH": str(DRIVERS),
        }
        return subprocess.Popen(
            command,
            env=environment,
            cwd=place.file.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def whole(self, way: str) -> float:
        """How long such a load takes when nothing happens."""
        if way not in self.seconds:
            place = self.place(f"whole-{way}")
            began = time.monotonic()
            process = self.start(place, *self.ways[way])
            said, _ = process.communicate(timeout=120)
            if process.returncode != 0:
                raise Wrong(f"a load that nothing happens to: {process.returncode}: {said}")
            self.seconds[way] = time.monotonic() - began
            self.check(place)
        return self.seconds[way]

    def strike(self, process: subprocess.Popen[str], kind: str) -> None:
        if kind == "kill":
            process.kill()
        elif kind == "interrupt":
            process.send_signal(signal.SIGINT)
        elif self.maria is not None and kind == "disconnect":
            of = "SELECT id FROM information_schema.processlist WHERE user = 'loader'"
            for (session,) in self.maria.sql(of):
                # It may have ended by itself meanwhile.
                self.maria.client("-e", f"KILL CONNECTION {session}")
        elif self.maria is not None:
            self.maria.kill()
            time.sleep(self.draw.uniform(0, 1))
            self.maria.start()

    def trial(self, number: int) -> dict[str, object]:
        way = self.draw.choice(sorted(self.ways))
        kind = self.draw.choice(KINDS[self.scheme])
        # Some strike after the end, which must change nothing.
        after = self.draw.uniform(0, 1.1 * self.whole(way))
        place = self.place(f"trial-{number}")
        told = {"scheme": self.scheme, "way": way, "kind": kind, "after": after, "codes": []}
        strikes = 1 + self.draw.randrange(2)
        for _ in range(TRIES):
            process = self.start(place, *self.ways[way], "--resume")
            if strikes > 0:
                strikes -= 1
                time.sleep(after)
                self.strike(process, kind)
                after = self.draw.uniform(0, self.whole(way))
            said, _ = process.communicate(timeout=300)
            told["codes"].append(process.returncode)
            if process.returncode == 0:
                break
            if process.returncode not in (1, 4, -signal.SIGKILL, -signal.SIGINT):
                raise Wrong(f"{told}: it ended with {process.returncode}: {said}")
        else:
            raise Wrong(f"{told}: it does not come to an end: {said}")
        try:
            self.check(place)
        except Wrong as wrong:
            raise Wrong(f"{told}: {wrong}") from wrong
        shutil.rmtree(place.file.parent)
        return told

    def check(self, place: Place) -> None:
        [found] = place.sql(FOUND)
        if tuple(int(float(str(value))) for value in found) != self.expected:
            raise Wrong(f"the table has {found}, not {self.expected}")
        if place.names() != ["numbers"]:
            raise Wrong(f"there are tables {place.names()}")
        if place.sql("SELECT count(*) FROM fullbore_pieces") != [(0,)]:
            raise Wrong("the ledger knows of pieces")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=20, help="trials of each database")
    parser.add_argument("--seed", type=int, default=Random().randrange(10**9))
    parser.add_argument("--only", choices=sorted(KINDS))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    wrong = 0
    for scheme in [args.only] if args.only else sorted(KINDS):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            Path(folder).chmod(0o755)
            maria = None
            if scheme == "mysql":
                home = Path(folder) / "server"
                home.mkdir()
                maria = MariaDb(home)
            trials = Trials(scheme, Path(folder), maria, Random(f"{args.seed} {scheme}"))
            for number in range(args.count):
                try:
                    told = trials.trial(number)
                except Wrong as error:
                    wrong += 1
                    told = {"scheme": scheme, "wrong": str(error)}
                with (args.out / "trials.jsonl").open("a") as out:
                    out.write(json.dumps(told) + "\n")
                print(json.dumps(told), flush=True)
            if maria is not None:
                maria.stop()
    print(f"seed {args.seed}: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
