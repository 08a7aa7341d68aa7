"""The range of a load: held to on every row, and a valid CHECK afterwards."""

from __future__ import annotations

import bodies
import pytest
from loads import copy_sql, descriptor, load, load_rows
from wire import Connection, ServerError

# Type, bounds, a value inside, one below, one at the upper bound.
RANGES = [
    ("int2", "1", "100", "1", "0", "100"),
    ("int4", "-5", "5", "-5", "-6", "5"),
    ("int8", "10000000000", "20000000000", "19999999999", "1", "20000000000"),
    ("date", "2024-01-01", "2024-02-01", "2024-01-31", "2023-12-31", "2024-02-01"),
    ("date", "2024-01-01", "infinity", "2024-01-31", "-infinity", "infinity"),
    ("time", "01:00:00", "02:00:00", "01:59:59.999999", "00:59:59", "02:00:00"),
    (
        "timestamp",
        "2024-01-01",
        "2024-02-01",
        "2024-01-31 23:59:59.999999",
        "2023-12-31 23:59:59",
        "2024-02-01 00:00:00",
    ),
    ("text", "b", "d", "czz", "a", "d"),
    ("varchar(10)", "b", "d", "czz", "a", "d"),
    ("char(4)", "ab", "cd", "cc", "aa", "cd"),
    ("numeric(10,2)", "1.5", "3", "2.99", "1.49", "3.00"),
    ("float8", "0", "1", "0.5", "-1", "1"),
    ("uuid", "0" * 32, "8" + "0" * 31, "7" + "f" * 31, None, "f" * 32),
]


def options(low: str | None, high: str | None, name: str | None = "within") -> str:
    text = ", RANGE_COLUMN 'k'"
    for key, value in (("FROM", low), ("TO", high), ("CONSTRAINT", name)):
        if value is not None:
            text += f", RANGE_{key} '{value}'"
    return text


def definition(session: Connection, constraint: str) -> str:
    """A constraint, as the server writes it."""
    text = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = '{}'"
    return session.value(text.format(constraint)) or ""


@pytest.mark.parametrize(("type_", "low", "high", "inside", "below", "above"), RANGES)
def test_rows_are_held_to_the_range(
    any_session: Connection,
    type_: str,
    low: str,
    high: str,
    inside: str,
    below: str | None,
    above: str,
) -> None:
    session = any_session
    session.query(f"CREATE TABLE p (k {type_}, v text) PARTITION BY RANGE (k)")
    shape = f"(k {type_} NOT NULL, v text)"
    for kind in ("bodies", "text"):
        for value in (inside, below, above):
            session.query(f"BEGIN; CREATE TABLE t {shape}")
            if value is None:
                session.query("ROLLBACK")
                continue
            rows: list[list[str | None]] = [[inside, "x"], [value, "y"]]
            columns = descriptor(session, "t")["columns"]
            stream = (
                bodies.body_frame(columns, rows) if kind == "bodies" else bodies.text_frame(rows)
            )
            if value != inside:
                with pytest.raises(ServerError) as refused:
                    load(session, "t", stream, options=options(low, high))
                assert refused.value.code == "23514"
                assert refused.value.fields["n"] == "within"
                assert refused.value.fields["t"] == "t"
                session.query("ROLLBACK")
                continue
            load(session, "t", stream, options=options(low, high))
            session.query("COMMIT")
            assert session.query(
                "SELECT conname, convalidated FROM pg_constraint"
                " WHERE conrelid = 't'::regclass AND contype = 'c'"
            ) == [["within", "t"]]
            # Attaching it scans nothing: the server says so at DEBUG1.
            session.notices.clear()
            session.query("SET client_min_messages = debug1")
            session.query(
                f"ALTER TABLE p ATTACH PARTITION t FOR VALUES FROM ('{low}') TO ('{high}')"
            )
            session.query("RESET client_min_messages")
            implied = [n for n in session.notices if "is implied by existing constraints" in n["M"]]
            assert implied, session.notices
            assert session.value("SELECT count(*) FROM p") == "2"
            session.query("DROP TABLE t")


def test_null_is_outside(any_session: Connection) -> None:
    for rows_of in ("bodies", "text"):
        any_session.query("BEGIN; CREATE TABLE t (k int4)")
        columns = descriptor(any_session, "t")["columns"]
        rows: list[list[str | None]] = [["1"], [None]]
        stream = (
            bodies.body_frame(columns, rows) if rows_of == "bodies" else bodies.text_frame(rows)
        )
        with pytest.raises(ServerError) as refused:
            load(any_session, "t", stream, options=options("0", None))
        assert refused.value.code == "23514"
        any_session.query("ROLLBACK")


def test_one_bound_and_an_odd_name(any_session: Connection) -> None:
    session = any_session
    name = 'it"s a na;me'
    for number, (low, high) in enumerate(((None, "9"), ("0", None), (None, None))):
        session.query(f'BEGIN; CREATE TABLE t{number} ("k" int4)')
        load_rows(session, f"t{number}", [["5"]], options=options(low, high, name))
        session.query("COMMIT")
        assert (
            session.value(
                f"SELECT conname FROM pg_constraint WHERE conrelid = 't{number}'::regclass"
            )
            == name
        )
        with pytest.raises(ServerError):
            session.query(f"INSERT INTO t{number} VALUES (NULL)")


