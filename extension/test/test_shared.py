"""Unique indexes whose keys repeat tell which rows share a key, and are valid once none do."""

from __future__ import annotations

from random import Random

import pytest
from filled import SHAPE, TABLES, Row, begin, finish, put, refused, send
from loads import assert_sound
from wire import Connection, ServerError

IS_SHARED = "ctid = ANY ((SELECT fullbore.shared('by_k'))::tid[])"
IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'by_k'::regclass"


def test_keys_that_are_not_unique(any_session: Connection) -> None:
    session = any_session
    # Many rows before the first one of them, so that pages are written already.
    rows = [*([str(n), "x"] for n in range(200_000)), ["199000", "again"]]
    for memory in ("1MB", "64MB"):
        session.query(f"SET maintenance_work_mem = '{memory}'")
        begin(session, "CREATE UNIQUE INDEX by_k ON filled (k)", "CREATE INDEX ON filled (v)")
        put(session, rows)
        assert refused(session, "COMMIT").code == "55000"
        begin(session, "CREATE UNIQUE INDEX by_k ON filled (k)", "CREATE INDEX ON filled (v)")
        put(session, rows)
        assert finish(session) == "{by_k}"
        session.query("COMMIT")
        assert session.value("SELECT count(*) FROM filled WHERE v = 'again'") == "1"
        assert session.value(IS_VALID) == "f"
        shared = f"SELECT v FROM filled WHERE {IS_SHARED} ORDER BY v"
        assert session.query(shared) == [["again"], ["x"]]
        # What was taken out and put back is found again, and what is still there twice.
        session.query(
            "BEGIN; DELETE FROM filled WHERE v = 'again'; INSERT INTO filled VALUES (-1, 'new')"
        )
        assert session.value("SELECT fullbore.shared('by_k')") == "{}"
        session.query("ROLLBACK")
        assert session.query(shared) == [["again"], ["x"]]
        # A transaction reads the index once, whatever is rolled back meanwhile.
        session.query("BEGIN; SAVEPOINT a")
        assert session.query(shared) == [["again"], ["x"]]
        session.query("ROLLBACK TO a")
        assert session.query(shared) == [["again"], ["x"]]
        session.query("SAVEPOINT b; DELETE FROM filled WHERE v = 'again'")
        assert session.value("SELECT fullbore.shared('by_k')") == "{}"
        session.query("ROLLBACK TO b")
        assert session.value(IS_VALID) == "f"
        assert session.query(shared) == [["again"], ["x"]]
        session.query("DELETE FROM filled WHERE v = 'again'; REINDEX INDEX by_k")
        assert session.value("SELECT fullbore.shared('by_k')") == "{}"
        session.query("ROLLBACK; BEGIN")
        assert session.query(shared) == [["again"], ["x"]]
        session.query("TRUNCATE filled; INSERT INTO filled VALUES (1, 'a'), (2, 'b')")
        assert session.value("SELECT fullbore.shared('by_k')") == "{}"
        session.query("ROLLBACK")
        assert session.query(shared) == [["again"], ["x"]]
        session.query("DELETE FROM filled WHERE v = 'again'")
        assert session.value("SELECT fullbore.shared('by_k')") == "{}"
        assert session.value(IS_VALID) == "t"
        assert session.value("SELECT fullbore.shared('by_k')") == "{}"
        twice = refused(session, "INSERT INTO filled VALUES (199000, 'once more')")
        assert twice.code == "23505"
        session.query("VACUUM filled")
        assert_sound(session, "filled")
        session.query("DROP TABLE filled")
    session.query("RESET maintenance_work_mem")
    # NULLs are not equal to each other.
    session.query("BEGIN; CREATE TABLE filled (k int8, v text)")
    session.query("CREATE UNIQUE INDEX by_k ON filled (k)")
    put(session, [[None, "a"], ["1", "b"], [None, "c"]])
    assert finish(session) == "{}"
    session.query("COMMIT; DROP TABLE filled")


def test_a_table_is_truncated_after_it_was_asked(any_session: Connection) -> None:
    """Storage of the same transaction stays where it is."""
    session = any_session
    begin(session)
    put(session, [["1", "a"], ["1", "b"]])
    assert finish(session) == "{by_k}"
    assert session.value("SELECT fullbore.shared('by_k')") != "{}"
    session.query("TRUNCATE filled; INSERT INTO filled VALUES (5, 'x'), (6, 'y')")
    assert session.value("SELECT fullbore.shared('by_k')") == "{}"
    assert session.value(IS_VALID) == "t"
    session.query("COMMIT")
    assert_sound(session, "filled")
    session.query("DROP TABLE filled")


