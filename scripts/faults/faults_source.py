"""Source files that change while they are loaded, or before the load is gone on with."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import checks
from faults import Fault
from load import FAILED, LOADED, REFUSED, STOPPED, Command, record_of
from places import Wrong
from trial import MISSES_MAX, Trial


class SourceChanged(Fault):
    """Truncated, replaced or written to; half of the loads are killed first."""

    name = "source"
    CHANGES = ("truncated", "replaced", "appended to", "removed", "written to")

    def prepare(self, trial: Trial) -> None:
        trial.setting.data = trial.world.data.copied(trial.folder / "files")

    def run(self, trial: Trial, duration: float) -> None:
        trial.facts["change"] = self.CHANGES[trial.number % len(self.CHANGES)]
        trial.strikes_again = False
        for _ in range(MISSES_MAX):
            trial.settle()
            load = trial.start(trial.with_resume)
            # A change before anything is planned is no change.
            while not record_of(trial.setting.home) and load.wait_until(load.age() + 0.005):
                pass
            moment = load.age() + trial.rng.random() * max(0.1, duration - load.age()) * 0.8
            if load.wait_until(moment):
                break
            load.end()
        else:
            raise Wrong("no moment was within the load")
        trial.facts.update(moment_s=round(moment, 3), share=round(moment / duration, 3))
        if trial.rng.random() < 0.5:
            load.send(signal.SIGKILL)
            trial.facts["killed"] = True
            load.wait_until(load.age() + 60)
        self.change(trial)
        ended = load.end()
        trial.note(ended)
        checks.sessions_have_ended(trial.setting.server)
        state, pieces, _ = checks.ledger_state(trial.setting.server)
        trial.facts.update(left=state, pieces_left=pieces)
        self.follow(trial, ended.code, ended.said, state)

    def change(self, trial: Trial) -> None:
        file: Path = trial.rng.choice(trial.setting.data.files)
        trial.facts["file"] = file.name
        how = trial.facts["change"]
        if how == "truncated":
            os.truncate(file, int(file.stat().st_size * trial.rng.random()))
        elif how == "replaced":
            other = file.with_suffix(".new")
            other.write_bytes(trial.rng.choice(trial.world.data.files).read_bytes())
            other.replace(file)
        elif how == "removed":
            file.unlink()
        else:
            with file.open("ab" if how == "appended to" else "r+b") as out:
                out.write(b"1,2,2020-01-01,1.00,more,rows\n")

    def follow(self, trial: Trial, code: int, said: str, state: str) -> None:
        """What may come of it: all rows as they were, nothing, or a refusal and an abort."""
        server = trial.setting.server
        if code == LOADED or state in ("published", "finished"):
            # It was read before it changed.
            found = server.sql(checks.CHECKSUM.format(table=checks.TARGET))
            expected = trial.world.expected(trial.setting.data)
            checks.require(found == expected, f"it holds {found}, not {expected}")
            checks.no_strays(server)
            return
        if code not in (FAILED, REFUSED, STOPPED, -signal.SIGKILL):
            raise Wrong(f"the load ended with {code}: {said}")
        if code != -signal.SIGKILL:
            is_named = str(trial.facts["file"]) in said
            checks.require(is_named and "hint:" in said, f"it names no file, or no hint: {said}")
        if code in (FAILED, REFUSED) or not state:
            checks.taken_back(server, rows_stay=False)
            return
        if state == "loading":
            resumed = trial.start(resume=True).end()
            words = ("can't be resumed", "this command differs from it")
            says_so = any(word in resumed.said for word in words)
            is_refused = resumed.code == REFUSED and says_so
            is_named = str(trial.facts["file"]) in resumed.said and "runs abort" in resumed.said
            trial.facts["refusal"] = resumed.said[:400]
            checks.require(is_refused and is_named, f"{resumed.code}: {resumed.said}")
        self.abort(trial)

    def abort(self, trial: Trial) -> None:
        run = trial.setting.server.sql("SELECT run FROM fullbore_ledger.runs")
        arguments = ["runs", "abort", run, "--to", trial.setting.url]
        aborted = Command(trial.setting.home, arguments).end()
        is_piecewise = trial.way.publish == "append" and not trial.atomic
        allowed = (LOADED, STOPPED) if is_piecewise else (LOADED,)
        checks.require(aborted.code in allowed, f"abort: {aborted.code}: {aborted.said}")
        checks.taken_back(trial.setting.server, rows_stay=is_piecewise)
