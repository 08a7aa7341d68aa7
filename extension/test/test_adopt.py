"""Rows of another table, taken over as they are stored: fullbore.adopt(target, source)."""

from __future__ import annotations

import pytest
from loads import assert_equal, assert_sound, load_rows
from wire import Connection, ServerError

SHAPE = "(k int4 NOT NULL, n numeric(12,2), v text, w varchar(40)[])"
# Some values are null, some long enough to be compressed, some stored outside of their rows.
ROWS = """
    SELECT k, nullif(k % 7, 3) * 1.25,
           CASE k % 5 WHEN 0 THEN NULL WHEN 1 THEN repeat('long ', k) WHEN 2 THEN noise.text
                      ELSE 'v' || k END,
           ARRAY['w' || k, NULL]
      FROM generate_series({first}, {last}) k,
           LATERAL (SELECT string_agg(md5(i::text || k), '') AS text
                      FROM generate_series(1, k % 200) i) noise
"""


def staged(session: Connection, table: str, first: int, last: int, how: str = "UNLOGGED") -> None:
    session.query(f"CREATE {how} TABLE {table} {SHAPE}")
    session.query(f"INSERT INTO {table} {ROWS.format(first=first, last=last)}")


def adopt(session: Connection, source: str, table: str = "t") -> str | None:
    return session.value(f"SELECT fullbore.adopt('{table}', '{source}')")


def refused(session: Connection, code: str, source: str, table: str = "t") -> ServerError:
    with pytest.raises(ServerError) as caught:
        adopt(session, source, table)
    assert caught.value.code == code, caught.value
    return caught.value


def test_rows_of_several_tables_are_taken_over(any_session: Connection) -> None:
    session = any_session
    staged(session, "one", 1, 3000)
    staged(session, "two", 3001, 4000, how="TEMP")
    session.query("DELETE FROM one WHERE k % 11 = 0; UPDATE one SET n = -1 WHERE k % 13 = 0")
    session.query(f"CREATE TABLE t {SHAPE}; CREATE TABLE copied {SHAPE}")
    session.query("BEGIN; TRUNCATE t")
    assert adopt(session, "one") == session.value("SELECT count(*) FROM one")
    assert adopt(session, "two") == "1000"
    session.query("COMMIT")
    session.query("INSERT INTO copied SELECT * FROM one UNION ALL SELECT * FROM two")
    assert_equal(session, "t", "copied")
    assert_sound(session, "t", frozen=True)
    # What they have outside of their rows is the new table's own.
    session.query("DROP TABLE one, two")
    assert_equal(session, "t", "copied")


def test_what_is_loaded_and_what_is_adopted_share_a_table(session: Connection) -> None:
    session.query("CREATE TABLE source (k int4, v text); INSERT INTO source VALUES (1, 'one')")
    session.query("BEGIN; CREATE TABLE t (k int4, v text)")
    load_rows(session, "t", [["2", "two"]])
    assert adopt(session, "source") == "1"
    load_rows(session, "t", [["3", "three"]])
    session.query("COMMIT")
    assert session.query("SELECT k FROM t ORDER BY k") == [["1"], ["2"], ["3"]]
    assert_sound(session, "t")


def test_columns_that_were_added_later_are_filled(session: Connection) -> None:
    session.query("CREATE TABLE source (k int4); INSERT INTO source VALUES (1)")
    session.query(
        "ALTER TABLE source ADD v text DEFAULT 'later'; INSERT INTO source VALUES (2, '')"
    )
    session.query("BEGIN; CREATE TABLE t (k int4, v text)")
    assert adopt(session, "source") == "2"
    session.query("COMMIT")
    assert session.query("TABLE t ORDER BY k") == [["1", "later"], ["2", ""]]
    assert_sound(session, "t")


def test_constraints_of_the_new_table_hold(session: Connection) -> None:
    session.query("CREATE TABLE source (k int4, v text); INSERT INTO source VALUES (1, 'x')")
    session.query("BEGIN; CREATE TABLE t (k int4 CHECK (k > 1), v text)")
    refused(session, "23514", "source")
    session.query("ROLLBACK; UPDATE source SET k = 2")
    session.query("BEGIN; CREATE TABLE t (k int4 CHECK (k > 1), v text)")
    assert adopt(session, "source") == "1"
    session.query("COMMIT")
    if session.value("SELECT current_setting('server_version_num')::int >= 180000") == "t":
        # A NOT NULL that says nothing of the rows that are there.
        session.query("CREATE TABLE loose (k int4, v text); INSERT INTO loose VALUES (NULL, 'x')")
        session.query("ALTER TABLE loose ADD CONSTRAINT c NOT NULL k NOT VALID")
        session.query("BEGIN; CREATE TABLE strict (k int4 NOT NULL, v text)")
        refused(session, "23502", "loose", "strict")
        session.query("ROLLBACK")


