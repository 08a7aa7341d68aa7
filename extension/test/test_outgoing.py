"""fullbore.rows_of: byte for byte what COPY sends, for those who may read it, as of one moment."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from loads import copy_text
from test_types import VALUES
from wire import Connection, ServerError

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = b"\xff\xff"


def rows_of(session: Connection, query: str) -> list[bytes]:
    """The stretches in which a query's rows come."""
    quoted = query.replace("'", "''")
    whole = b"".join(session.copied(f"SELECT fullbore.rows_of('{quoted}')"))
    return list(values_of(whole))


def values_of(whole: bytes) -> Iterator[bytes]:
    """The values of a binary COPY of one column."""
    assert whole.startswith(HEADER) and whole.endswith(END)
    at = len(HEADER)
    while at < len(whole) - len(END):
        columns, length = struct.unpack_from(">hi", whole, at)
        assert columns == 1
        at += 6 + length
        yield whole[at - length : at]


def assert_as_copied(session: Connection, query: str) -> list[bytes]:
    stretches = rows_of(session, query)
    assert HEADER + b"".join(stretches) + END == b"".join(session.copied(query)), query
    return stretches


def test_values_of_every_type(any_session: Connection) -> None:
    for number, (type_, values) in enumerate(VALUES.items()):
        any_session.query(f"CREATE TABLE t{number} (v {type_}, t text, w {type_})")
        copy_text(any_session, f"t{number}", [[v, "z", w] for v in values for w in values])
        assert_as_copied(any_session, f"SELECT v, t, w FROM t{number}")
        assert_as_copied(any_session, f"SELECT w, v::text FROM t{number} WHERE v IS NOT NULL")


def test_types_that_their_own_functions_write(any_session: Connection) -> None:
    any_session.query("CREATE TYPE mood AS ENUM ('sad', 'so so')")
    any_session.query("CREATE DOMAIN positive AS int4 CHECK (VALUE > 0)")
    assert_as_copied(
        any_session,
        """SELECT 'sad'::mood AS a, 3::positive AS b, ARRAY[1, NULL, 3] AS c,
                  '{"a": [1]}'::jsonb AS d, interval '1 day 2 h' AS e, '12:00+02'::timetz AS f,
                  '::1'::inet AS g, ROW(1, 'x') AS h, int4range(1, 5) AS i, NULL::mood AS j
             FROM generate_series(1, 100)""",
    )


def test_values_out_of_line_and_compressed(any_session: Connection) -> None:
    any_session.query("CREATE TABLE t (k int, v text, b bytea, n numeric)")
    any_session.query(
        """INSERT INTO t SELECT g, repeat('käse ', g * 97),
                  (SELECT string_agg(decode(md5(g::text || i), 'hex'), '')
                     FROM generate_series(1, g) i),
                  repeat('1234567890', g + 1)::numeric
             FROM generate_series(0, 300) g"""
    )
    assert_as_copied(any_session, "SELECT * FROM t")


