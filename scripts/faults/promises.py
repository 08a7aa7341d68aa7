"""What a command says when it ends, held against what the database has.

A command promises by its exit code, by the JSON object on its standard output and by its last
words on standard error. Each of them is believed here, and looked up: rows that are said to be
there are counted, a run that is said to be resumable is looked for in the ledger, and what is said
to be gone must be gone. Rows of the files have positive keys; all others belong to somebody
else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import checks
from load import FAILED, LOADED, REFUSED, STOPPED, Ended
from places import Wrong
from server import Server
from ways import TARGET
from world import REFERENCE

ID = r"[0-9a-z]{12,}"
KEPT = re.compile(
    r"([\d,]+) rows? (?:committed and kept|(?:is|are|was|were) (?:committed|published))"
)
STAY = re.compile(
    r"([\d,]+) rows? (?:of committed pieces |that plain append .*?)?(?:stay|remain)s?"
)
RESUME = re.compile(rf"fullbore runs resume ({ID})")
ABORT = re.compile(rf"fullbore runs abort ({ID})")
# The words of a client that does not know whether it has rolled its run back.
UNHEARD = "possible leftovers"
# The words of an abort that removes nothing.
COMMITTED = re.compile(r"it had committed ([\d,]+) rows")
# What makes a resume depend on something.
CONDITION = re.compile(r"\b(?:once|after|first|if|undo|undone|where|replace-anyway)\b")
# What says that the table is not what the run's pieces made of it.
CHANGED = re.compile(
    r"no longer (?:the table|exists)|changed|dropped|truncated|emptied|moved|renamed|gone|missing"
    r"|lacks|gained|no longer matches|fewer|deleted"
)
LEFT = re.compile(r"left behind|could not (?:clean|be dropped)|drop (?:it )?(?:by hand|manually)")
# The words of a run that somebody else has now.
TAKEN = re.compile(
    r"taken over|rolled back|was begun meanwhile|resumed (?:by|elsewhere)|by another process"
)

VALUES = "k::bigint, n::int, day::date, amount::numeric(12,2), word::text, note::text"
OWN = """
    SELECT count(*), count(*) - count(DISTINCT k), sum(hashtextextended(ROW({values})::text, 0))
      FROM {table} WHERE k > 0"""
FOREIGN = """
    SELECT count(*) FROM (SELECT {values} FROM {table} WHERE k > 0
                          EXCEPT SELECT {values} FROM {reference}.plain) AS unknown"""
OTHERS = "SELECT k, n, word FROM {table} WHERE k <= 0 ORDER BY k DESC, n"
RUNS = """
    SELECT run, state, coalesce(sum(p.rows), 0), count(p.piece), coalesce(sum(p.bytes), 0)
      FROM fullbore_ledger.runs LEFT JOIN fullbore_ledger.pieces p USING (run)
     GROUP BY run, state, started
     ORDER BY started"""
TABLES = """
    SELECT c.oid, n.nspname || '.' || c.relname
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relname IN ('target', 'target_moved') AND c.relkind IN ('r', 'p')
     ORDER BY c.relname, n.nspname"""

# Tables that the trials themselves make beside the target.
THEIRS = ("target_moved", "target_before", "target_after", "target_more")

Others = list[tuple[int, str, str]]


@dataclass(frozen=True)
class Own:
    """Rows of the files in a table."""

    rows: int
    doubled: int
    checksum: str

    @property
    def mark(self) -> str:
        return f"{self.rows}|{self.checksum}"


@dataclass(frozen=True)
class Run:
    """A run as the ledger has it."""

    run: str
    state: str
    rows: int
    pieces: int
    bytes: int

    @property
    def is_unfinished(self) -> bool:
        return self.state not in ("finished", "undone")


@dataclass
class State:
    """What the database has: tables that may hold rows of the files, by their OIDs, and runs."""

    names: dict[str, str]
    own: dict[str, Own]
    runs: list[Run]

    @property
    def rows(self) -> int:
        return sum(own.rows for own in self.own.values())

    def run(self, run: str) -> Run | None:
        return next((known for known in self.runs if known.run == run), None)

    @property
    def unfinished(self) -> list[Run]:
        return [run for run in self.runs if run.is_unfinished]


@dataclass
class Told:
    """What a command claims."""

    ended: Ended
    kept: int | None = None
    stay: int | None = None
    # By an abort that removed nothing.
    committed: int | None = None
    resume: str = ""
    abort: str = ""
    run: str = ""
    resumable: bool = False
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def code(self) -> int:
        return self.ended.code

    @property
    def said(self) -> str:
        return self.ended.said

    @property
    def goes_on(self) -> bool:
        """A resume is said to go on, and no condition is made, there or in a hint."""
        lines = self.said.splitlines()
        offers = [line for line in lines if RESUME.search(line)]
        hints = [line for line in lines if "hint:" in line]
        return bool(offers) and all(CONDITION.search(line) is None for line in offers + hints)

    def __str__(self) -> str:
        return f"exit code {self.code}, {self.said!r}"


def told(ended: Ended) -> Told:
    """The claims of a command, read out of its words."""

    def number(pattern: re.Pattern[str]) -> int | None:
        found = pattern.search(ended.said)
        return int(found[1].replace(",", "")) if found else None

    def named(pattern: re.Pattern[str]) -> str:
        found = pattern.search(ended.said)
        return found[1] if found else ""

    summary = ended.summary
    return Told(
        ended, number(KEPT), number(STAY), number(COMMITTED), named(RESUME), named(ABORT),
        str(summary.get("run_id", "")), bool(summary.get("resumable", False)),
    )  # fmt: skip


def own(server: Server, table: str) -> Own:
    """The files' rows in a table; without a checksum where a column is missing."""
    columns = server.sql(
        f"SELECT count(*) FROM pg_attribute WHERE attrelid = '{table}'::regclass"
        " AND NOT attisdropped AND attname IN ('k', 'n', 'day', 'amount', 'word', 'note')"
    )
    values = VALUES if columns == "6" else "k::bigint"
    rows, doubled, checksum = server.sql(OWN.format(values=values, table=table)).split("|")
    return Own(int(rows), int(doubled), checksum if columns == "6" else "a column is missing")


