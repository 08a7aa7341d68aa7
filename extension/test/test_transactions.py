"""Which tables, when: new storage only, and what savepoints, other writers and users make of it."""

from __future__ import annotations

import pathlib

import bodies
import pytest
from conftest import WANTED, fresh, server_of
from loads import (
    assert_equal,
    assert_sound,
    copy_sql,
    copy_text,
    descriptor,
    load_rows,
)
from server import installations
from wire import Connection, ServerError

ROWS: list[list[str | None]] = [[str(k), f"v{k}"] for k in range(1000)]
SHAPE = "(k int4, v text)"


def refused(session: Connection, code: str, table: str = "t", options: str = "") -> ServerError:
    with pytest.raises(ServerError) as caught:
        load_rows(session, table, ROWS, options=options)
    assert caught.value.code == code, caught.value
    return caught.value


def test_an_older_table_is_refused(any_session: Connection) -> None:
    any_session.query(f"CREATE TABLE t {SHAPE}")
    error = refused(any_session, "55000")
    assert "TRUNCATE" in error.fields["H"]
    any_session.query("BEGIN")
    refused(any_session, "55000")
    any_session.query("ROLLBACK; BEGIN; TRUNCATE t")
    load_rows(any_session, "t", ROWS)
    any_session.query("COMMIT")
    assert any_session.value("SELECT count(*) FROM t") == "1000"


def test_an_outer_transaction_s_table_is_refused(any_session: Connection) -> None:
    any_session.query(f"BEGIN; CREATE TABLE t {SHAPE}; SAVEPOINT s")
    refused(any_session, "55000")
    any_session.query("ROLLBACK TO s; RELEASE s")
    load_rows(any_session, "t", ROWS)
    any_session.query("COMMIT")


@pytest.mark.parametrize("options", ["", ", FREEZE true"])
def test_nothing_survives_a_rollback(session: Connection, options: str) -> None:
    session.query(f"CREATE TABLE t {SHAPE}; INSERT INTO t VALUES (-1, 'old')")
    session.query("BEGIN; SAVEPOINT s; TRUNCATE t")
    load_rows(session, "t", ROWS, options=options)
    session.query("ROLLBACK TO s")
    assert session.query("TABLE t") == [["-1", "old"]]
    session.query("SAVEPOINT s2; TRUNCATE t")
    load_rows(session, "t", ROWS, options=options)
    session.query("RELEASE s2")
    load_rows(session, "t", ROWS, options=options)
    assert session.value("SELECT count(*) FROM t") == "2000"
    session.query("ROLLBACK")
    assert session.query("TABLE t") == [["-1", "old"]]
    assert_sound(session, "t")


def test_rows_that_others_put_in_after_a_truncate_in_place_are_not_taken_for_loaded(
    session: Connection,
) -> None:
    session.query(f"BEGIN; CREATE TABLE t {SHAPE}")
    load_rows(session, "t", ROWS)
    size = session.value("SELECT pg_relation_size('t')")
    session.query("TRUNCATE t")
    copy_text(session, "t", ROWS)
    assert session.value("SELECT pg_relation_size('t')") == size, "the test would prove nothing"
    refused(session, "55000")
    session.query("ROLLBACK")
    # One that is empty is loaded as ever.
    session.query(f"BEGIN; CREATE TABLE t {SHAPE}")
    load_rows(session, "t", ROWS)
    session.query("TRUNCATE t")
    load_rows(session, "t", ROWS)
    load_rows(session, "t", ROWS)
    session.query("COMMIT")
    assert session.value("SELECT count(*) FROM t") == "2000"
    assert_sound(session, "t")


def test_loads_follow_one_another(session: Connection) -> None:
    session.query(f"CREATE TABLE copied {SHAPE}")
    for _ in range(3):
        copy_text(session, "copied", ROWS)
    session.query(f"BEGIN; CREATE TABLE t {SHAPE}")
    for number in range(3):
        load_rows(session, "t", ROWS, options=", FREEZE true")
        # Each is seen by what follows in the transaction.
        assert session.value("SELECT count(*) FROM t") == str(1000 * (number + 1))
    session.query("COMMIT")
    assert_equal(session, "t", "copied")
    assert_sound(session, "t", frozen=True)


