"""Commits that nobody heard of, and commits that come when nobody waits for them any more."""

from __future__ import annotations

import signal
import time

import promises
from company import Company
from load import LOADED, Command, Ended
from places import Wrong
from proxy import Proxy
from server import DATABASE
from trial import MISSES_MAX, Trial


class Late(Company):
    """A COMMIT is held on its way, and the client cut off, killed, or gone before it arrives."""

    name = "late"
    # What is done to the COMMIT, and whether the client is killed then.
    VARIANTS = (
        "late", "late, killed", "unheard", "unheard, killed", "never", "slow", "given up",
    )  # fmt: skip

    def __init__(self) -> None:
        self.proxy: Proxy | None = None

    def run(self, trial: Trial, duration: float) -> None:
        self.mode, _, killed = self.variant(trial).partition(", ")
        trial.facts.update(commit=self.variant(trial))
        most = 12
        for _ in range(MISSES_MAX):
            self.end(trial)
            trial.settle()
            at, delay = trial.rng.randint(1, most), 0.1 + trial.rng.random() * 2.5
            cuts_all = trial.rng.random() < 0.4
            self.proxy.arm(at, self.mode, delay, cuts_all, trial.rng.random())
            load = trial.start(trial.with_resume)
            while not self.proxy.caught.wait(0.002) and not load.has_ended():
                pass
            if self.proxy.caught.is_set():
                break
            ended = load.end()
            if ended.code != LOADED:
                raise Wrong(f"a load that nothing struck ended with {ended.code}: {ended.said}")
            most = max(1, min(most, self.proxy.seen))
        else:
            raise Wrong("no COMMIT was caught")
        share = load.age() / duration
        trial.facts.update(commit_at=at, delay_s=round(delay, 2), share=round(share, 3))
        trial.facts["cut"] = "all" if cuts_all else "one"
        if killed:
            load.send(signal.SIGKILL)
        try:
            ended = load.end()
        finally:
            load.send(signal.SIGKILL)
        trial.note(ended)
        self.follow(trial, ended)

    def prepare(self, trial: Trial) -> None:
        setting = trial.setting
        self.proxy = Proxy(str(setting.server.socket_dir / ".s.PGSQL.5432"), DATABASE)
        setting.url = self.proxy.url
        setting.options += ["--retry-for", "1" if self.mode == "given up" else "60"]

    def follow(self, trial: Trial, ended: Ended) -> None:
        self.held.may_be_more = True
        if ended.code == LOADED:
            self.proxy.done.wait(60)
            self.quiet(trial)
            self.held.check(ended)
            self.whole(trial)
            return
        if ended.code >= 0 and self.mode != "given up":
            self.proxy.done.wait(60)
            raise Wrong(f"{trial.facts['commit']}: it was not waited for: {promises.told(ended)}")
        self.proxy.heal()
        told = promises.told(ended)
        is_there = bool(told.resumable) or ended.code < 0
        if not is_there or trial.rng.random() < 0.3:
            # What comes late comes before anybody goes on.
            self.proxy.done.wait(60)
            trial.facts["late_before_resume"] = True
            told = self.check(trial, ended)
            self.held.right_so_far()
        elif trial.rng.random() < 0.5:
            # By a way of its own.
            trial.setting.url = trial.setting.server.url
        resumed = self.go_on(trial, told)
        self.proxy.done.wait(60)
        if resumed.code != LOADED:
            raise Wrong(f"first: {told}; the resume ended with {resumed.code}: {resumed.said}")
        self.check(trial, resumed)
        self.whole(trial)

    def refused(self, trial: Trial, ended: Ended) -> None:
        """Whoever was cut off holds its lock until its connection ends."""
        time.sleep(0.3)

    def end(self, trial: Trial) -> None:
        if self.proxy is not None:
            self.proxy.close()
        self.proxy = None

    def strike(self, trial: Trial, load: Command) -> None:
        raise AssertionError("a COMMIT is struck, not a moment")