def others(server: Server, table: str = TARGET) -> Others:
    """Rows that are not of the files."""
    lines = server.sql(OTHERS.format(table=table)).splitlines()
    return [(int(k), n, word) for k, n, word in (line.split("|") for line in lines)]


def ledger(server: Server) -> list[Run]:
    """The runs that the ledger knows, the oldest first."""
    runs = []
    if server.sql("SELECT to_regclass('fullbore_ledger.pieces') IS NOT NULL") == "t":
        for line in server.sql(RUNS).splitlines():
            run, name, *numbers = line.split("|")
            runs.append(Run(run, name, *map(int, numbers)))
    return runs


def state(server: Server) -> State:
    """What the database has now."""
    names = dict(line.split("|") for line in server.sql(TABLES).splitlines())
    return State(names, {oid: own(server, name) for oid, name in names.items()}, ledger(server))


@dataclass
class Held:
    """A target under trial: what it had before, and what a load of it must come to."""

    server: Server
    rows: int
    expected: str
    # Rows go into the target piece by piece.
    is_piecewise: bool
    replaces: bool
    # A commit may have gone unheard: there may be more than is said.
    may_be_more: bool = False
    # Somebody took rows away, or the table: fewer may be there, if that is said.
    may_be_fewer: bool = False
    expects_json: bool = True

    def check(self, ended: Ended, before: State | None = None) -> Told:
        """Believes a command, and looks it up."""
        claim = told(ended)
        if ended.code < 0:
            return claim
        now = state(self.server)
        what = f"{claim}; summary {shortened(ended)}; the database has {self.words(now)}"

        def require(is_so: bool, wrong: str) -> None:
            checks.require(is_so, lambda: f"{wrong}: {what}")

        require(ended.code in (LOADED, FAILED, REFUSED, STOPPED), "an exit code without a meaning")
        for own_rows in now.own.values():
            require(own_rows.doubled == 0, f"{own_rows.doubled} rows are there twice")
        if self.expects_json:
            require(bool(ended.summary), "no JSON summary")
            is_error = ended.summary.get("error") is not None
            require(is_error == (ended.code != LOADED), "code and summary differ on success")
        if ended.code == LOADED:
            require(ended.summary.get("rows", self.rows) == self.rows, "it says other rows")
            require(LEFT.search(ended.said) is None, "it left something behind")
            return claim
        require(bool(ended.said), "no word about the error")
        is_helpful = "hint:" in ended.said or "stopped by a signal" in ended.said
        require(is_helpful or bool(claim.resume or claim.abort), "an error without a hint")
        for run in {claim.resume, claim.abort} - {""}:
            known = now.run(run)
            if known is None and UNHEARD in ended.said:
                # Taking it back may have gone unheard: a resume says so.
                continue
            require(known is not None, f"it names run {run}, which the ledger does not know")
            require(known.is_unfinished, f"it names run {run}, which is {known.state}")
            # What is shown is not aborted.
            is_offered = run == claim.abort and known.state == "published"
            require(not is_offered, f"it offers to abort run {run}, which is {known.state}")
        if ended.code == STOPPED:
            self.stopped(claim, now, require)
        else:
            self.nothing_kept(claim, now, before, require)
        return claim

    def stopped(self, claim: Told, now: State, require) -> None:
        """Code 4: something is kept, and said."""
        is_changed = CHANGED.search(claim.said) is not None
        if claim.resumable and not (now.run(claim.run) is None and UNHEARD in claim.said):
            known = now.run(claim.run)
            require(known is not None and known.is_unfinished, "the run can't be resumed")
            require(claim.resume == claim.run or claim.abort == claim.run, "no word how to go on")
            said = claim.kept or 0
            require(said == int(str(claim.ended.summary["rows"])), "words and summary differ")
            is_right = said <= known.rows if self.may_be_more else said == known.rows
            require(is_right, f"{said} rows are said to be kept, the ledger has {known.rows}")
            if self.is_piecewise:
                is_gone = claim.kept is None and self.may_be_fewer and is_changed
                is_right = now.rows == known.rows and said <= known.rows
                require(is_right or is_gone, f"{said} rows are said to be kept of {now.rows}")
        elif TAKEN.search(claim.said) is None:
            is_nothing = now.rows == 0 and not now.unfinished and "nothing" in claim.said
            stay = claim.stay or 0
            is_gone = not stay and self.may_be_fewer and is_changed
            is_right = stay > 0 and now.rows == stay
            require(is_right or is_gone or is_nothing, "neither rows nor a run are said to be kept")
        if claim.stay:
            is_right = claim.stay <= now.rows if self.may_be_more else claim.stay == now.rows
            require(is_right, f"{claim.stay} rows are said to stay of {now.rows}")
        if not self.is_piecewise and not any(run.state == "published" for run in now.runs):
            require(now.rows == 0, f"{now.rows} rows are shown before they are published")

    def nothing_kept(self, claim: Told, now: State, before: State | None, require) -> None:
        """Codes 1 and 2: what was there before is there, and nothing else."""
        known = {(run.run, run.state, run.rows) for run in (before.runs if before else [])}
        added = [run for run in now.runs if (run.run, run.state, run.rows) not in known]
        rows = before.rows if before else 0
        if LEFT.search(claim.said) is None:
            require(not added, f"nothing should be kept, and the ledger has {added}")
            require(now.rows == rows, f"nothing should be kept, and {now.rows} rows are there")
            if before is None or not before.unfinished:
                strays = self.strays()
                require(strays == "", f"nothing should be kept, and there are tables {strays}")

    def strays(self) -> str:
        found = checks.strays_of(self.server).split(", ")
        return ", ".join(name for name in found if name.split(".")[-1] not in THEIRS)

    def words(self, now: State) -> str:
        tables = [f"{now.names[oid]} ({oid}): {own}" for oid, own in now.own.items()]
        return f"{'; '.join(tables) or 'no table'}; runs {now.runs}; of {self.rows} rows"

    def exact(self, table: str = TARGET, runs: int = 1, loads: int = 1) -> None:
        """Every row once, runs that have finished, as many as there should be, and nothing else."""
        checks.sessions_have_ended(self.server)
        now = state(self.server)
        found = own(self.server, table)
        checks.require(
            found.mark == self.expected,
            lambda: (
                f"{table} holds {found}, not {self.expected}; {self.foreign(table)} rows are of no"
                f" file; {self.words(now)}"
            ),
        )
        elsewhere = sum(
            rows.rows for oid, rows in now.own.items() if now.names[oid] != f"public.{table}"
        )
        checks.require(elsewhere == 0, f"rows are elsewhere, too: {self.words(now)}")
        states = [run.state for run in now.runs]
        checks.require(states == ["finished"] * runs, f"the ledger has runs {now.runs}")
        said = sum(run.rows for run in now.runs)
        wanted = loads * self.rows
        checks.require(said == wanted, f"the ledger has {said} rows of {wanted}")
        strays = self.strays()
        checks.require(strays == "", f"tables were not dropped: {strays}")
        invalid = self.server.sql(
            "SELECT count(*) FROM pg_index WHERE NOT indisvalid AND indrelid IN"
            f" (SELECT relid FROM pg_partition_tree('{table}'))"
        )
        checks.require(invalid == "0", f"{invalid} indexes are invalid")

    def foreign(self, table: str) -> str:
        if own(self.server, table).checksum == "a column is missing":
            return "an unknown number of"
        return self.server.sql(FOREIGN.format(values=VALUES, table=table, reference=REFERENCE))

    def right_so_far(self) -> None:
        """Rows that are there already are rows of the files, each once."""
        for oid, rows in (now := state(self.server)).own.items():
            table = now.names[oid]
            checks.require(rows.doubled == 0, f"{rows.doubled} rows are twice in {table}")
            foreign = self.foreign(table)
            checks.require(foreign == "0", f"{foreign} rows in {table} are of no file")