def test_others_before_and_after(session: Connection) -> None:
    session.query(f"BEGIN; CREATE TABLE t {SHAPE}; INSERT INTO t VALUES (1, 'x')")
    refused(session, "55000")
    session.query(f"ROLLBACK; BEGIN; CREATE TABLE t {SHAPE}")
    load_rows(session, "t", ROWS)
    session.query("INSERT INTO t SELECT g, 'more' FROM generate_series(1, 20000) g")
    refused(session, "55000")
    session.query(f"ROLLBACK; BEGIN; CREATE TABLE t {SHAPE}")
    load_rows(session, "t", ROWS)
    session.query("INSERT INTO t SELECT g, 'more' FROM generate_series(1, 20000) g")
    session.query("UPDATE t SET v = 'new' WHERE k < 10; DELETE FROM t WHERE k = 20; COMMIT")
    assert session.value("SELECT count(*) FROM t") == "20998"
    assert_sound(session, "t")


def test_frozen_rows_can_be_changed_later(session: Connection) -> None:
    session.query(f"BEGIN; CREATE TABLE t {SHAPE}")
    load_rows(session, "t", ROWS, options=", FREEZE true")
    session.query("COMMIT; UPDATE t SET v = 'new' WHERE k % 100 = 0; DELETE FROM t WHERE k = 7")
    assert_sound(session, "t")
    assert session.value("SELECT count(*) FROM t WHERE v = 'new'") == "10"
    session.query("VACUUM t")
    assert_sound(session, "t")


def test_freeze_asks_for_what_copy_freeze_asks(any_session: Connection) -> None:
    any_session.query(f"BEGIN; CREATE TABLE t {SHAPE}")
    any_session.query("DECLARE c CURSOR FOR SELECT 1; FETCH c")
    refused(any_session, "25000", options=", FREEZE true")
    any_session.query("ROLLBACK")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (0, 0)",
        "UPDATE t SET b = 0",
        "DELETE FROM t",
        "PERFORM 1 FROM t FOR UPDATE",
        "TRUNCATE t",
    ],
)
def test_the_table_s_own_functions_may_not_write_to_it(
    any_session: Connection, statement: str
) -> None:
    session = any_session
    session.query("CREATE TABLE t (k int4, b int4); CREATE TABLE told (k int4)")
    body = "$$BEGIN {}; RETURN 1; END$$"
    make = "CREATE OR REPLACE FUNCTION f() RETURNS int4 LANGUAGE plpgsql AS " + body
    session.query(make.format(statement))
    session.query("ALTER TABLE t ALTER b SET DEFAULT f()")
    rows: list[list[str | None]] = [[str(k)] for k in range(2000)]
    session.query("BEGIN; TRUNCATE t")
    copy = copy_sql("t", descriptor(session, "t")["hash"], columns="(k)")
    with pytest.raises(ServerError) as caught:
        session.copy(copy, bodies.text_frame(rows))
    assert caught.value.code == "55006", caught.value
    session.query("ROLLBACK")
    # Other tables they may write to, and after a refusal nothing is kept from anybody.
    session.query(make.format("INSERT INTO told VALUES (1)"))
    session.query("BEGIN; TRUNCATE t")
    copy = copy_sql("t", descriptor(session, "t")["hash"], columns="(k)")
    assert session.copy(copy, bodies.text_frame(rows)) == "COPY 2000"
    session.query("INSERT INTO t VALUES (-1, 1); COMMIT")
    assert session.query("SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM told)") == [
        ["2001", "2000"]
    ]
    assert_sound(session, "t")


@pytest.mark.parametrize("reader", ["default", "check"])
def test_the_table_s_own_functions_may_read_it(any_session: Connection, reader: str) -> None:
    """Blocks that they read stay in the buffers: none may be read before it is written."""
    session = any_session
    session.query(
        """CREATE TABLE t (k int4, v text, seen int8);
           CREATE FUNCTION seen() RETURNS int8 LANGUAGE plpgsql
               AS $$BEGIN RETURN (SELECT count(*) FROM t); END$$;
           CREATE FUNCTION looks(k int4) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
               AS $$BEGIN RETURN k % 10000 <> 0 OR seen() >= 0; END$$"""
    )
    session.query(
        "ALTER TABLE t ALTER seen SET DEFAULT seen()"
        if reader == "default"
        else "ALTER TABLE t ADD CHECK (looks(k))"
    )
    session.query("BEGIN; TRUNCATE t")
    shape = descriptor(session, "t")
    rows: list[list[str | None]] = [[str(k), "x" * 90, "-1"] for k in range(20000)]
    laid_out = bodies.body_frame(shape["columns"], rows)
    # Between frames that are laid out, one whose rows lack a column.
    stream = laid_out if reader == "check" else laid_out + bodies.text_frame([["-1", "y"]])
    columns = "" if reader == "check" else "(k, v)"
    session.copy(copy_sql("t", shape["hash"], columns=columns), stream * 5)
    session.query("COMMIT")
    expected = "100000" if reader == "check" else "100005"
    assert session.value("SELECT count(*) FROM t") == expected
    assert_sound(session, "t")


