"""What faults by other people have in common: marked rows of theirs, a target that would show a row
that comes twice, and going on as the last words of a load advise."""

from __future__ import annotations

import time
from pathlib import Path

import checks
import promises
from data import COLUMNS, Data, made
from faults import Fault
from load import LOADED, REFUSED, STOPPED, Command, Ended
from places import Wrong
from promises import Held, State, Told
from server import Server
from trial import LOADED_ALREADY, Trial
from ways import TARGET, WAYS
from world import CHECKSUM, REFERENCE, World

# Rows that are in the target before a load begins.
BEFORE = 40


def before_rows(word: str = "before", first: int = -1) -> str:
    """The query of rows that somebody had written."""
    return (
        f"SELECT {first} - i, i, DATE '2020-01-01', 1.5, '{word}', 'ours' FROM"
        f" generate_series(0, {BEFORE - 1}) AS i"
    )


def table(way, name: str = TARGET, word: str = "before") -> str:
    """The statements that make a target with somebody's rows in it."""
    made_as = way.make(key="").replace(f"TABLE {TARGET} ", f"TABLE {name} ")
    made_as = made_as.replace(f"ON {TARGET} ", f"ON {name} ")
    if way.publish == "partitions":
        made_as += f"CREATE TABLE {name}_{word} PARTITION OF {name}"
        made_as += " FOR VALUES FROM (MINVALUE) TO (0);"
    return f"{made_as} INSERT INTO {name} {before_rows(word)};"


