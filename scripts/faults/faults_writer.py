"""Others write to the target while it is loaded: their rows are there afterwards, or it is said."""

from __future__ import annotations

import re

import checks
import promises
from company import Company
from load import LOADED, STOPPED, Command
from places import Wrong
from promises import Told
from trial import Trial
from writers import Writer

OPTIONS = ("", "--replace-anyway", "--lock-writers", "")
LOST = re.compile(r"([\d,]+) rows? .*(?:inserted|updated|written|changed) by others")
LOSS = re.compile(r"lost|lose|replace-anyway|by others")


class Writers(Company):
    """Transactions of others, committed before and after the rows are published."""

    name = "writer"

    def run(self, trial: Trial, duration: float) -> None:
        turn = trial.number // 5
        self.mode = Writer.MODES[turn % len(Writer.MODES)]
        is_replaced = trial.way.publish == "replace"
        self.option = OPTIONS[turn // len(Writer.MODES) % len(OPTIONS)] if is_replaced else ""
        trial.facts.update(writer=self.mode, option=self.option)
        self.writer: Writer | None = None
        try:
            ended = trial.strike(duration)
        finally:
            if self.writer is not None:
                self.writer.end()
        trial.facts["written"] = self.writer.committed
        if self.writer.failures:
            trial.facts["writer_failed"] = self.writer.failures[:3]
        self.follow(trial, self.check(trial, ended))

    def prepare(self, trial: Trial) -> None:
        trial.setting.options += [self.option] if self.option else []

    def strike(self, trial: Trial, load: Command) -> None:
        server = trial.setting.server
        if self.held.replaces:
            # Whoever wrote before the load began has rows that are to be replaced.
            while checks.ledger_state(server)[0] in ("", "preparing") and not load.has_ended():
                pass
        self.writer = Writer(server, self.mode, f"{trial.rng.random()}")
        self.writer.start()

    def others(self, trial: Trial) -> promises.Others:
        written = [(k, str(n), "other") for k, n in self.writer.rows.items()]
        return sorted([*super().others(trial), *written], reverse=True)

    def follow(self, trial: Trial, told: Told) -> None:
        may_refuse = self.held.replaces and not self.option and self.mode != "rolled back"
        if told.code == LOADED and self.option != "--replace-anyway":
            self.whole(trial)
        elif told.code == LOADED:
            self.replaced(trial, told)
        elif told.code == STOPPED and may_refuse:
            self.refused_swap(trial, told)
        else:
            raise Wrong(f"{self.mode} writers ended the load: {told}; {self.writer.failures}")

    def refused_swap(self, trial: Trial, told: Told) -> None:
        """Rows of others would have been lost: what is advised is done, one or the other."""
        found = LOST.search(told.said)
        checks.require(found is not None, lambda: f"it does not say why it stopped: {told}")
        said = int(found[1].replace(",", ""))
        checks.require(
            0 < said <= len(self.writer.versions),
            lambda: f"{said} rows are said, {len(self.writer.versions)} were written",
        )
        checks.require("--replace-anyway" in told.said, lambda: f"no way out: {told}")
        # They are in the old table, which is as it was.
        written = [(k, str(n), "other") for k, n in self.writer.rows.items()]
        missing = set(written) - set(promises.others(trial.setting.server))
        checks.require(not missing, lambda: f"{missing} were lost all the same: {told}")
        if trial.rng.random() < 0.3:
            self.take_back(trial, told.abort or told.resume)
            self.others_stayed_unreplaced(trial)
            return
        ended = self.go_on(trial, told, ("--replace-anyway",))
        if ended.code != LOADED:
            raise Wrong(f"--replace-anyway as advised: {ended.code}: {ended.said}; first: {told}")
        self.replaced(trial, self.check(trial, ended), is_known=True)

    def replaced(self, trial: Trial, told: Told, is_known: bool = False) -> None:
        """Replaced anyway: rows of others may be lost, if that is said."""
        self.held.exact()
        found = set(promises.others(trial.setting.server))
        odd = found - self.writer.versions
        checks.require(not odd, lambda: f"rows that nobody has committed: {sorted(odd)[:5]}")
        lost = {(k, str(n), "other") for k, n in self.writer.rows.items()} - found
        trial.facts["lost"] = len(lost)
        # Who was refused before knows of it.
        if lost and not is_known and LOSS.search(told.said) is None:
            raise Wrong(f"{len(lost)} rows of others are lost, which is not said: {told}")
