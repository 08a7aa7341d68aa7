"""An ingest that is killed, or whose server is gone or has a full disk, while files appear.

    python scripts/faults/ingest.py --out FOLDER [--count 200] [--seed N]

Each trial strikes several times at random moments at one or two processes that ingest the same
files (or one that reads a pipe which is sent again from its beginning), while a reader counts rows.
Then an ingest is let come to its end: each row must be there once, no table be left that is no
partition; and what the reader counted must be whole batches, never fewer than before.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from disks import SmallDisk
from places import FULLBORE, Failed, Missing, Wrong, environment
from server import DATABASE, Server, folder_for_servers

ROWS = 3000
NOTE = "x" * 32
KINDS = ("kill", "interrupt", "terminate", "restart", "full")
SOURCES = ("files", "files", "two", "pipe")
# How rows are merged: with the server's extension, through the process, or within the server, as
# where a type has no binary form of its own.
WAYS = ("direct", "here", "within")
STRIKES_MAX = 4
# Of the file system that the server's tables are on, where one can be mounted.
ROOM_KB = 200_000
ENDS_S = 120.0


def text(number: int) -> str:
    """The rows of a file."""
    chance = Random(number)
    first = number * ROWS
    keys = (chance.randrange(10**9) for _ in range(ROWS))
    return "".join(f"{first + row},{key},{NOTE}\n" for row, key in enumerate(keys))


class Reader:
    """Counts rows all the time, while there is a server."""

    def __init__(self, server: Server) -> None:
        self.server, self.seen, self.over = server, [], threading.Event()
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self) -> None:
        while not self.over.is_set():
            with suppress(Failed):
                self.seen.append(int(self.server.sql("SELECT count(*) FROM readings")))
            time.sleep(0.02)

    def end(self) -> list[int]:
        self.over.set()
        self.thread.join()
        return self.seen


class Trial:
    """One table, and what happens to it."""

    def __init__(self, server: Server, disk: SmallDisk | None, folder: Path, draw: Random) -> None:
        self.server, self.disk, self.folder, self.draw = server, disk, folder, draw
        self.source, self.way = draw.choice(SOURCES), draw.choice(WAYS)
        self.files = draw.randrange(4, 14)
        self.incoming = folder / "incoming"
        self.incoming.mkdir(parents=True)
        self.pipe = folder / "pipe"
        # Made before anything is timed.
        self.whole = "".join(map(text, range(self.files))).encode()
        self.told: dict[str, object] = {"source": self.source, "way": self.way}
        self.told |= {"files": self.files, "strikes": []}

    def start(self, *more: str, once: bool = False) -> subprocess.Popen[str]:
        what = self.pipe if self.source == "pipe" else self.incoming
        command = [str(FULLBORE), "ingest", str(what), "--to", self.server.url]
        command += ["--table", "readings", "--adopt", "--settle", "0s", "--every", "100ms"]
        command += ["--batch-bytes", "100kB", "--partitions", "2", "--order-by", "key"]
        command += ["--format", "csv", "--header", "none", "--quiet", *more]
        if self.source == "pipe":
            command.append("--replay")
        if once:
            command.append("--once")
        return subprocess.Popen(
            command,
            env=environment(FULLBORE_HOME=str(self.folder / "state")),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def appear(self) -> None:
        """Files come one after the other, while the trial goes on."""
        for number in range(self.files):
            partial = self.incoming / f".{number}"
            partial.write_text(text(number))
            partial.rename(self.incoming / f"{number}.csv")
            time.sleep(self.draw.uniform(0, 0.3))

    def send(self) -> None:
        """The whole stream from its beginning, for one reader of the pipe."""
        with suppress(BrokenPipeError), self.pipe.open("wb", buffering=0) as out:
            for start in range(0, len(self.whole), 65536):
                out.write(self.whole[start : start + 65536])
                time.sleep(0.01)

    def strike(self, kind: str, processes: list[subprocess.Popen[str]]) -> None:
        victim = self.draw.choice(processes)
        if kind == "kill":
            victim.kill()
        elif kind == "interrupt":
            victim.send_signal(signal.SIGINT)
        elif kind == "terminate":
            own = "pid <> pg_backend_pid() AND backend_type = 'client backend'"
            with suppress(Failed):
                self.server.sql(
                    f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {own}"
                )
        elif kind == "restart":
            self.server.stop("immediate")
            time.sleep(self.draw.uniform(0, 0.5))
            self.server.start()
        else:
            assert self.disk is not None
            room = self.draw.randrange(4, 800)
            # It is refused where more is used meanwhile.
            for _ in range(20):
                with suppress(subprocess.CalledProcessError):
                    self.disk.grow(self.disk.used() + room)
                    break
            else:
                raise Failed("the disk could not be filled")
            time.sleep(self.draw.uniform(0.5, 3))
            self.disk.grow(ROOM_KB)

    def run(self) -> dict[str, object]:
        self.server.sql(
            "DROP TABLE IF EXISTS readings CASCADE; DROP SCHEMA IF EXISTS fullbore_ledger CASCADE;"
            " DROP DOMAIN IF EXISTS words; CREATE DOMAIN words AS text;"
            f" CREATE TABLE readings (id bigint, key bigint, note {self.note()});"
            " CREATE INDEX ON readings (key)"
        )
        if self.source == "pipe":
            os.mkfifo(self.pipe)
        feeder = threading.Thread(target=self.feed, daemon=True)
        feeder.start()
        reader = Reader(self.server)
        try:
            self.disturb()
        finally:
            seen = reader.end()
        self.finish()
        feeder.join(10)
        self.check(seen)
        return self.told

    def note(self) -> str:
        """The type of a column by which the way is chosen."""
        has = "CREATE" if self.way == "direct" else "DROP"
        self.server.sql(f"{has} EXTENSION IF {'NOT ' if has == 'CREATE' else ''}EXISTS fullbore")
        return "words" if self.way == "within" else "text"

    def feed(self) -> None:
        if self.source == "pipe":
            return
        self.appear()

    def disturb(self) -> None:
        count = 2 if self.source == "two" else 1
        for _ in range(self.draw.randrange(1, STRIKES_MAX + 1)):
            processes = [self.start() for _ in range(count)]
            sender = None
            if self.source == "pipe":
                sender = threading.Thread(target=self.send, daemon=True)
                sender.start()
            kinds = KINDS if self.disk is not None else KINDS[:-1]
            after, kind = self.draw.uniform(0.1, 3), self.draw.choice(kinds)
            self.told["strikes"].append([round(after, 2), kind])
            time.sleep(after)
            self.strike(kind, processes)
            if kind in ("terminate", "restart", "full"):
                # It is to go on by itself for a while.
                time.sleep(self.draw.uniform(0, 2))
            for process in processes:
                process.kill()
                process.communicate()
            while sender is not None and sender.is_alive():
                self.unblock()
                sender.join(0.1)

    def unblock(self) -> None:
        """A sender that waits for a reader which never came."""
        with suppress(OSError):
            os.close(os.open(self.pipe, os.O_RDONLY | os.O_NONBLOCK))

    def finish(self) -> None:
        """Lets it come to its end."""
        process = self.start(once=True)
        sender = threading.Thread(target=self.send, daemon=True)
        if self.source == "pipe":
            sender.start()
        try:
            said, _ = process.communicate(timeout=ENDS_S)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise Wrong(f"{self.told}: it does not end") from error
        if process.returncode != 0:
            raise Wrong(f"{self.told}: it ends with {process.returncode}: {said}")
        if self.source != "pipe":
            # Files that came after it had looked.
            again, _ = self.start(once=True).communicate(timeout=ENDS_S)
            self.told["again"] = again

    def check(self, seen: list[int]) -> None:
        rows = self.files * ROWS
        expected = f"{rows}|{rows * (rows - 1) // 2}"
        found = self.server.sql("SELECT count(*), sum(id) FROM readings")
        if found != expected:
            raise Wrong(f"{self.told}: count and sum are {found}, not {expected}")
        stray = self.server.sql(
            "SELECT string_agg(relname, ' ') FROM pg_class WHERE relname ~ '^readings'"
            " AND relkind = 'r' AND NOT relispartition"
        )
        if stray:
            raise Wrong(f"{self.told}: these are no partitions: {stray}")
        ledger = self.server.sql(
            "SELECT count(*) FROM fullbore_ledger.batches WHERE state <> 'attached'"
        )
        if ledger != "0":
            raise Wrong(f"{self.told}: the ledger has {ledger} batches that are not attached")
        whole = self.source == "pipe" or all(count % ROWS == 0 for count in seen)
        if seen != sorted(seen) or not whole:
            raise Wrong(f"{self.told}: the reader counted {seen}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=Random().randrange(10**9))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    draw = Random(args.seed)
    wrong = 0
    folder = folder_for_servers()
    server = Server(folder, "server", {})
    disk = None
    with suppress(Missing):
        disk = SmallDisk(folder / "small", ROOM_KB)
        server.sql(f"CREATE TABLESPACE small LOCATION '{disk.folder}'")
        server.sql(f"ALTER DATABASE {DATABASE} SET default_tablespace = small")
    try:
        for number in range(args.count):
            place = folder / f"trial-{number}"
            try:
                told = Trial(server, disk, place, draw).run()
            except Wrong as error:
                wrong += 1
                told = {"wrong": str(error)}
            with (args.out / "trials.jsonl").open("a") as out:
                out.write(json.dumps(told) + "\n")
            print(number, json.dumps(told), flush=True)
            shutil.rmtree(place, ignore_errors=True)
    finally:
        server.close()
        if disk is not None:
            disk.end()
    print(f"seed {args.seed}: {args.count} trials, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
