"""What the tests of filled indexes share: a table ``filled`` that is loaded with INDEXES."""

from __future__ import annotations

import os
from random import Random

import bodies
import pytest
from loads import INDEXED, assert_sound, descriptor, load
from wire import Connection, ServerError

Row = list[str | None]

# Random tables that a test draws.
TABLES = 2000 if os.environ.get("FULLBORE_TEST_ALL") == "1" else 40
SHAPE = "(k int8 NOT NULL, v text)"
# Characters of a row that certainly has a body.
BODY_MAX = 1000
ROWS: list[Row] = [[str(n), f"value {n % 10}"] for n in range(1000)]


def begin(session: Connection, *indexes: str) -> None:
    session.query(f"BEGIN; CREATE TABLE filled {SHAPE}")
    for index in indexes or ("CREATE UNIQUE INDEX by_k ON filled (k)",):
        session.query(index)


def put(session: Connection, rows: list[Row] = ROWS, options: str = INDEXED) -> str:
    columns = descriptor(session, "filled")["columns"]
    return load(session, "filled", bodies.body_frame(columns, rows), options=options)


def finish(session: Connection) -> str | None:
    return session.value("SELECT fullbore.finish('filled')")


def refused(session: Connection, sql: str) -> ServerError:
    with pytest.raises(ServerError) as error:
        session.query(sql)
    session.query("ROLLBACK")
    return error.value


def send(session: Connection, table: str, rows: list[Row], draw: Random) -> None:
    """By bodies and by lines of text, in several COPYs."""
    columns = descriptor(session, table)["columns"]
    while True:
        count = draw.choice((200, 1000))
        part, rows = rows[:count], rows[count:]
        frames = [bodies.text_frame(part)]
        # Longer rows travel out of band.
        if all(sum(len(value or "") for value in row) <= BODY_MAX for row in part):
            frames.append(bodies.body_frame(columns, part))
        load(session, table, draw.choice(frames), options=INDEXED + ", FREEZE true")
        if not rows:
            return


def indexes_of(session: Connection, table: str) -> list[str]:
    sql = f"SELECT indexrelid::regclass FROM pg_index WHERE indrelid = '{table}'::regclass"
    return [str(name) for (name,) in session.query(f"{sql} ORDER BY indexrelid")]


def pages(session: Connection, index: str) -> int:
    return int(session.value(f"SELECT pg_relation_size('{index}') / 8192") or 0)


def assert_alike(session: Connection, filled: str, created: str) -> None:
    """Each index is sound, and what CREATE INDEX made of the same rows."""
    assert_sound(session, filled, frozen=True)
    for one, other in zip(indexes_of(session, filled), indexes_of(session, created), strict=True):
        session.query(f"SELECT bt_index_parent_check('{one}', true, true)")
        mine, theirs = pages(session, one), pages(session, other)
        assert abs(mine - theirs) <= max(1, 0.02 * theirs), (one, mine, theirs)
        meta = "SELECT version, level, allequalimage FROM bt_metap('{}')"
        assert session.query(meta.format(one)) == session.query(meta.format(other))


def assert_found(session: Connection, rows: int) -> None:
    """All rows are found by the index, and by a scan."""
    for setting in ("enable_seqscan", "enable_indexscan"):
        session.query(f"SET {setting} = off; SET enable_bitmapscan = off")
        sql = (
            "SELECT count(*) || ' ' || count(DISTINCT k) FROM filled WHERE k BETWEEN 0 AND 1000000"
        )
        assert session.value(sql) == f"{rows} {rows}"
        session.query(f"RESET {setting}; RESET enable_bitmapscan")
