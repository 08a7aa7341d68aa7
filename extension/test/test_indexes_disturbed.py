"""Savepoints, and functions of the table itself, while indexes wait for their rows."""

from __future__ import annotations

import bodies
import pytest
from filled import SHAPE, Row, assert_found, begin, finish, put, refused
from loads import INDEXED, copy_sql, descriptor
from wire import Connection, ServerError


def spilled(session: Connection) -> None:
    session.query("SET maintenance_work_mem = '1MB'")
    rows: list[Row] = [[str(n * 7919 % 200_003), None] for n in range(200_003)]
    for first in range(0, len(rows), 20_000):
        put(session, rows[first : first + 20_000])


def test_savepoints_are_not_released_over_files(session: Connection) -> None:
    session.query(f"BEGIN; SAVEPOINT a; CREATE TABLE filled {SHAPE}; CREATE INDEX ON filled (k)")
    spilled(session)
    assert refused(session, "RELEASE a").code == "55000"
    session.query(f"BEGIN; SAVEPOINT a; CREATE TABLE filled {SHAPE}; CREATE INDEX ON filled (k)")
    spilled(session)
    assert finish(session) == "{}"
    session.query("RELEASE a; COMMIT; RESET maintenance_work_mem")
    assert_found(session, 200_003)
    session.query("DROP TABLE filled")


def test_what_finish_did_is_not_rolled_back_alone(any_session: Connection) -> None:
    session = any_session
    begin(session)
    put(session)
    session.query("SAVEPOINT a")
    assert refused(session, "SELECT fullbore.finish('filled')").code == "55000"
    # A table that is emptied later, and has its rows again, lacks them in its index.
    for emptied in ("TRUNCATE filled", "TRUNCATE filled, pg_class"):
        begin(session)
        put(session)
        session.query("SAVEPOINT a")
        if "," in emptied:
            with pytest.raises(ServerError):
                session.query(emptied)
        else:
            session.query(emptied)
        session.query("ROLLBACK TO a")
        assert refused(session, "COMMIT").code == "55000"
    # Emptied for good it lacks nothing.
    begin(session)
    put(session)
    session.query("SAVEPOINT a; SAVEPOINT b; TRUNCATE filled; RELEASE b; RELEASE a; COMMIT")
    assert_found(session, 0)
    session.query("DROP TABLE filled")


def test_its_own_functions_can_not_disturb_a_load(any_session: Connection) -> None:
    session = any_session
    session.query("CREATE TABLE parent (k int8 NOT NULL, v text) PARTITION BY RANGE (k)")
    session.query("CREATE INDEX ON parent (k)")
    for what in (
        "BEGIN TRUNCATE filled; EXCEPTION WHEN OTHERS THEN NULL; END",
        "TRUNCATE filled",
        "PERFORM fullbore.finish('filled')",
        "CREATE TABLE x (k int8 NOT NULL, v text); PERFORM fullbore.adopt('x', 'filled')",
        "ALTER TABLE parent ATTACH PARTITION filled FOR VALUES FROM (0) TO (10)",
    ):
        session.query(
            f"CREATE FUNCTION pg_temp.disturb() RETURNS text LANGUAGE plpgsql AS"
            f" $$ BEGIN {what}; RETURN 'v'; END $$"
        )
        session.query(
            "BEGIN; CREATE TABLE filled (k int8 NOT NULL, v text DEFAULT pg_temp.disturb())"
        )
        session.query("CREATE INDEX by_k ON filled (k)")
        hash_, frame = descriptor(session, "filled")["hash"], bodies.text_frame([["50"]])
        if what.startswith("BEGIN"):
            session.copy(copy_sql("filled (k)", hash_, INDEXED), frame)
            assert finish(session) == "{}"
        else:
            with pytest.raises(ServerError) as error:
                session.copy(copy_sql("filled (k)", hash_, INDEXED), frame)
            assert error.value.code in ("55006", "0A000"), what
        session.query("ROLLBACK; DROP FUNCTION pg_temp.disturb()")
    session.query("DROP TABLE parent")
