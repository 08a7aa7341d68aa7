"""Indexes of values that are long: out of line, or alike for many bytes."""

from __future__ import annotations

from random import Random

import bodies
import pytest
from filled import Row, assert_alike, finish
from loads import INDEXED, copy_text, load
from wire import Connection, ServerError


def test_values_out_of_line_are_keys_all_the_same(any_session: Connection) -> None:
    """The longest values of a long row are stored elsewhere: of them, too, keys are made."""
    session, draw = any_session, Random(5)
    if not session.query("SELECT 1 FROM pg_available_extensions WHERE name = 'amcheck'"):
        pytest.skip("this server has no amcheck")
    session.query("CREATE EXTENSION IF NOT EXISTS pageinspect")
    shape = '(a text COLLATE "C" NOT NULL, b bytea NOT NULL, c text)'
    indexes = (
        "CREATE INDEX ON {} (a, b)",
        "CREATE INDEX ON {} (b DESC) INCLUDE (c)",
        "CREATE UNIQUE INDEX ON {} (a)",
    )

    def noise(bytes_: int) -> str:
        return "".join(f"{draw.getrandbits(32):08x}" for _ in range(bytes_ // 8))

    rows: list[Row] = [
        [noise(1296), "\\x" + noise(1600), noise(draw.choice((0, 400)))] for _ in range(600)
    ]
    session.query(f"CREATE TABLE copied {shape}")
    copy_text(session, "copied", rows)
    session.query(";".join(index.format("copied") for index in indexes))
    session.query(f"BEGIN; CREATE TABLE filled {shape}")
    session.query(";".join(index.format("filled") for index in indexes))
    load(session, "filled", bodies.text_frame(rows), options=INDEXED + ", FREEZE true")
    assert finish(session) == "{}"
    session.query("COMMIT")
    assert_alike(session, "filled", "copied")
    for kind in ("seqscan", "hashjoin", "mergejoin"):
        session.query(f"SET enable_{kind} = off")
    found = "EXISTS (SELECT FROM filled f WHERE f.a = c.a)"
    assert session.value(f"SELECT count(*) FROM copied c WHERE {found}") == "600"
    for kind in ("seqscan", "hashjoin", "mergejoin"):
        session.query(f"RESET enable_{kind}")
    session.query("DROP TABLE copied, filled")
    # Equal ones are found, wherever each is.
    session.query(f"BEGIN; CREATE TABLE filled {shape}; CREATE UNIQUE INDEX by_a ON filled (a)")
    load(session, "filled", bodies.text_frame([*rows, rows[7]]), options=INDEXED)
    assert finish(session) == "{by_a}"
    session.query("ROLLBACK")
    # What is too long for an index is refused as it is by any.
    session.query(f"BEGIN; CREATE TABLE filled {shape}; CREATE INDEX ON filled (a)")
    with pytest.raises(ServerError) as error:
        load(session, "filled", bodies.text_frame([[noise(6000), "\\x", ""]]), options=INDEXED)
        finish(session)
    assert error.value.code == "54000"
    session.query("ROLLBACK")


def test_long_keys_that_begin_alike_are_sorted(session: Connection) -> None:
    if not session.query("SELECT 1 FROM pg_available_extensions WHERE name = 'amcheck'"):
        pytest.skip("this server has no amcheck")
    session.query("CREATE EXTENSION IF NOT EXISTS amcheck")
    session.query(
        'BEGIN; CREATE TABLE filled (k text COLLATE "C"); CREATE INDEX by_k ON filled (k)'
    )
    rows: list[Row] = [["x" * 120_000 + f"{n % 50:02}"] for n in range(100)]
    load(session, "filled", bodies.text_frame([*rows, ["a"]]), options=INDEXED)
    assert finish(session) == "{}"
    session.query("COMMIT; SELECT bt_index_parent_check('by_k', true, true)")
    session.query("DROP TABLE filled")
