"""What must hold once a load has been gone on with until it finished, or was rolled back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from data import Data
from load import wait_for
from places import Wrong
from server import Server
from ways import TARGET
from world import CHECKSUM, REFERENCE

STRAYS = """
    SELECT string_agg(c.oid::regclass::text, ', ') FROM pg_class c
      JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> '{target}'
       AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
       AND n.nspname NOT IN ('fullbore', 'fullbore_ledger', '{reference}')"""

INDEXES = """
    SELECT count(*) FILTER (WHERE indrelid = '{target}'::regclass),
           count(*) FILTER (WHERE NOT indisvalid OR NOT indisready)
      FROM pg_index"""

RUNS = "SELECT state, count(*) FROM fullbore_ledger.runs GROUP BY state"
PIECES = (
    "SELECT coalesce(sum(rows), 0), coalesce(sum(bytes), 0), count(*) FROM fullbore_ledger.pieces"
)
# Its own checkers; a partitioned table's leaves are what has storage.
DAMAGE = """
    WITH leaves AS (SELECT relid FROM pg_partition_tree('{target}') WHERE isleaf)
    SELECT relid::regclass, v FROM leaves, verify_heapam(relid) AS v LIMIT 5;
    SELECT bt_index_check(i.indexrelid, heapallindexed => true)
      FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid AND c.relkind = 'i'
     WHERE i.indrelid IN (SELECT relid FROM pg_partition_tree('{target}'))"""


@dataclass(frozen=True)
class Before:
    """Rows that a target has before others are merged with them; so many will change."""

    rows: int
    changed: int


def fill(server: Server, data: Data) -> Before:
    """Fills a target with rows of some files, half of them changed."""
    server.copy(TARGET, data.good_files[:3])
    rows = int(server.sql(f"SELECT count(*) FROM {TARGET}"))
    change = f"UPDATE {TARGET} SET word = 'old', note = NULL WHERE k % 2 = 0 RETURNING 1"
    changed = int(server.sql(f"WITH gone AS ({change}) SELECT count(*) FROM gone"))
    return Before(rows, changed)


def merged(server: Server, data: Data, before: Before) -> None:
    """Each row was inserted or updated once."""
    done = "SELECT sum(inserted), sum(updated) FROM fullbore_ledger.merges"
    inserted, updated = map(int, server.sql(done).split("|"))
    require(
        (inserted, updated) == (data.rows - before.rows, before.changed),
        f"{inserted} rows were inserted and {updated} updated, {before} before of {data.rows}",
    )


def require(is_so: bool, what: Callable[[], str] | str) -> None:
    """A finding, where it is not so."""
    if not is_so:
        raise Wrong(what if isinstance(what, str) else what())


def sessions_have_ended(server: Server) -> None:
    """Nobody of the load is left at the server."""
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    wait_for("end of all sessions", lambda: server.sql(others) == "0", seconds=90)


def finished(server: Server, data: Data, expected: str, thoroughly: bool) -> None:
    """The target is what COPY makes of the files, and nothing else is left."""
    found = server.sql(CHECKSUM.format(table=TARGET))
    require(found == expected, lambda: f"count|checksum are {found}, plain COPY's {expected}")
    sessions_have_ended(server)
    no_strays(server)
    runs = server.sql(RUNS)
    require(runs == "finished|1", lambda: f"the ledger has runs {runs.split()!r}")
    rows, size, _ = server.sql(PIECES).split("|")
    require(
        (int(rows), int(size)) == (data.rows, data.bytes),
        f"the ledger's pieces have {rows} rows, {size} bytes of {data.rows}, {data.bytes}",
    )
    indexes = server.sql(INDEXES.format(target=TARGET))
    require(indexes == "2|0", f"indexes of the target, and invalid ones: {indexes}")
    if thoroughly:
        damage = server.sql(DAMAGE.format(target=TARGET)).strip()
        require(damage == "", f"the server's checkers say: {damage[:500]}")


def strays_of(server: Server) -> str:
    """Names of all tables beside the target."""
    return server.sql(STRAYS.format(target=TARGET, reference=REFERENCE))


def no_strays(server: Server) -> None:
    strays = strays_of(server)
    require(strays == "", f"tables were not dropped: {strays}")


def taken_back(server: Server, rows_stay: bool) -> None:
    """Nothing is left of a run, but rows that plain append had committed."""
    sessions_have_ended(server)
    no_strays(server)
    runs = server.sql(RUNS)
    require(runs == "", f"the ledger still has runs: {runs}")
    left = server.sql(f"SELECT count(*), count(*) - count(DISTINCT k) FROM {TARGET}")
    rows, twice = left.split("|")
    require(twice == "0", f"{twice} rows are there twice")
    require(rows_stay or rows == "0", f"{rows} rows are left in the target")


def rejects(folder: Path, data: Data) -> None:
    """The reject file holds every bad row, once."""
    files = sorted(folder.glob("*.rejected"))
    require(len(files) == 1, f"reject files: {[file.name for file in files]}")
    found = sorted(files[0].read_text().splitlines())
    wanted = data.bad_rows
    require(
        found == wanted,
        lambda: (
            f"{len(found)} rows in the reject file, {len(set(found))} different, of {len(wanted)}"
        ),
    )


def ledger_state(server: Server) -> tuple[str, int, int]:
    """State of the run that the ledger knows, its pieces and their bytes; no state without one."""
    if server.sql("SELECT to_regclass('fullbore_ledger.runs') IS NULL") == "t":
        return "", 0, 0
    found = server.sql("SELECT state FROM fullbore_ledger.runs ORDER BY started DESC LIMIT 1")
    _, size, pieces = server.sql(PIECES).split("|")
    return found, int(pieces), int(size)
