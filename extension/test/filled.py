"""What the tests of filled indexes share: a table ``filled`` that is loaded with INDEXES."""

from __future__ import annotations

import os
from random import Random

import bodies
import pytest
from loads import INDEXED, descriptor, load
from wire import Connection, ServerError

Row = list[str | None]

# Random tables that a test draws.
TABLES = 2000 if os.environ.get("FULLBORE_TEST_ALL") == "1" else 40
SHAPE = "(k int8 NOT NULL, v text)"
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
        frames = [bodies.body_frame(columns, part), bodies.text_frame(part)]
        load(session, table, draw.choice(frames), options=INDEXED + ", FREEZE true")
        if not rows:
            return
