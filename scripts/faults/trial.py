"""One trial: a load that a fault strikes, gone on with until it has finished, and checked."""

from __future__ import annotations

import random
import shutil
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import checks
from data import Data
from load import FAILED, LOADED, REFUSED, STOPPED, WITH_REJECTS, Command, Ended, record_of
from places import Wrong
from server import Server
from ways import TARGET, Way
from world import World

# So many times a load may have to be resumed until it finishes.
RESUMES_MAX = 6
# A strike that comes after the end of the load is no strike: another moment is drawn.
MISSES_MAX = 8
# What stands in a refusal while the server has not noticed yet that a client is gone.
LOADED_ALREADY = "already being loaded"


@dataclass
class Setting:
    """Where a trial happens; faults may change it for one."""

    server: Server
    data: Data
    home: Path
    url: str
    prefix: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    tablespace: str = ""
    reject_dir: Path | None = None


class Trial:
    """What is decided by chance comes from the seed, the fault and the number alone."""

    def __init__(self, world: World, fault, way: Way, number: int, seed: int) -> None:
        self.world = world
        self.fault = fault
        self.way = way
        self.number = number
        self.rng = random.Random(f"{seed}/{fault.name}/{number}")
        self.level = self.rng.choice(world.levels)
        self.atomic = self.rng.random() < 0.4 and way.may_be_atomic
        self.with_resume = self.rng.random() < 0.5
        self.streams = self.rng.choice((1, 2, 2, 3))
        self.strikes_again = self.rng.random() < 0.25
        self.folder = world.folder / "trial"
        self.setting: Setting
        self.facts: dict[str, object] = {}
        # What the target has before, where rows are merged with it.
        self.before: checks.Before | None = None

    def run(self, duration: float) -> dict[str, object]:
        """Carries it out; Wrong says what was found. `duration` is that of an undisturbed load."""
        try:
            self.fault.run(self, duration)
        finally:
            self.fault.end(self)
        return self.facts

    def settle(self) -> None:
        """A setting of its own, which the fault may change, and an empty target."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        server = self.world.server(self.level)
        home = self.folder / "home"
        data = self.fault.data(self.world)
        self.world.expected(data)
        self.setting = Setting(server, data, home, server.url)
        self.fault.prepare(self)
        self.setting.home.mkdir(exist_ok=True)
        self.make_target()
        self.fault.ready(self)

    def make_target(self) -> None:
        clean(self.setting.server)
        self.setting.server.sql(self.fault.target(self))
        if self.way.publish == "upsert":
            self.before = checks.fill(self.setting.server, self.setting.data)

    def arguments(self, resume: bool) -> list[str]:
        setting = self.setting
        arguments = ["load", *(str(file) for file in setting.data.files)]
        arguments += ["--to", setting.url, "--table", TARGET, "--header", "none", "--json"]
        arguments += ["--streams", str(self.streams), *self.way.options(self.atomic)]
        if setting.tablespace:
            arguments += ["--tablespaces", setting.tablespace]
        if setting.data.bad:
            arguments += ["--max-rejects", "100%", "--reject-dir", str(setting.reject_dir)]
        return [*arguments, *setting.options, *(["--resume"] if resume else [])]

    def start(self, resume: bool) -> Command:
        setting = self.setting
        return Command(setting.home, self.arguments(resume), setting.prefix)

    def strike(self, duration: float) -> Ended:
        """Starts a load and strikes it at a moment of its life; how it ended."""
        for _ in range(MISSES_MAX):
            self.settle()
            moment = self.rng.random() * duration * 1.02
            load = self.start(self.with_resume)
            if load.wait_until(moment):
                self.facts.update(moment_s=round(moment, 3), share=round(moment / duration, 3))
                try:
                    self.fault.strike(self, load)
                    ended = load.end()
                finally:
                    load.send(signal.SIGKILL)
                self.note(ended)
                return ended
            ended = load.end()
            if ended.code != LOADED:
                raise Wrong(f"a load that nothing struck ended with {ended.code}: {ended.said}")
            duration = min(duration, ended.seconds)
            self.facts["misses"] = int(self.facts.get("misses", 0)) + 1
        raise Wrong("no moment was within the load")

    def note(self, ended: Ended) -> None:
        """Notes how a load ended that was struck, and how far it had come."""
        self.facts.update(code=ended.code, load_s=round(ended.seconds, 2), said=ended.said[:600])
        events = record_of(self.setting.home)
        last = next((e for e in reversed(events) if e.get("event") != "sample"), None)
        self.facts["record_at"] = str(last["event"]) if last else "nothing"

    def judge(self, ended: Ended, allowed: set[int]) -> None:
        """An exit code must be one that the fault allows, and mean what is documented."""
        state, pieces, _ = checks.ledger_state(self.setting.server)
        self.facts.update(left=state, pieces_left=pieces)
        what = f"the load ended with {ended.code}, the ledger has {state or 'no run'}"
        if ended.code not in allowed:
            raise Wrong(f"{what}: {ended.said}")
        if ended.code in (FAILED, REFUSED):
            if state not in ("", "finished"):
                raise Wrong(f"{what}, although nothing should be kept: {ended.said}")
            checks.taken_back(self.setting.server, rows_stay=self.before is not None)
        # A second signal ends it without a word.
        if ended.code in (FAILED, REFUSED, STOPPED) and not self.facts.get("second_signal"):
            # Before anything is committed there may be nothing to go on with.
            ways = ["fullbore runs"] if state else ["fullbore runs", "load again"]
            if ended.code == STOPPED and not any(way in ended.said for way in ways):
                raise Wrong(f"{what}, and does not say how to go on: {ended.said}")
            if "stopped by a signal" not in ended.said and "hint:" not in ended.said:
                raise Wrong(f"an error without a hint: {ended.said}")

    def resume(self) -> None:
        """Goes on until the load has finished; the fault may strike once more."""
        wanted = WITH_REJECTS if self.setting.data.bad else LOADED
        resumes = []
        until = time.monotonic() + 150
        while len(resumes) < RESUMES_MAX:
            load = self.start(resume=True)
            again = self.strikes_again and not resumes
            if again and load.wait_until(self.rng.random() * 1.2):
                try:
                    self.fault.strike(self, load)
                    ended = load.end()
                finally:
                    load.send(signal.SIGKILL)
                self.fault.mend(self)
                self.facts["struck_again"] = True
            else:
                ended = load.end()
            if ended.code == REFUSED and LOADED_ALREADY in ended.said:
                if time.monotonic() > until:
                    raise Wrong(f"the server has not noticed that a client is gone: {ended.said}")
                self.fault.refused(self, ended)
                self.facts["refusals"] = int(self.facts.get("refusals", 0)) + 1
                continue
            resumes.append(ended.code)
            self.facts["resumes"] = resumes
            if ended.code == wanted:
                return
            if not again or ended.code == FAILED:
                raise Wrong(f"the resume ended with {ended.code}: {ended.said}")
        raise Wrong(f"not finished after {RESUMES_MAX} resumes")

    def check(self, thoroughly: bool = False) -> None:
        setting = self.setting
        expected = self.world.expected(setting.data)
        checks.finished(setting.server, setting.data, expected, thoroughly)
        # With --atomic no part stands in the ledger.
        if self.before is not None and not self.atomic:
            checks.merged(setting.server, setting.data, self.before)
        if setting.data.bad:
            checks.rejects(setting.reject_dir, setting.data)


def clean(server: Server) -> None:
    """Takes away what an earlier trial left, whatever became of it."""
    server.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        "   AND backend_type = 'client backend';"
        f"DROP TABLE IF EXISTS {TARGET} CASCADE"
    )
    strays = checks.strays_of(server)
    if strays:
        server.sql(f"DROP TABLE {strays} CASCADE")
    if server.sql("SELECT to_regclass('fullbore_ledger.runs') IS NOT NULL") == "t":
        server.sql("DELETE FROM fullbore_ledger.runs")
