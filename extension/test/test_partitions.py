"""Attached partitions: a transaction truncates them; every row is held to their bounds."""

from __future__ import annotations

import bodies
import pytest
from loads import INDEXED, assert_indexes_sound, checksum, copy_text, descriptor, load
from wire import Connection, ServerError

# Keys of a partition, its bounds, a row that belongs to it and one that does not.
BOUNDS = [
    ("RANGE (k)", "FROM (1) TO (10)", ["1", "x"], ["10", "x"]),
    ("RANGE (k)", "FROM (1) TO (10)", ["9", "x"], [None, "x"]),
    ("RANGE (v, k)", "FROM ('b', 1) TO ('b', 5)", ["4", "b"], ["5", "b"]),
    ("LIST (v)", "IN ('a', NULL)", ["1", None], ["1", "b"]),
    ("LIST ((k % 3))", "IN (1)", ["4", "x"], ["5", "x"]),
    # The other half of the rows 0 to 9.
    ("HASH (k)", "WITH (MODULUS 2, REMAINDER 0)", None, None),
]


def made(session: Connection, key: str, bounds: str) -> None:
    session.query(f"CREATE TABLE parted (k int8, v text) PARTITION BY {key}")
    session.query(f"CREATE TABLE part PARTITION OF parted FOR VALUES {bounds}")


def frames(session: Connection, rows: list[list[str | None]]) -> list[bytes]:
    columns = descriptor(session, "part")["columns"]
    return [bodies.body_frame(columns, rows), bodies.text_frame(rows)]


@pytest.mark.parametrize(("key", "bounds", "inside", "outside"), BOUNDS)
def test_rows_are_held_to_their_bounds(
    any_session: Connection,
    key: str,
    bounds: str,
    inside: list[str | None] | None,
    outside: list[str | None] | None,
) -> None:
    session = any_session
    made(session, key, bounds)
    if inside is None or outside is None:
        hashed = "SELECT k FROM generate_series(0, 9) AS k WHERE {} satisfies_hash_partition("
        hashed += "'parted'::regclass, 2, 0, k::int8) ORDER BY 1 LIMIT 1"
        inside = [session.value(hashed.format("")), "x"]
        outside = [session.value(hashed.format("NOT")), "x"]
    for form in (0, 1):
        session.query("BEGIN; TRUNCATE part")
        assert load(session, "part", frames(session, [inside, inside])[form]) == "COPY 2"
        assert session.value("SELECT count(*) FROM parted") == "2"
        with pytest.raises(ServerError) as refused:
            load(session, "part", frames(session, [inside, outside])[form])
        assert refused.value.code == "23514"
        assert "violates partition constraint" in str(refused.value)
        session.query("ROLLBACK")
    assert session.value("SELECT count(*) FROM parted") == "0"


def test_several_partitions_with_indexes_are_as_copy_makes_them(any_session: Connection) -> None:
    session = any_session
    rows: list[list[str | None]] = [[str(n), f"value {n % 7}"] for n in range(900)]
    for table in ("ours", "plain"):
        session.query(f"CREATE TABLE {table} (k int8 NOT NULL, v text) PARTITION BY RANGE (k)")
        for part in range(3):
            session.query(
                f"CREATE TABLE {table}_{part} PARTITION OF {table}"
                f" FOR VALUES FROM ({part * 300}) TO ({part * 300 + 300})"
            )
        session.query(f"ALTER TABLE {table} ADD PRIMARY KEY (k)")
    copy_text(session, "plain", rows)
    session.query("BEGIN; TRUNCATE ours")
    for stretch in (rows[:450], rows[450:]):
        for part in range(3):
            its = [row for row in stretch if int(row[0] or 0) // 300 == part]
            if its:
                columns = descriptor(session, f"ours_{part}")["columns"]
                frame = bodies.body_frame(columns, its)
                load(session, f"ours_{part}", frame, options=INDEXED + ", FREEZE true")
    for part in range(3):
        assert session.value(f"SELECT fullbore.finish('ours_{part}')") == "{}"
    session.query("COMMIT")
    assert checksum(session, "ours") == checksum(session, "plain")
    for part in range(3):
        assert_indexes_sound(session, f"ours_{part}")
    assert session.value("SET enable_seqscan = off; SELECT v FROM ours WHERE k = 700") == "value 0"


def test_a_partition_that_is_not_new_is_refused(session: Connection) -> None:
    made(session, "RANGE (k)", "FROM (1) TO (10)")
    session.query("BEGIN")
    with pytest.raises(ServerError) as refused:
        load(session, "part", frames(session, [["1", "x"]])[0])
    assert "was not created or truncated in this subtransaction" in str(refused.value)
    session.query("ROLLBACK")


@pytest.mark.parametrize(
    "statement", ["DELETE FROM parted WHERE k = 1", "INSERT INTO parted VALUES (1)"]
)
def test_a_check_may_not_write_by_the_parent(any_session: Connection, statement: str) -> None:
    session = any_session
    made(session, "RANGE (k)", "FROM (1) TO (10000)")
    session.query(
        "CREATE FUNCTION f(int8) RETURNS boolean LANGUAGE plpgsql AS"
        f" $$BEGIN IF $1 = 2500 THEN {statement}; END IF; RETURN true; END$$;"
        " ALTER TABLE part ADD CHECK (f(k))"
    )
    rows: list[list[str | None]] = [[str(k), "x"] for k in range(1, 3000)]
    session.query("BEGIN; TRUNCATE parted")
    with pytest.raises(ServerError) as refused:
        load(session, "part", frames(session, rows)[0], options=", FREEZE true")
    assert refused.value.code == "55006", refused.value
    session.query("ROLLBACK")


def test_keys_that_are_not_unique_are_refused(any_session: Connection) -> None:
    session = any_session
    made(session, "RANGE (k)", "FROM (1) TO (10)")
    session.query("ALTER TABLE parted ADD PRIMARY KEY (k)")
    session.query("BEGIN; TRUNCATE parted")
    load(session, "part", frames(session, [["1", "x"], ["1", "y"]])[0], options=INDEXED)
    with pytest.raises(ServerError) as refused:
        session.value("SELECT fullbore.finish('part')")
    assert refused.value.code == "23505"
    assert refused.value.fields["n"] == "part_pkey"
    session.query("ROLLBACK")
