"""A client that was thought dead comes back when somebody else has gone on with its run."""

from __future__ import annotations

import re
import signal

import checks
import promises
from company import Company
from load import FAILED, LOADED, REFUSED, STOPPED, Command, Ended
from places import Wrong
from promises import TAKEN
from trial import LOADED_ALREADY, MISSES_MAX, Trial

PID = re.compile(r"pg_terminate_backend\((\d+)\)")


class Zombie(Company):
    """The first client is stopped, its run resumed or aborted elsewhere, and it wakes."""

    name = "zombie"
    VARIANTS = ("wakes meanwhile", "wakes afterwards", "wakes after an abort", "wakes before")

    def run(self, trial: Trial, duration: float) -> None:
        self.when = self.variant(trial)
        trial.facts["zombie"] = self.when
        for _ in range(MISSES_MAX):
            trial.settle()
            moment = trial.rng.random() * duration * 1.02
            load = trial.start(trial.with_resume)
            if load.wait_until(moment):
                break
            load.end()
            duration = min(duration, load.age())
        else:
            raise Wrong("no moment was within the load")
        trial.facts.update(moment_s=round(moment, 3), share=round(moment / duration, 3))
        try:
            load.send(signal.SIGSTOP)
            self.stopped(trial, load, duration)
        finally:
            load.send(signal.SIGKILL)

    def stopped(self, trial: Trial, load: Command, duration: float) -> None:
        # What was on its way has come.
        load.wait_until(load.age() + 0.3)
        server = trial.setting.server
        # The table may be locked by whoever is stopped.
        runs = promises.ledger(server)
        state = runs[-1].state if runs else ""
        trial.facts.update(left=state, pieces_left=runs[-1].pieces if runs else 0)
        self.first_home = trial.setting.home
        trial.setting.home = trial.folder / "elsewhere"
        trial.setting.home.mkdir()
        if self.when == "wakes after an abort" and state in ("preparing", "loading"):
            second = self.aborted(trial, runs[-1].run)
            load.send(signal.SIGCONT)
        else:
            second = self.resumed(trial, load, duration)
        zombie = load.end()
        self.quiet(trial)
        self.judge(trial, zombie, second, state)

    def resumed(self, trial: Trial, load: Command, duration: float) -> Ended:
        """The run goes on elsewhere; the first client wakes sooner or later."""
        awakes = trial.rng.random() * duration
        for _ in range(20):
            resume = trial.start(resume=True)
            if self.when == "wakes meanwhile" and trial.facts.get("terminated"):
                resume.wait_until(awakes)
                load.send(signal.SIGCONT)
            ended = resume.end()
            trial.facts.setdefault("resumes", []).append(ended.code)
            if ended.code != REFUSED or "pg_terminate_backend" not in ended.said:
                break
            self.terminate(trial, ended)
            if self.when == "wakes before":
                load.send(signal.SIGCONT)
                load.wait_until(load.age() + trial.rng.random() * 0.1)
        else:
            raise Wrong(f"the hint is not the way to go on: {ended.said}")
        load.send(signal.SIGCONT)
        return ended

    def terminate(self, trial: Trial, refusal: Ended) -> None:
        """What the refusal's hint says."""
        trial.facts["terminated"] = int(trial.facts.get("terminated", 0)) + 1
        pid = PID.search(refusal.said)[1]
        trial.setting.server.sql(f"SELECT pg_terminate_backend({pid}, 5000)")

    def aborted(self, trial: Trial, run: str) -> Ended:
        for _ in range(20):
            ended = self.runs(trial, "abort", run, "--to", trial.setting.url)
            trial.facts["aborted"] = ended.code
            if ended.code != REFUSED or LOADED_ALREADY not in ended.said:
                return ended
            self.terminate(trial, ended)
        raise Wrong(f"the hint is not the way to go on: {ended.said}")

    def judge(self, trial: Trial, zombie: Ended, second: Ended, state: str) -> None:
        server = trial.setting.server
        trial.facts.update(code=zombie.code, said=zombie.said[:600], second=second.code)
        now = promises.state(server)
        what = (
            f"stopped in state {state or 'none'}, the zombie ended with {zombie.code}:"
            f" {zombie.said!r}; the other client with {second.code}: {second.said!r};"
            f" {self.held.words(now)}"
        )
        for own in now.own.values():
            checks.require(own.doubled == 0, lambda: f"rows are there twice: {what}")
        if trial.facts.get("aborted") is not None:
            self.after_abort(trial, zombie, second, now, what)
            return
        checks.require(second.code in (LOADED, REFUSED), lambda: f"the other client failed: {what}")
        if second.code == REFUSED:
            # The first one was quicker; or it lived to say that it could not.
            checks.require(
                self.when != "wakes afterwards", lambda: f"the resume was refused: {what}"
            )
            if zombie.code != LOADED:
                ended = self.load(trial, resume=True)
                checks.require(ended.code == LOADED, lambda: f"{ended.code}: {ended.said}: {what}")
            self.whole(trial)
            return
        self.held.check(second)
        # A replacement that had not begun is a load of its own, after the other one.
        is_another = not state and self.held.replaces and len(now.runs) == 2
        loads = 2 if is_another else 1
        self.whole(trial, runs=loads, loads=loads)
        # Only one of the two can have finished the run.
        is_own = state in ("published", "finished") or "nothing to do" in second.said + zombie.said
        may_end_well = is_own or is_another or self.when == "wakes before"
        if zombie.code == LOADED:
            checks.require(may_end_well, lambda: f"a zombie says that it has loaded: {what}")
        else:
            self.is_true(zombie, what, has_begun=bool(state))

    def is_true(self, zombie: Ended, what: str, has_begun: bool = True) -> None:
        """It says that the run is in other hands, and nothing that is no longer so."""
        told = promises.told(zombie)
        checks.require(zombie.code in (FAILED, REFUSED, STOPPED), lambda: f"its exit code: {what}")
        checks.require(not told.resumable, lambda: f"it says that it can be resumed: {what}")
        is_offered = told.resume or told.abort
        checks.require(not is_offered, lambda: f"it offers what can't be done: {what}")
        is_said = TAKEN.search(zombie.said) or LOADED_ALREADY in zombie.said
        if not has_begun:
            # It had no run that anybody could have taken.
            is_said = "hint:" in zombie.said
        checks.require(bool(is_said), lambda: f"it does not say who has the run: {what}")
        checks.require("nothing is kept" not in zombie.said, lambda: f"rows are there: {what}")

    def after_abort(
        self, trial: Trial, zombie: Ended, second: Ended, now: promises.State, what: str
    ) -> None:
        if second.code == REFUSED and any(run.state == "finished" for run in now.runs):
            # Its rows were shown just before.
            self.whole(trial)
            return
        checks.require(second.code in (LOADED, STOPPED), lambda: f"the abort: {what}")
        checks.require(zombie.code != LOADED, lambda: f"an aborted run was loaded: {what}")
        checks.require(not now.runs, lambda: f"the ledger has runs: {what}")
        checks.require(self.held.strays() == "", lambda: f"{self.held.strays()} is left: {what}")
        said = promises.told(second).committed or 0
        checks.require(now.rows == said, lambda: f"{said} rows were said to be there: {what}")
        self.held.right_so_far()
        self.is_true(zombie, what)