@pytest.mark.parametrize(
    "shape",
    [
        "(v text, k int4)",
        "(k int4)",
        "(k int8, v text)",
        "(k int4, v varchar(9))",
        "(k int4, w text)",
    ],
)
def test_other_layouts_are_refused(session: Connection, shape: str) -> None:
    session.query(f"CREATE TABLE source {shape}; BEGIN; CREATE TABLE t (k int4, v text)")
    refused(session, "55000", "source")
    session.query("ROLLBACK")


def test_a_table_with_a_dropped_column_is_refused(session: Connection) -> None:
    session.query("CREATE TABLE source (k int4, x int4, v text); ALTER TABLE source DROP x")
    session.query("BEGIN; CREATE TABLE t (k int4, v text)")
    refused(session, "55000", "source")
    session.query("ROLLBACK")


def test_what_a_direct_load_refuses_is_refused(session: Connection) -> None:
    session.query("CREATE TABLE source (k int4); CREATE TABLE t (k int4)")
    session.query("INSERT INTO source VALUES (1)")
    refused(session, "55000", "source")
    session.query("BEGIN; TRUNCATE t; INSERT INTO t VALUES (1)")
    refused(session, "55000", "source")
    session.query("ROLLBACK; BEGIN; CREATE TABLE keyed (k int4 PRIMARY KEY)")
    refused(session, "0A000", "source", "keyed")
    session.query("ROLLBACK")
    session.query("CREATE VIEW seen AS TABLE source; ALTER TABLE source ENABLE ROW LEVEL SECURITY")
    for source in ("source", "seen", "t", "pg_stat_activity"):
        session.query("BEGIN; TRUNCATE t")
        refused(session, "0A000", source)
        session.query("ROLLBACK")
    # A query has its table open.
    session.query("ALTER TABLE source DISABLE ROW LEVEL SECURITY; BEGIN; TRUNCATE t")
    with pytest.raises(ServerError) as caught:
        session.query("SELECT fullbore.adopt('t', 'source') FROM t RIGHT JOIN source USING (k)")
    assert caught.value.code == "55006"
    session.query("ROLLBACK")


def test_who_may_not_read_or_load_is_refused(session: Connection) -> None:
    session.query("CREATE TABLE source (k int4); INSERT INTO source VALUES (1)")
    session.query("DROP ROLE IF EXISTS adopter; CREATE ROLE adopter; CREATE TABLE t (k int4)")
    session.query(
        "DO $$ BEGIN EXECUTE format('GRANT ALL ON SCHEMA %I TO adopter', current_schema); END $$"
    )
    session.query("GRANT USAGE ON SCHEMA fullbore TO adopter; ALTER TABLE t OWNER TO adopter")

    def attempt(code: str) -> None:
        session.query("BEGIN; SET LOCAL ROLE adopter; TRUNCATE t")
        refused(session, code, "source")
        session.query("ROLLBACK")

    attempt("42501")
    session.query("GRANT EXECUTE ON FUNCTION fullbore.descriptor(regclass) TO adopter")
    attempt("42501")
    session.query("GRANT SELECT (k) ON source TO adopter")
    attempt("42501")
    session.query("GRANT SELECT ON source TO adopter; BEGIN; SET LOCAL ROLE adopter; TRUNCATE t")
    assert adopt(session, "source") == "1"
    session.query("ROLLBACK; ALTER TABLE t OWNER TO CURRENT_USER; GRANT ALL ON t TO adopter")
    attempt("42501")
    session.query("DROP OWNED BY adopter; DROP ROLE adopter")


def test_nothing_survives_a_rollback(session: Connection) -> None:
    staged(session, "source", 1, 500)
    session.query(f"CREATE TABLE t {SHAPE}; INSERT INTO t (k) VALUES (-1)")
    session.query("BEGIN; TRUNCATE t")
    adopt(session, "source")
    session.query("ROLLBACK")
    assert session.query("SELECT k FROM t") == [["-1"]]
    assert_sound(session, "t")