class Calm(Fault):
    """The same load without anybody else."""

    def data(self, world: World) -> Data:
        return made(world.megabytes // 2)


class Company(Fault):
    """Somebody else does something; what the load says of it is looked up."""

    VARIANTS: tuple[str, ...] = ()
    is_rewritten = False

    def data(self, world: World) -> Data:
        return made(world.megabytes // 2)

    def undisturbed(self) -> Fault:
        return Calm()

    def target(self, trial: Trial) -> str:
        return table(trial.way)

    def variant(self, trial: Trial) -> str:
        """Each variant meets each way."""
        number = trial.number
        if len(self.VARIANTS) % len(WAYS) == 0:
            number += number // len(WAYS)
        return self.VARIANTS[number % len(self.VARIANTS)]

    def ready(self, trial: Trial) -> None:
        server = trial.setting.server
        reference(server, self.data(trial.world))
        self.oid = server.sql(f"SELECT '{TARGET}'::regclass::oid")
        is_append = trial.way.publish == "append"
        self.held = Held(
            server,
            trial.setting.data.rows,
            trial.world.expected(trial.setting.data),
            is_piecewise=is_append and not trial.atomic,
            replaces=trial.way.publish == "replace",
        )

    def others(self, trial: Trial) -> promises.Others:
        """The rows of others that a load must leave alone."""
        if trial.way.publish == "replace":
            return []
        return [(-1 - i, str(i), "before") for i in range(BEFORE)]

    # What is done once a load has ended.

    def quiet(self, trial: Trial) -> None:
        checks.sessions_have_ended(trial.setting.server)

    def check(self, trial: Trial, ended: Ended, before: State | None = None) -> Told:
        """Believes a load that has ended, and looks up what it says."""
        self.quiet(trial)
        told = self.held.check(ended, before)
        now = promises.state(trial.setting.server)
        left = now.unfinished or now.runs
        trial.facts.setdefault("left", left[-1].state if left else "")
        return told

    def load(self, trial: Trial, resume: bool, more: tuple[str, ...] = ()) -> Ended:
        """A load from beginning to end."""
        arguments = [*trial.arguments(resume), *more]
        return Command(trial.setting.home, arguments, trial.setting.prefix).end()

    def runs(self, trial: Trial, *arguments: str) -> Ended:
        """One of the commands that a hint names, as it stands there."""
        return Command(trial.setting.home, ["runs", *arguments], trial.setting.prefix).end()

    def go_on(self, trial: Trial, told: Told, more: tuple[str, ...] = ()) -> Ended:
        """Goes on in one of the ways that are said: by the run's id, or by the command."""
        by_id = bool(told.resume) and trial.rng.random() < 0.5
        trial.facts["went_on"] = "by id" if by_id else "by command"
        until = time.monotonic() + 150
        while True:
            if by_id:
                ended = self.runs(trial, "resume", told.resume, "--json", *more)
            else:
                ended = self.load(trial, resume=True, more=more)
            trial.facts.setdefault("resumes", []).append(ended.code)
            if by_id and promises.UNHEARD in told.said and "is not in the" in ended.said:
                by_id = False
                continue
            if ended.code != REFUSED or LOADED_ALREADY not in ended.said:
                return ended
            if time.monotonic() > until:
                raise Wrong(f"the server has not noticed that a client is gone: {ended.said}")
            self.refused(trial, ended)

    def finish(self, trial: Trial, told: Told) -> None:
        """Goes on, or loads again where nothing was kept, until every row is there once."""
        ended = self.go_on(trial, told)
        if ended.code == STOPPED and self.is_rewritten and "--replace-anyway" in ended.said:
            # Whoever rewrites a table writes each row of it.
            told = self.check(trial, ended)
            ended = self.go_on(trial, told, ("--replace-anyway",))
        if ended.code != LOADED:
            raise Wrong(f"first: {told}; then the resume ended with {ended.code}: {ended.said}")
        self.check(trial, ended)
        self.whole(trial)

    def take_back(self, trial: Trial, run: str) -> None:
        """Aborts a run as the hint says it."""
        before = promises.state(trial.setting.server)
        ended = self.runs(trial, "abort", run)
        trial.facts["aborted"] = ended.code
        self.quiet(trial)
        promises.taken_back(self.held, ended, before)

    def whole(self, trial: Trial, name: str = TARGET, runs: int = 1, loads: int = 1) -> None:
        """Every row once, and those of others as they were."""
        self.held.exact(name, runs, loads)
        self.others_stayed(trial, name)

    def others_stayed(self, trial: Trial, name: str = TARGET) -> None:
        found, wanted = promises.others(trial.setting.server, name), self.others(trial)
        checks.require(
            found == wanted,
            lambda: (
                f"of others' rows {sorted(set(wanted) - set(found))[:8]} are missing,"
                f" {sorted(set(found) - set(wanted))[:8]} are too many"
            ),
        )

    def as_said(self, trial: Trial, told: Told) -> None:
        """Whatever a load has said, its way out is taken, and must lead out."""
        if told.code == LOADED:
            self.whole(trial)
            return
        self.held.right_so_far()
        if told.abort and trial.rng.random() < 0.25:
            self.take_back(trial, told.abort)
            self.others_stayed_unreplaced(trial)
            return
        self.finish(trial, told)

    def others_stayed_unreplaced(self, trial: Trial) -> None:
        """After a run that was rolled back also a table that was to be replaced is as it was."""
        found = {word for _, _, word in promises.others(trial.setting.server)}
        checks.require("before" in found, "rows that had been there before are gone")


def reference(server: Server, data: Data) -> None:
    """What plain COPY makes of the files, on this server."""
    known = f"{REFERENCE}.plain"
    name = data.name.replace("-", "_")
    if server.sql(f"SELECT to_regclass('{REFERENCE}.\"is_{name}\"') IS NULL") == "t":
        server.sql(
            f"DROP SCHEMA IF EXISTS {REFERENCE} CASCADE; CREATE SCHEMA {REFERENCE};"
            f"CREATE TABLE {known} ({COLUMNS.format(key='')})"
        )
        server.copy(known, data.good_files)
        server.sql(f'CREATE TABLE {REFERENCE}."is_{name}" (); ANALYZE {known}')


def some_files(world: World, server: Server, files: list[Path]) -> tuple[int, str]:
    """Rows of some of the files, and their mark."""
    server.sql(
        f"CREATE SCHEMA IF NOT EXISTS {REFERENCE}; DROP TABLE IF EXISTS {REFERENCE}.some;"
        f"CREATE TABLE {REFERENCE}.some ({COLUMNS.format(key='')})"
    )
    server.copy(f"{REFERENCE}.some", files)
    found = server.sql(CHECKSUM.format(table=f"{REFERENCE}.some"))
    server.sql(f"DROP TABLE {REFERENCE}.some")
    return int(found.split("|")[0]), found