def test_a_quoted_column(any_session: Connection) -> None:
    any_session.query('BEGIN; CREATE TABLE t ("K x" int4)')
    given = ", RANGE_COLUMN 'K x', RANGE_FROM '0', RANGE_CONSTRAINT 'c'"
    load_rows(any_session, "t", [["5"]], options=given)
    any_session.query("COMMIT")
    assert definition(any_session, "c") == 'CHECK ((("K x" IS NOT NULL) AND ("K x" >= 0)))'


def test_no_constraint_over_rows_that_were_not_tested(any_session: Connection) -> None:
    any_session.query("BEGIN; CREATE TABLE t (k int4)")
    load_rows(any_session, "t", [["500"]])
    with pytest.raises(ServerError) as refused:
        load_rows(any_session, "t", [["5"]], options=options("0", "10"))
    assert refused.value.code == "55000"
    any_session.query("ROLLBACK")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (", RANGE_COLUMN 'nope'", "42703"),
        (", RANGE_COLUMN 'ctid'", "42703"),
        (", RANGE_COLUMN 'k', RANGE_FROM 'x'", "22P02"),
        (", RANGE_FROM '1'", "42601"),
        (", RANGE_COLUMN 'j', RANGE_FROM '{}'", "42883"),
    ],
)
def test_bad_ranges(any_session: Connection, given: str, code: str) -> None:
    any_session.query("BEGIN; CREATE TABLE t (k int4, j json)")
    with pytest.raises(ServerError) as refused:
        any_session.begin_copy(copy_sql("t", descriptor(any_session, "t")["hash"], given))
    assert refused.value.code == code, refused.value
    any_session.query("ROLLBACK")


def test_check_constraints_of_the_table(any_session: Connection) -> None:
    any_session.query("BEGIN; CREATE TABLE t (k int4 CHECK (k % 2 = 0), v text CHECK (v <> 'no'))")
    load_rows(any_session, "t", [["2", "yes"], [None, None]])
    any_session.query("SAVEPOINT s")
    for values in (["3", "yes"], ["4", "no"]):
        any_session.query("SAVEPOINT s; TRUNCATE t")
        with pytest.raises(ServerError) as refused:
            load_rows(any_session, "t", [values])
        assert refused.value.code == "23514"
        any_session.query("ROLLBACK TO s")
    any_session.query("COMMIT")
    assert any_session.value("SELECT count(*) FROM t") == "2"


def test_bits_are_not_cut(any_session: Connection) -> None:
    any_session.query("BEGIN; CREATE TABLE t (k bit(4))")
    hash_ = descriptor(any_session, "t")["hash"]
    stream = bodies.text_frame([["0110"]])
    any_session.copy(copy_sql("t", hash_, options("0101", "0111")), stream)
    assert "'0101'" in definition(any_session, "within")
    any_session.query("COMMIT")


def test_the_constraint_is_what_rows_were_tested_by(any_session: Connection) -> None:
    """Whatever a function of the table's own does to the settings while rows come."""
    session = any_session
    session.query(
        "CREATE FUNCTION changed() RETURNS int4 LANGUAGE sql AS"
        " $$SELECT length(set_config('DateStyle', 'SQL, DMY', false))$$"
    )
    session.query("SET DateStyle = 'ISO, MDY'; BEGIN")
    session.query("CREATE TABLE t (k date, b int4 DEFAULT changed())")
    copy = copy_sql(
        "t", descriptor(session, "t")["hash"], options("01/02/2024", "01/04/2024"), columns="(k)"
    )
    session.copy(copy, bodies.text_frame([["2024-01-03"]]))
    assert session.value("SHOW DateStyle") == "SQL, DMY"
    session.query("SET DateStyle = 'ISO, MDY'")
    said = definition(session, "within")
    assert "2024-01-02" in said and "2024-01-04" in said, said
    session.query("COMMIT")


def test_a_shadowed_operator_is_not_asked(any_session: Connection) -> None:
    session = any_session
    session.query(
        "CREATE SCHEMA mine; CREATE FUNCTION mine.no(int4, int4) RETURNS bool"
        " LANGUAGE sql AS 'SELECT false'"
    )
    for operator in (">=", "<"):
        session.query(
            f"CREATE OPERATOR mine.{operator} (LEFTARG = int4, RIGHTARG = int4, FUNCTION = mine.no)"
        )
    session.query("SET search_path = mine, pg_catalog, public; BEGIN; CREATE TABLE t (k int4)")
    columns = descriptor(session, "t")["columns"]
    stream = bodies.body_frame(columns, [["5"]]) + bodies.text_frame([["6"]])
    load(session, "t", stream, options=options("0", "10"))
    session.query("COMMIT; RESET search_path; INSERT INTO mine.t VALUES (7)")
    assert session.value("SELECT count(*) FROM mine.t") == "3"


def test_no_constraint_for_children_that_were_not_tested(any_session: Connection) -> None:
    session = any_session
    session.query("CREATE TABLE p (k int4); CREATE TABLE c () INHERITS (p)")
    session.query("INSERT INTO c VALUES (500)")
    session.query("BEGIN; TRUNCATE ONLY p")
    with pytest.raises(ServerError) as refused:
        load_rows(session, "p", [["5"]], options=options("0", "10"))
    assert refused.value.code == "0A000"
    session.query("ROLLBACK; BEGIN; TRUNCATE ONLY p")
    load_rows(session, "p", [["5"]], options=options("0", "10", None))
    session.query("COMMIT")
    assert session.value("SELECT count(*) FROM p") == "2"