def test_a_file_that_grew_behind_the_load_is_noticed(any_session: Connection) -> None:
    session = any_session
    session.query(f"BEGIN; CREATE TABLE t {SHAPE}")
    file = session.value(
        "SELECT setting || '/' || pg_relation_filepath('t') FROM pg_settings"
        " WHERE name = 'data_directory'"
    )
    assert file is not None
    shape = descriptor(session, "t")
    session.begin_copy(copy_sql("t", shape["hash"]))
    with pathlib.Path(file).open("ab") as out:
        out.write(bytes(8192))
    session.send(b"d", bodies.body_frame(shape["columns"], ROWS))
    session.send(b"c")
    with pytest.raises(ServerError) as caught:
        session.finish()
    assert caught.value.code == "55000", caught.value
    assert "written to while" in str(caught.value)
    session.query("ROLLBACK")


def test_an_open_cursor_on_the_table(any_session: Connection) -> None:
    any_session.query(f"BEGIN; CREATE TABLE t {SHAPE}; DECLARE c CURSOR FOR TABLE t; FETCH c")
    refused(any_session, "55006")
    any_session.query("ROLLBACK")


def test_a_table_changed_since_its_descriptor(any_session: Connection) -> None:
    session = any_session
    session.query(f"BEGIN; CREATE TABLE t {SHAPE}")
    before = descriptor(session, "t")["hash"]
    session.query("ROLLBACK")
    for change in (
        "ALTER k TYPE int8",
        "ALTER k SET NOT NULL",
        "RENAME k TO l",
        "ALTER v SET STORAGE plain",
    ):
        session.query(f"BEGIN; CREATE TABLE t {SHAPE}; ALTER TABLE t {change}")
        with pytest.raises(ServerError) as caught:
            session.begin_copy(copy_sql("t", before))
        assert caught.value.code == "55000"
        assert "descriptor" in caught.value.fields["H"]
        session.query("ROLLBACK")


def test_tables_of_one_shape_have_one_hash(any_session: Connection) -> None:
    any_session.query(f"CREATE TABLE a {SHAPE}; CREATE TABLE b {SHAPE}; CREATE TABLE c (k int4)")
    hashes = [descriptor(any_session, table)["hash"] for table in "abc"]
    assert hashes[0] == hashes[1] != hashes[2]


def test_read_only(any_session: Connection) -> None:
    any_session.query(f"BEGIN; CREATE TABLE t {SHAPE}; SET TRANSACTION READ ONLY")
    refused(any_session, "25006")
    any_session.query("ROLLBACK")


def test_not_inside_of_a_function(any_session: Connection) -> None:
    any_session.query(f"BEGIN; CREATE TABLE t {SHAPE}")
    statement = copy_sql("t", descriptor(any_session, "t")["hash"])
    with pytest.raises(ServerError) as caught:
        any_session.query(f"DO $$ BEGIN EXECUTE $q${statement}$q$; END $$")
    assert caught.value.code == "0A000"
    any_session.query("ROLLBACK")