@pytest.mark.parametrize("rows", [0, 1, 1023, 1024, 1025, 20_000])
@pytest.mark.parametrize("width", [0, 10, 500])
def test_stretches_are_neither_short_nor_long(
    any_session: Connection, rows: int, width: int
) -> None:
    query = f"SELECT g, repeat('x', {width}) AS v FROM generate_series(1, {rows}) g"
    stretches = assert_as_copied(any_session, query)
    row = 2 + 4 + 4 + 4 + width
    each = min(1024, -(-(64 * 1024) // row))
    assert [len(stretch) for stretch in stretches[:-1]] == [each * row] * (len(stretches) - 1)
    assert len(stretches) == -(-rows // each)


def test_long_rows_do_not_come_to_more_than_a_value_holds(any_session: Connection) -> None:
    # 64 of them are more than a gigabyte; together they were refused.
    query = "SELECT repeat(''x'', 17000000) AS v FROM generate_series(1, 64)"
    stretches = f"SELECT fullbore.rows_of('{query}') AS stretch OFFSET 0"
    asked = "SELECT count(*), min(length(stretch)), max(length(stretch)) FROM"
    assert any_session.query(f"{asked} ({stretches}) s") == [["64", "17000006", "17000006"]]


def test_a_table_without_columns(any_session: Connection) -> None:
    any_session.query("CREATE TABLE t (); INSERT INTO t SELECT FROM generate_series(1, 3)")
    assert b"".join(rows_of(any_session, "SELECT FROM t")) == bytes(6)


def test_texts_are_converted_as_copy_converts_them(any_session: Connection) -> None:
    any_session.query("SET client_encoding = 'LATIN1'")
    assert_as_copied(any_session, "SELECT 'k\\344se'::text AS v FROM generate_series(1, 3)")
    query = "SELECT chr(8364) AS v"
    with pytest.raises(ServerError) as caught:
        rows_of(any_session, query)
    assert caught.value.code == "22P05"


def test_rights_are_the_callers(any_session: Connection) -> None:
    any_session.query(
        """CREATE TABLE t (k int, secret text); INSERT INTO t VALUES (1, 'a'), (2, 'b');
           CREATE ROLE reader; GRANT USAGE ON SCHEMA fullbore TO reader;
           GRANT SELECT (k) ON t TO reader"""
    )
    schema = any_session.value("SELECT current_schema()")
    any_session.query(f"GRANT USAGE ON SCHEMA {schema} TO reader; SET ROLE reader")
    try:
        assert_as_copied(any_session, "SELECT k FROM t")
        with pytest.raises(ServerError) as caught:
            rows_of(any_session, "SELECT secret FROM t")
        assert caught.value.code == "42501"
        any_session.query("RESET ROLE; ALTER TABLE t ENABLE ROW LEVEL SECURITY")
        any_session.query("CREATE POLICY p ON t USING (k = 2); SET ROLE reader")
        assert len(assert_as_copied(any_session, "SELECT k FROM t")[0]) == 2 + 4 + 4
    finally:
        any_session.query("RESET ROLE; DROP TABLE t; DROP OWNED BY reader; DROP ROLE reader")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("DELETE FROM t", "42P11"),
        ("INSERT INTO t VALUES (1) RETURNING k", "0A000"),
        ("WITH gone AS (DELETE FROM t RETURNING k) SELECT k FROM gone", "0A000"),
        ("SELECT k FROM t; SELECT k FROM t", "42P11"),
        ("SELECT", None),
        ("", "42P11"),
        ("SELECT k FROM t FOR UPDATE", "0A000"),
        ("SELECT 1 / k AS v FROM t", "22012"),
        ("SELECT nobody FROM t", "42703"),
    ],
)
def test_only_what_reads(any_session: Connection, query: str, code: str | None) -> None:
    any_session.query("CREATE TABLE t (k int); INSERT INTO t VALUES (0)")
    if code is None:
        assert b"".join(rows_of(any_session, query)) == bytes(2)
        return
    with pytest.raises(ServerError) as caught:
        rows_of(any_session, query)
    assert caught.value.code == code, caught.value
    assert any_session.value("SELECT count(*) FROM t") == "1"


def test_all_is_of_one_moment(any_session: Connection) -> None:
    """Under an exported snapshot, what others change meanwhile is not seen."""
    other = Connection.to(any_session)
    other.query(f"SET search_path TO {any_session.value('SELECT current_schema()')}")
    any_session.query("CREATE TABLE t AS SELECT g AS k FROM generate_series(1, 100000) g")
    any_session.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    snapshot = any_session.value("SELECT pg_export_snapshot()")
    before = any_session.copied("SELECT k FROM t")
    changer = Connection.to(any_session)
    changer.query(f"SET search_path TO {any_session.value('SELECT current_schema()')}")
    changer.query("UPDATE t SET k = -k; DELETE FROM t WHERE k % 2 = 0")
    changer.query("VACUUM t")
    other.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    other.query(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
    assert HEADER + b"".join(rows_of(other, "SELECT k FROM t")) + END == b"".join(before)
    other.query("COMMIT")
    any_session.query("COMMIT")
    assert len(b"".join(rows_of(other, "SELECT k FROM t"))) == 50_000 * (2 + 4 + 4)
    changer.close()
    other.close()


def test_one_that_is_given_up_leaves_nothing(any_session: Connection) -> None:
    any_session.query("CREATE TABLE t AS SELECT g AS k FROM generate_series(1, 100000) g; BEGIN")
    asked = "SELECT length(fullbore.rows_of('SELECT k FROM t'))"
    for query in [f"{asked} LIMIT 2", f"SELECT EXISTS ({asked})", f"{asked}; {asked} LIMIT 1"]:
        any_session.query(query)
        assert any_session.value("SELECT count(*) FROM pg_cursors") == "0"
    # It would be in use.
    any_session.query("TRUNCATE t; COMMIT")


CURSOR = "DECLARE c CURSOR FOR SELECT fullbore.rows_of('SELECT k, v FROM t')"
INNER = "SELECT name FROM pg_cursors WHERE name <> 'c'"


@pytest.mark.parametrize(
    "other",
    ["SELECT 4096::int8, 'x'::text", "SELECT 1", "SELECT 1, 4096::int8, 'x', 7", "SELECT 'x', 4"],
)
def test_another_query_under_its_cursors_name_is_refused(
    any_session: Connection, other: str
) -> None:
    """Values of one type must not be taken for those of another, which point into memory."""
    any_session.query(
        "CREATE TABLE t AS SELECT g AS k, 'v' || g AS v FROM generate_series(1, 9999) g"
    )
    any_session.query(f"BEGIN; {CURSOR}; FETCH 1 FROM c")
    inner = any_session.value(INNER)
    any_session.query(f'CLOSE "{inner}"; DECLARE "{inner}" CURSOR FOR {other}')
    with pytest.raises(ServerError) as caught:
        any_session.query("FETCH 1 FROM c")
    assert caught.value.code == "24000", caught.value
    any_session.query("ROLLBACK")
    any_session.query(f"BEGIN; {CURSOR}; FETCH 1 FROM c")
    any_session.query(f'CLOSE "{any_session.value(INNER)}"')
    with pytest.raises(ServerError) as caught:
        any_session.query("FETCH 1 FROM c")
    assert caught.value.code == "34000", caught.value
    any_session.query("ROLLBACK")


def test_what_changes_between_stretches(any_session: Connection) -> None:
    any_session.query(
        "CREATE TABLE t AS SELECT g AS k, 'ä' || g AS v FROM generate_series(1, 9999) g"
    )
    any_session.query(f"BEGIN; SAVEPOINT s; {CURSOR}; FETCH 1 FROM c; SET client_encoding = LATIN1")
    second = any_session.value("FETCH 1 FROM c")
    assert second is not None and "e431303235" in second
    any_session.query("SET client_encoding = UTF8; ROLLBACK TO s")
    with pytest.raises(ServerError):
        any_session.query("FETCH 1 FROM c")
    any_session.query("ROLLBACK")
    # One that is kept is read to its end as its transaction ends, or refused; nothing else.
    for _ in range(5):
        any_session.query(f"BEGIN; {CURSOR.replace('CURSOR', 'CURSOR WITH HOLD')}; FETCH 1 FROM c")
        try:
            any_session.query("COMMIT")
        except ServerError as error:
            assert error.code == "34000"
        else:
            any_session.query("CLOSE c")
