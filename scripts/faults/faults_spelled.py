"""A load that was killed is resumed by a command that is spelled otherwise: it goes on, or says
what differs; no row comes twice."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import ClassVar

import checks
import promises
from company import Company, some_files
from data import Data
from load import LOADED, Command, Ended
from places import Wrong
from trial import Trial
from ways import TARGET

COLUMNS = ("k", "n", "day", "amount", "word", "note")


class Spelled(Company):
    """The same job in other words, and jobs that are nearly the same."""

    name = "spelled"
    # By each: what a refusal must name.
    SPELLINGS: ClassVar[dict[str, str]] = {
        "schema": "table|target",
        "reversed": "file|order|part-",
        "glob": "file|order|part-|glob",
        "relative": "file|path|part-",
        "linked": "file|path|part-",
        "more files": "file|part-|source",
        "fewer files": "file|part-|source",
        "null": "null",
        "same delimiter": "delimiter|format",
        "other delimiter": "delimiter|field|column",
        "same columns": "column",
        "other columns": "column",
        "other url": "url|--to|database",
        "format": "format|quote",
    }
    VARIANTS = tuple(SPELLINGS)

    def run(self, trial: Trial, duration: float) -> None:
        self.spelling = self.variant(trial)
        trial.facts["spelling"] = self.spelling
        trial.strike(duration)
        self.quiet(trial)
        left = promises.state(trial.setting.server)
        trial.facts["left"] = left.runs[-1].state if left.runs else ""
        self.again(trial, left)

    def prepare(self, trial: Trial) -> None:
        data = trial.setting.data
        if self.spelling == "more files":
            files = data.files[:-1]
            rows, _ = some_files(trial.world, trial.setting.server, files)
            size = sum(file.stat().st_size for file in files)
            trial.setting.data = Data(f"{data.name}-some", data.folder, files, rows, size, 0)
        if self.spelling in ("same columns", "other columns"):
            trial.setting.options += ["--columns", ",".join(COLUMNS)]

    def strike(self, trial: Trial, load: Command) -> None:
        load.send(signal.SIGKILL)

    def respelled(self, trial: Trial) -> list[str]:
        """The command that resumes, in other words."""
        setting = trial.setting
        files = [str(file) for file in setting.data.files]
        arguments = trial.arguments(resume=True)[1 + len(files) :]
        whole = self.data(trial.world).files
        home = setting.home.parent

        def changed(old: str, new: str) -> None:
            arguments[arguments.index(old)] = new

        if self.spelling == "schema":
            changed(TARGET, f"public.{TARGET}")
        elif self.spelling == "reversed":
            files.reverse()
        elif self.spelling == "glob":
            files = [f"{setting.data.folder}/part-*.csv"]
        elif self.spelling == "relative":
            files = [os.path.relpath(file, home) for file in files]
        elif self.spelling == "linked":
            linked = home / "linked"
            linked.symlink_to(setting.data.folder)
            files = [str(linked / Path(file).name) for file in files]
        elif self.spelling == "more files":
            files = [str(file) for file in whole]
        elif self.spelling == "fewer files":
            files.pop(trial.rng.randrange(len(files)))
        elif self.spelling == "null":
            arguments += ["--null", "x"]
        elif self.spelling == "same delimiter":
            arguments += ["--delimiter", ","]
        elif self.spelling == "other delimiter":
            arguments += ["--delimiter", ";"]
        elif self.spelling == "same columns":
            # The order of the table is that of the files.
            at = arguments.index("--columns")
            del arguments[at : at + 2]
        elif self.spelling == "other columns":
            changed(",".join(COLUMNS), ",".join(("n", "k", *COLUMNS[2:])))
        elif self.spelling == "other url":
            server = setting.server
            changed(setting.url, f"host={server.socket_dir} user=postgres dbname=faults")
        elif self.spelling == "format":
            arguments += ["--format", "csv"]
        return ["load", *files, *arguments]

    def again(self, trial: Trial, left: promises.State) -> None:
        """The other command; then, where it was refused, the right one."""
        if not left.runs:
            # Nothing to resume: any command begins anew.
            trial.facts["spelling"] = "as it was"
            self.finish(trial, promises.Told(Ended(0, "", 0)))
            return
        ended = Command(trial.setting.home, self.respelled(trial)).end()
        trial.facts.update(respelled=ended.code, respelled_said=ended.said[:500])
        trial.facts["resumes"] = [ended.code]
        if ended.code == LOADED:
            had_loaded = left.unfinished and left.unfinished[0].state != "preparing"
            if self.spelling == "other columns" and not had_loaded:
                # A load of its own, which has put the values into other columns.
                now = promises.state(trial.setting.server)
                is_one = [(run.state, run.rows) for run in now.runs] == [
                    ("finished", self.held.rows)
                ]
                checks.require(is_one, lambda: f"{ended.said}; {self.held.words(now)}")
                return
            self.went_on(trial, ended)
            return
        told = self.check(trial, ended, left)
        self.held.right_so_far()
        # What ended before its first row may be cleared away.
        if left.unfinished and left.unfinished[0].state != "preparing":
            # It is refused, not mended: another command's run stays as it is.
            run = left.unfinished[0].run
            is_named = re.search(self.SPELLINGS[self.spelling], told.said, re.IGNORECASE)
            checks.require(is_named is not None, lambda: f"it does not say what differs: {told}")
            now = promises.state(trial.setting.server).run(run)
            checks.require(now is not None, lambda: f"run {run} is gone: {told}")
            # That of a file without fields may be refused before.
            if self.spelling != "other delimiter":
                is_named = re.search(rf"\b(run|resume|abort) {run}\b", told.said)
                checks.require(is_named is not None, lambda: f"it names no run {run}: {told}")
        ended = self.go_on(trial, promises.Told(ended))
        if ended.code != LOADED:
            raise Wrong(f"the resume in the first spelling: {ended.code}: {ended.said}; {told}")
        self.check(trial, ended)
        self.whole(trial)

    def went_on(self, trial: Trial, ended: Ended) -> None:
        """It was taken for the same job, or, with another file, for its continuation."""
        server = trial.setting.server
        self.quiet(trial)
        now = promises.state(server)
        what = f"{ended.said}; {self.held.words(now)}"
        for run in now.unfinished:
            # All of its rows were there: what is left of it is said, and done.
            is_named = f"fullbore runs resume {run.run}` finishes it" in ended.said
            is_right = run.state == "published" and is_named
            checks.require(is_right, lambda: f"the first run was left as it was: {what}")
            resumed = self.runs(trial, "resume", run.run)
            checks.require(resumed.code == LOADED, f"{resumed.said}: {what}")
        now = promises.state(server)
        if self.spelling == "more files" and now.rows != self.held.rows:
            data = self.data(trial.world)
            self.held.rows, self.held.expected = data.rows, trial.world.expected(data)
            self.whole(trial, runs=len(now.runs))
            return
        self.held.check(ended)
        self.whole(trial)