def taken_back(held: Held, ended: Ended, before: State) -> None:
    """An abort that was advised did what it says."""
    claim = told(ended)
    now = state(held.server)
    what = f"the abort: {claim}; before {held.words(before)}; now {held.words(now)}"
    if ended.code not in (LOADED, STOPPED):
        raise Wrong(what)
    checks.require(not now.unfinished, lambda: f"a run is still there: {what}")
    strays = held.strays()
    checks.require(strays == "", lambda: f"tables {strays} are still there: {what}")
    checks.require(now.rows == before.rows, lambda: f"rows came or went: {what}")
    said = claim.committed or 0
    there = sum(run.rows for run in before.unfinished)
    is_right = said == there if held.is_piecewise else said == 0
    checks.require(is_right, lambda: f"{said} rows are said to have been committed: {what}")
    is_right = held.may_be_fewer or not held.is_piecewise or now.rows == there
    checks.require(is_right, lambda: f"{now.rows} rows are there: {what}")
    checks.require((ended.code == STOPPED) == (said > 0), lambda: f"code and words differ: {what}")


def shortened(ended: Ended) -> str:
    names = ("run_id", "rows", "rows_before", "pieces", "resumable", "error", "verified")
    return str({name: ended.summary[name] for name in names if name in ended.summary})
