"""Disks that are full: the server's, its log's, and the client's own."""

from __future__ import annotations

from contextlib import suppress

from disks import SmallDisk
from faults import Fault
from load import FAILED, LOADED, REFUSED, STOPPED, WITH_REJECTS, Command
from places import Failed, Wrong
from server import Server
from trial import MISSES_MAX, Trial, clean
from world import LEVELS

ROOM_KB = 1_500_000


class DiskFull(Fault):
    """A file system that is too small for the load is made larger, and the load goes on."""

    name = "disk"
    PLACES = ("tablespace", "state", "data", "rejects", "log")

    def __init__(self) -> None:
        self.disk: SmallDisk | None = None
        self.server: Server | None = None

    def run(self, trial: Trial, duration: float) -> None:
        self.place = self.PLACES[trial.number % len(self.PLACES)]
        trial.facts["place"] = self.place
        trial.strikes_again = False
        share = trial.rng.random()
        for _ in range(MISSES_MAX):
            self.share = share
            self.end(trial)
            trial.settle()
            load = trial.start(trial.with_resume)
            ended = load.end()
            trial.note(ended)
            if ended.code not in (LOADED, WITH_REJECTS):
                break
            trial.facts["misses"] = int(trial.facts.get("misses", 0)) + 1
            share *= 0.6
        else:
            raise Wrong("the disk was never full")
        self.require_words(trial, ended.said)
        self.disk.grow(ROOM_KB)
        trial.setting.server.revive()
        trial.judge(ended, {FAILED, REFUSED, STOPPED})
        trial.resume()
        trial.check(thoroughly=True)

    def require_words(self, trial: Trial, said: str) -> None:
        is_lost = self.place in ("log", "data") and "server" in said
        # A write that is cut short is said by its SQLSTATE alone.
        is_said = any(words in said for words in ("No space left on device", "SQLSTATE 53100"))
        if not is_said and not is_lost:
            raise Wrong(f"it does not say that the disk is full: {said}")

    def prepare(self, trial: Trial) -> None:
        folder = trial.world.folder / "small"
        needed = trial.setting.data.bytes * 1.3 / 1024
        if self.place == "tablespace":
            trial.setting.server.sql("DROP TABLESPACE IF EXISTS small")
            self.disk = SmallDisk(folder, int(500 + self.share * needed))
            trial.setting.server.sql(f"CREATE TABLESPACE small LOCATION '{folder}'")
            trial.setting.tablespace = "small"
        elif self.place in ("data", "log"):
            self.small_server(trial, needed)
        else:
            # Rows that are rejected are what a client writes much of.
            trial.setting.data = trial.world.bad_data()
            trial.setting.reject_dir = trial.folder / "rejects"
            trial.setting.reject_dir.mkdir(exist_ok=True)
            kilobytes = int(4 + self.share**2 * trial.setting.data.bad * 0.15)
            if self.place == "state":
                self.disk = SmallDisk(folder, kilobytes + 40)
                trial.setting.home = folder / "home"
            else:
                self.disk = SmallDisk(folder, kilobytes)
                trial.setting.reject_dir = folder / "rejects"

    def small_server(self, trial: Trial, needed: float) -> None:
        """A server of its own, whose data or whose log are on the small file system."""
        folder = trial.world.folder / "small"
        self.disk = SmallDisk(folder, ROOM_KB)
        settings = {**LEVELS[trial.level], "max_wal_size": "'4GB'", "min_wal_size": "'4MB'"}
        initdb: tuple[str, ...] = ("--wal-segsize=1",)
        data = None
        if self.place == "data":
            data = folder / "data"
        else:
            # Only a log of everything fills a disk.
            settings = {**settings, "wal_level": "replica", "max_wal_senders": "4"}
            initdb += (f"--waldir={folder}/wal",)
        self.server = Server(trial.world.folder, "few", settings, initdb=initdb, data=data)
        trial.setting.server, trial.setting.url = self.server, self.server.url
        self.server.sql("CHECKPOINT")
        self.disk.grow(self.disk.used() + int(3000 + self.share * needed))

    def strike(self, trial: Trial, load: Command) -> None:
        raise AssertionError("a disk is full from the beginning")

    def end(self, trial: Trial) -> None:
        if self.place == "tablespace" and self.disk is not None:
            with suppress(Failed):
                clean(trial.setting.server)
                trial.setting.server.sql("DROP TABLESPACE IF EXISTS small")
        if self.server is not None:
            self.server.close()
        if self.disk is not None:
            self.disk.end()
            self.disk.folder.rmdir()
        self.server = self.disk = None