def test_rows_that_share_keys_of_all_kinds(any_session: Connection) -> None:
    """Keys that are equal but not stored alike, long ones, NULLs, several columns, INCLUDE."""
    session = any_session
    version = int(session.value("SHOW server_version_num") or 0) // 10000
    kinds = {
        "int8": lambda draw: str(draw.randrange(60)),
        "numeric": lambda draw: draw.choice(("1", "1.0", "1.00", "2", f"{draw.randrange(50)}.50")),
        "float8": lambda draw: draw.choice(("0", "-0", "NaN", "1.5", str(draw.randrange(50)))),
        'text COLLATE "C"': lambda draw: draw.choice("ab") * draw.choice((1, 2, 40, 300)),
        'bpchar(9) COLLATE "C"': lambda draw: draw.choice(("a", "a ", str(draw.randrange(50)))),
        "date": lambda draw: f"2026-01-{draw.randrange(1, 29):02}",
    }  # fmt: skip
    for seed in range(TABLES):
        draw = Random(seed)
        columns = [draw.choice(list(kinds)) for _ in range(draw.randint(1, 3))]
        makes = [kinds[column] for column in columns]
        names = ", ".join(f"c{at}" for at in range(len(columns)))
        shape = ", ".join(f"c{at} {column}" for at, column in enumerate(columns))
        tail = draw.choice(("", " INCLUDE (n)"))
        if version >= 15:
            tail += draw.choice(("", " NULLS NOT DISTINCT"))
        rows: list[Row] = [
            [None if draw.random() < 0.1 else make(draw) for make in makes] + [str(number)]
            for number in range(draw.choice((2, 30, 300)))
        ]
        session.query(f"BEGIN; CREATE TABLE filled ({shape}, n int8)")
        session.query(f"CREATE UNIQUE INDEX by_k ON filled ({names}){tail}")
        send(session, "filled", rows, draw)
        is_shared = finish(session) == "{by_k}"
        session.query("COMMIT")
        differ = "" if "NOT DISTINCT" in tail else f"WHERE num_nulls({names}) = 0"
        count = f"SELECT n, count(*) OVER (PARTITION BY {names}) AS c FROM filled {differ}"
        wanted = session.query(f"SELECT n FROM ({count}) q WHERE c > 1 ORDER BY n")
        found = f"SELECT n FROM filled WHERE {IS_SHARED} ORDER BY n"
        what = (seed, shape, tail)
        assert is_shared == bool(wanted), what
        assert session.query(found) == wanted, what
        if is_shared:
            # Of those that are the same, one may stay.
            same = " AND ".join(
                f"a.c{at} {'IS NOT DISTINCT FROM' if not differ else '='} b.c{at}"
                for at in range(len(columns))
            )
            session.query(f"DELETE FROM filled a USING filled b WHERE a.ctid > b.ctid AND {same}")
            assert session.value("SELECT fullbore.shared('by_k')") == "{}", what
            session.query("VACUUM filled")
            session.query("REINDEX INDEX by_k")
        session.query("DROP TABLE filled")


def test_only_what_finish_left_becomes_valid(any_session: Connection) -> None:
    session = any_session
    session.query(f"CREATE TABLE filled {SHAPE}")
    session.query("INSERT INTO filled SELECT 1, 'same' FROM generate_series(1, 3)")
    with pytest.raises(ServerError):
        session.query("CREATE UNIQUE INDEX CONCURRENTLY by_k ON filled (k)")
    session.query("DELETE FROM filled")
    assert refused(session, "SELECT fullbore.shared('by_k')").code == "55000"
    session.query("DROP TABLE filled")
    begin(session)
    put(session, [["1", "a"], ["1", "b"]])
    assert finish(session) == "{by_k}"
    session.query("COMMIT; DROP ROLE IF EXISTS other_role; CREATE ROLE other_role")
    session.query("GRANT USAGE ON SCHEMA fullbore TO other_role")
    schema = session.value("SELECT quote_ident(current_schema())")
    session.query(f"GRANT USAGE ON SCHEMA {schema} TO other_role")
    session.query("GRANT EXECUTE ON FUNCTION fullbore.descriptor(regclass) TO other_role")
    session.query("SET ROLE other_role")
    assert refused(session, "SELECT fullbore.shared('by_k')").code == "42501"
    session.query("RESET ROLE; DROP OWNED BY other_role; DROP ROLE other_role; DROP TABLE filled")