def test_another_user(any_session: Connection) -> None:
    """No right, the right without the table, the table without the right, both."""
    session = any_session
    session.query("DROP ROLE IF EXISTS loader; CREATE ROLE loader LOGIN")
    session.query(
        "DO $$ BEGIN EXECUTE format('GRANT ALL ON SCHEMA %I TO loader', current_schema); END $$;"
        f" CREATE TABLE t {SHAPE}"
    )
    other = Connection(session.socket_dir, session.database, "loader")
    with pytest.raises(ServerError) as caught:
        descriptor(other, "t")
    assert caught.value.code == "42501"
    session.query("GRANT USAGE ON SCHEMA fullbore TO loader")
    session.query("GRANT EXECUTE ON FUNCTION fullbore.descriptor(regclass) TO loader")
    session.query("GRANT ALL ON t TO loader")
    other.query("BEGIN; TRUNCATE t")
    refused(other, "42501")
    other.query(f"ROLLBACK; BEGIN; CREATE TABLE own {SHAPE}")
    load_rows(other, "own", ROWS)
    other.query("COMMIT; BEGIN; TRUNCATE own")
    session.query("REVOKE EXECUTE ON FUNCTION fullbore.descriptor(regclass) FROM loader")
    with pytest.raises(ServerError) as caught:
        other.begin_copy(copy_sql("own", "0"))
    assert caught.value.code == "42501"
    other.query("ROLLBACK")
    session.query("GRANT EXECUTE ON FUNCTION fullbore.descriptor(regclass) TO loader")
    other.query("BEGIN; TRUNCATE own; REVOKE INSERT ON own FROM loader")
    refused(other, "42501", table="own")
    other.query("ROLLBACK")
    other.close()
    session.query("DROP OWNED BY loader; DROP ROLE loader")


def test_unlogged_tables(server, session: Connection) -> None:
    session.query(f"BEGIN; CREATE UNLOGGED TABLE t {SHAPE}")
    load_rows(session, "t", ROWS, options=", FREEZE true")
    session.query("COMMIT")
    assert_sound(session, "t", frozen=True)
    server.stop("fast")
    server.start()
    again = Connection.to(session)
    assert again.value("SELECT count(*) FROM t") == "1000"
    server.crash()
    again = Connection.to(session)
    assert again.value("SELECT count(*) FROM t") == "0"
    again.close()


def test_prepared_transactions_and_tablespaces(any_session: Connection) -> None:
    any_session.query(f"BEGIN; CREATE TABLE t {SHAPE}")
    load_rows(any_session, "t", ROWS)
    # max_prepared_transactions is 0: the attempt ends the transaction, cleanly.
    with pytest.raises(ServerError):
        any_session.query("PREPARE TRANSACTION 'x'")
    any_session.query(f"BEGIN; CREATE TABLE t {SHAPE}")
    load_rows(any_session, "t", ROWS)
    any_session.query("COMMIT")


def test_statistics_count_the_rows(any_session: Connection) -> None:
    any_session.query(f"BEGIN; CREATE TABLE t {SHAPE}")
    load_rows(any_session, "t", ROWS)
    inserted = "SELECT pg_stat_get_xact_tuples_inserted('t'::regclass)"
    assert any_session.value(inserted) == "1000"
    any_session.query("COMMIT")


def test_decoded_databases_are_refused() -> None:
    """Pages that are logged whole are not decoded: no subscriber would see the rows."""
    installation = next(found for found in installations() if found.name == WANTED[-1])
    session = fresh(server_of(installation, "logical"))
    session.query("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    try:
        session.query(f"BEGIN; CREATE TABLE t {SHAPE}; CREATE UNLOGGED TABLE u {SHAPE}")
        refusal = descriptor(session, "t")["refusal"]
        assert refusal["code"] == "55000"
        assert "1 logical replication slots" in refusal["detail"]
        refused(session, "55000")
        session.query(f"ROLLBACK; BEGIN; CREATE UNLOGGED TABLE u {SHAPE}")
        # Never decoded anyway.
        load_rows(session, "u", ROWS)
        session.query("ROLLBACK")
    finally:
        session.query("ROLLBACK; SELECT pg_drop_replication_slot('s')")
        session.close()


def test_what_is_written_is_counted(any_session: Connection) -> None:
    session = any_session
    if int(session.value("SHOW server_version_num") or 0) < 160000:
        return
    written = (
        "SELECT sum(extends) FROM pg_stat_io WHERE object = 'relation' AND context = 'bulkwrite'"
    )
    session.query("SELECT pg_stat_force_next_flush()")
    before = int(session.value(written) or 0)
    session.query(f"BEGIN; CREATE TABLE t {SHAPE}")
    for _ in range(20):
        load_rows(session, "t", ROWS)
    session.query("COMMIT; SELECT pg_stat_force_next_flush()")
    blocks = int(session.value("SELECT pg_relation_size('t') / 8192") or 0)
    assert int(session.value(written) or 0) - before >= blocks > 50
