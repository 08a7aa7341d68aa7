"""Two loads of one target at once: both come to what they would one after the other, or one is
refused."""

from __future__ import annotations

from pathlib import Path

import checks
import promises
from company import Company, some_files
from load import LOADED, REFUSED, Command, Ended
from places import Wrong
from promises import State, Told
from trial import MISSES_MAX, Trial
from ways import TARGET

HALF = 3


class Two(Company):
    """Other files, another way to publish, or the same command once more."""

    name = "two"
    VARIANTS = ("other files", "another way", "same twice", "same twice, resumed")

    def run(self, trial: Trial, duration: float) -> None:
        self.what = self.variant(trial)
        trial.facts["two"] = self.what
        for _ in range(MISSES_MAX):
            trial.settle()
            self.plan(trial)
            first = Command(trial.setting.home, self.first)
            if first.wait_until(trial.rng.random() * duration * 0.6):
                break
            first.end()
        else:
            raise Wrong("no moment was within the load")
        trial.facts["moment_s"] = round(first.age(), 3)
        second = Command(self.second_home, self.second)
        ends = first.end(), second.end()
        self.quiet(trial)
        trial.facts.update(
            code=ends[0].code, codes=[end.code for end in ends], said=ends[0].said[:400],
            second_said=ends[1].said[:400],
        )  # fmt: skip
        self.judge(trial, *ends)

    def plan(self, trial: Trial) -> None:
        """Both commands, and what each of them holds."""
        setting, publish = trial.setting, trial.way.publish
        self.second_home = trial.folder / "second" / "home"
        self.second_home.mkdir(parents=True)
        files = setting.data.files
        resume = self.what == "same twice, resumed"
        if "same" in self.what:
            self.first = self.second = self.command(trial, files, publish, resume)
            self.shares = [(self.held.rows, self.held.expected)] * 2
            self.publishes = [publish, publish]
            return
        other = publish
        if self.what == "another way" and publish != "partitions":
            other = "append" if publish == "replace" else "replace"
        self.publishes = [publish, other]
        parts = [files[:HALF], files[HALF:]]
        self.first = self.command(trial, parts[0], publish, resume)
        self.second = self.command(trial, parts[1], other, resume)
        self.shares = [some_files(trial.world, setting.server, part) for part in parts]

    def command(self, trial: Trial, files: list[Path], publish: str, resume: bool) -> list[str]:
        arguments = ["load", *map(str, files), "--to", trial.setting.url, "--table", TARGET]
        arguments += ["--header", "none", "--json", "--streams", str(trial.streams)]
        method = trial.way.method if publish != "append" else "copy"
        arguments += ["--method", method, "--publish", publish]
        if publish == "append" and trial.atomic:
            arguments.append("--atomic")
        return [*arguments, *(["--resume"] if resume else [])]

    def judge(self, trial: Trial, first: Ended, second: Ended) -> None:
        ends, server = (first, second), trial.setting.server
        now = promises.state(server)
        what = f"{[promises.told(end).__str__() for end in ends]}; {self.held.words(now)}"
        for own in now.own.values():
            checks.require(own.doubled == 0, lambda: f"rows are there twice: {what}")
        checks.require(
            any(end.code == LOADED for end in ends), lambda: f"neither has loaded: {what}"
        )
        for end in ends:
            checks.require(
                end.code in (LOADED, REFUSED) or self.is_kept(end, now),
                lambda: f"an exit code that is not true: {what}",
            )
            if end.code != LOADED:
                checks.require("hint:" in end.said, lambda: f"an error without a hint: {what}")
        allowed = self.outcomes([end.code == LOADED for end in ends])
        found = now.own[server.sql(f"SELECT '{TARGET}'::regclass::oid")].mark
        checks.require(found in allowed, lambda: f"it holds {found}, allowed: {allowed}: {what}")
        strays = self.held.strays() if not now.unfinished else ""
        checks.require(strays == "", lambda: f"tables {strays} were not dropped: {what}")
        others = {word for _, _, word in promises.others(server)}
        is_replaced = any(
            end.code == LOADED and publish == "replace"
            for end, publish in zip(ends, self.publishes, strict=True)
        )
        if not is_replaced:
            checks.require(others == {"before"}, lambda: f"rows of others are gone: {what}")
        self.give_again(trial, ends, what)

    def is_kept(self, ended: Ended, now: State) -> bool:
        """Of one that failed: what it says of its run is so."""
        told: Told = promises.told(ended)
        known = now.run(told.run)
        if told.resumable:
            return known is not None and known.is_unfinished and (told.kept or 0) == known.rows
        return known is None

    def outcomes(self, loaded: list[bool]) -> list[str]:
        """What the table may hold: as if one load had come after the other, in either order."""
        marks = [mark for _, mark in self.shares]
        if "same" in self.what:
            return [self.held.expected]
        both = self.held.expected
        if not all(loaded):
            return [marks[loaded.index(True)]]
        outcomes = []
        for last in (0, 1):
            outcomes.append(marks[last] if self.publishes[last] == "replace" else both)
        return outcomes

    def give_again(self, trial: Trial, ends: tuple[Ended, Ended], what: str) -> None:
        """A load that was refused since another one was at work does its work afterwards."""
        if "same" in self.what:
            return
        for end, command, publish, home in zip(
            ends, (self.first, self.second), self.publishes,
            (trial.setting.home, self.second_home), strict=True,
        ):  # fmt: skip
            if end.code == LOADED:
                continue
            again = Command(home, [*command, "--resume"]).end()
            trial.facts["again"] = again.code
            checks.require(
                again.code == LOADED, lambda a=again: f"given again: {a.code}: {a.said}: {what}"
            )
            mark = self.shares[ends.index(end)][1] if publish == "replace" else self.held.expected
            found = promises.own(trial.setting.server, TARGET).mark
            checks.require(found == mark, lambda f=found: f"given again it holds {f}: {what}")
