"""The shortest way through: bodies of a small table, frozen or not, WAL levels, crashes."""

from __future__ import annotations

from loads import assert_equal, assert_sound, copy_text, load_rows
from server import Server
from wire import Connection

TABLE = "(k int8 NOT NULL, name text, price numeric(15,2), day date)"
ROWS = [
    [str(k), f"name {k}" if k % 7 else None, f"{k}.{k % 100:02}", "2024-02-29"] for k in range(5000)
]


def fill(session: Connection, options: str) -> None:
    session.query(f"CREATE TABLE copied {TABLE}")
    copy_text(session, "copied", ROWS)
    session.query(f"BEGIN; CREATE TABLE direct {TABLE}")
    assert load_rows(session, "direct", ROWS, options=options) == "COPY 5000"
    session.query("COMMIT")


def test_rows_are_those_of_copy(session: Connection) -> None:
    fill(session, "")
    assert_equal(session, "direct", "copied")
    assert_sound(session, "direct")
    session.query("VACUUM direct")
    session.query("CREATE INDEX ON direct (k); CREATE INDEX ON direct (name)")
    assert_equal(session, "direct", "copied")
    assert_sound(session, "direct")


def test_frozen_rows_are_those_of_copy(session: Connection) -> None:
    fill(session, ", FREEZE true")
    assert_equal(session, "direct", "copied")
    assert_sound(session, "direct", frozen=True)
    session.query("VACUUM (DISABLE_PAGE_SKIPPING) direct")
    assert_sound(session, "direct", frozen=True)


def test_they_survive_a_crash(server: Server, session: Connection) -> None:
    for options in ("", ", FREEZE true"):
        fill(session, options)
        server.crash()
        again = Connection(server.socket_dir, session.database)
        assert_equal(again, "direct", "copied")
        assert_sound(again, "direct", frozen=options != "")
        again.query("DROP TABLE direct, copied")
        session = again
