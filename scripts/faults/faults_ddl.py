"""Somebody changes the target while it is loaded."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import checks
import promises
from company import Company, before_rows, table
from load import LOADED, Command
from places import Failed, Wrong
from promises import Told
from trial import Trial
from ways import TARGET, Way

MOVED = f"{TARGET}_moved"


@dataclass(frozen=True)
class Change:
    """Statements, and those that undo them; none where rows would be lost by it."""

    do: str
    undo: str = ""
    # Rows of the run may be gone.
    takes_rows: bool = False


def changes(way: Way, kind: str, number: int) -> Change:
    """A change of this kind that can be made to the target of this way."""
    is_parted = way.publish == "partitions"
    if kind == "renamed":
        anew = table(way, TARGET, "after").replace(before_rows("after"), before_rows("after", -501))
        return Change(
            f"ALTER TABLE {TARGET} RENAME TO {MOVED}; {anew}",
            f"DROP TABLE {TARGET}; ALTER TABLE {MOVED} RENAME TO {TARGET}",
        )
    if kind == "moved":
        return Change(
            f"CREATE SCHEMA IF NOT EXISTS aside; ALTER TABLE {TARGET} SET SCHEMA aside",
            f"ALTER TABLE aside.{TARGET} SET SCHEMA public",
        )
    if kind == "retyped":
        column, now, then = (
            ("n", "bigint", "int"), ("n", "float8", "int"), ("word", "text", "varchar(20)"),
        )[number % 3]  # fmt: skip
        alter = f"ALTER TABLE {TARGET} ALTER COLUMN {column} TYPE"
        return Change(f"{alter} {now}", f"{alter} {then}")
    if kind == "column added":
        default = ("", " DEFAULT 7")[number % 2]
        return Change(
            f"ALTER TABLE {TARGET} ADD COLUMN extra int{default}",
            f"ALTER TABLE {TARGET} DROP COLUMN extra",
        )
    if kind == "column dropped":
        return Change(f"ALTER TABLE {TARGET} DROP COLUMN {('note', 'n')[number % 2]}")
    if kind == "truncated":
        return Change(f"TRUNCATE {TARGET}", takes_rows=True)
    if kind == "dropped":
        return Change(f"DROP TABLE {TARGET}", takes_rows=True)
    if kind == "attached" and is_parted:
        bounds = ("FROM (1000000000) TO (2000000000)", "FROM (500) TO (600)")[number % 2]
        return Change(
            f"CREATE TABLE {TARGET}_more PARTITION OF {TARGET} FOR VALUES {bounds}",
            f"DROP TABLE {TARGET}_more",
        )
    if kind == "detached" and is_parted:
        return Change(
            f"ALTER TABLE {TARGET} DETACH PARTITION {TARGET}_before",
            f"ALTER TABLE {TARGET} ATTACH PARTITION {TARGET}_before"
            " FOR VALUES FROM (MINVALUE) TO (0)",
        )
    if kind in ("indexed", "attached"):
        return Change(f"CREATE INDEX {TARGET}_word ON {TARGET} (word)", f"DROP INDEX {TARGET}_word")
    return Change(
        "CREATE OR REPLACE FUNCTION looks_on() RETURNS trigger LANGUAGE plpgsql AS"
        f" 'BEGIN RETURN NEW; END'; CREATE TRIGGER looks_on BEFORE INSERT ON {TARGET}"
        " FOR EACH ROW EXECUTE FUNCTION looks_on()",
        f"DROP TRIGGER looks_on ON {TARGET}",
    )


class Ddl(Company):
    """DDL on the target: rows must follow neither a name nor a type."""

    name = "ddl"
    VARIANTS = (
        "renamed", "retyped", "truncated", "column added", "dropped", "attached", "triggered",
        "column dropped", "indexed", "moved", "detached",
    )  # fmt: skip

    def run(self, trial: Trial, duration: float) -> None:
        kind = self.variant(trial)
        self.change = changes(trial.way, kind, trial.number // len(self.VARIANTS))
        trial.facts["ddl"] = self.change.do
        self.is_done, self.state_then = False, ""
        ended = trial.strike(duration)
        told = self.check(trial, ended)
        trial.facts["is_done"] = self.is_done
        if not self.is_done:
            # Nothing was changed: the name had passed, or the load was over.
            self.as_said(trial, told)
        elif ended.code == LOADED:
            self.loaded(trial, told)
        else:
            self.failed(trial, told)

    def ready(self, trial: Trial) -> None:
        super().ready(trial)
        self.held.may_be_fewer = self.change.takes_rows

    def prepare(self, trial: Trial) -> None:
        trial.setting.server.sql("DROP SCHEMA IF EXISTS aside CASCADE")

    def end(self, trial: Trial) -> None:
        with suppress(Failed, AttributeError):
            trial.setting.server.sql("DROP SCHEMA IF EXISTS aside CASCADE")

    def strike(self, trial: Trial, load: Command) -> None:
        text = f"BEGIN; SET LOCAL statement_timeout = '60s'; {self.change.do};"
        # Under the locks of the change: how far the load was before it.
        text += "SELECT state FROM fullbore_ledger.runs; COMMIT"
        try:
            self.state_then = trial.setting.server.sql(text)
            self.is_done = True
        except Failed as failed:
            trial.facts["ddl_failed"] = str(failed)[-300:]

    def loaded(self, trial: Trial, told: Told, is_anew: bool = False) -> None:
        """A load that went on all the same: nothing of it may be lost, or have gone astray."""
        server = trial.setting.server
        now = promises.state(server)
        if self.change.takes_rows and self.state_then in ("published", "finished"):
            # All rows had been there.
            return
        with_rows = [oid for oid, own in now.own.items() if own.rows]
        what = f"{told}; {self.held.words(now)}"
        checks.require(len(with_rows) == 1, lambda: f"rows are not in one table: {what}")
        oid = with_rows[0]
        checks.require(
            # A load that had not begun may have been planned for what it found afterwards.
            self.held.replaces or is_anew or oid == self.oid or not self.state_then,
            lambda: f"rows followed the name: {what}",
        )
        found = now.own[oid]
        is_right = found.mark == self.held.expected
        if "DROP COLUMN" in self.change.do:
            is_right = (found.rows, found.doubled) == (self.held.rows, 0)
        checks.require(is_right, lambda: f"exit code 0, and rows differ: {what}")
        if is_anew:
            return
        if self.held.replaces and not self.state_then and self.oid in now.names:
            # It had been moved away when the load was planned.
            return
        if self.held.replaces:
            checks.require(self.oid not in now.names, lambda: f"the old table is there: {what}")
        self.others_are_right(trial, now)
        if f"INDEX {TARGET}_word" in self.change.do:
            there = server.sql(f"SELECT to_regclass('{TARGET}_word') IS NOT NULL")
            checks.require(there == "t", lambda: f"the index that was made is gone: {what}")
        if "CREATE TRIGGER" in self.change.do:
            there = server.sql("SELECT count(*) > 0 FROM pg_trigger WHERE tgname = 'looks_on'")
            checks.require(there == "t", lambda: f"the trigger that was made is gone: {what}")

    def others_are_right(self, trial: Trial, now: promises.State) -> None:
        """Rows of others are in the table that they were put into."""
        server = trial.setting.server
        for name in now.names.values():
            # Any other column may be gone.
            words = server.sql(f"SELECT word FROM {name} WHERE k <= 0").splitlines()
            is_new = MOVED in self.change.do and name == f"public.{TARGET}"
            wanted = "after" if is_new else "before"
            checks.require(set(words) <= {wanted}, f"{name} holds rows of {set(words)}")
            if is_new:
                checks.require(len(words) == 40, f"{len(words)} of 40 rows are in the new table")

    def failed(self, trial: Trial, told: Told) -> None:
        """A load that gave up: what it advises is done."""
        server = trial.setting.server
        now = promises.state(server)
        for oid, own in now.own.items():
            checks.require(
                own.rows == 0 or oid == self.oid or self.held.replaces,
                lambda: f"rows followed the name: {told}; {self.held.words(now)}",
            )
        if "DROP COLUMN" not in self.change.do:
            self.held.right_so_far()
        if self.change.undo and trial.rng.random() < 0.75:
            try:
                server.sql(f"BEGIN; {self.change.undo}; COMMIT")
            except Failed as failed:
                raise Wrong(f"{told}; the change can't be undone: {failed}") from failed
            trial.facts["undone"] = True
            self.is_rewritten = " TYPE " in self.change.do
            self.others_again(trial)
            self.finish(trial, told)
            return
        ended = self.go_on(trial, told)
        again = self.check(trial, ended, now)
        trial.facts["again"] = again.said[:400]
        if told.goes_on and ended.code != LOADED:
            raise Wrong(f"a resume is said to go on: {told}; it did not: {again}")
        if ended.code == LOADED:
            self.loaded(trial, again, is_anew=not told.resumable)
            return
        run = again.abort or told.abort
        if run and promises.state(server).run(run):
            self.take_back(trial, run)

    def others_again(self, trial: Trial) -> None:
        if "DETACH" in self.change.do:
            checks.require(
                len(promises.others(trial.setting.server)) == 40, "a partition lost its rows"
            )
