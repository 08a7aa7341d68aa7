"""Rows out of band: toasted values, types off the whitelist, refused lines, defaults."""

from __future__ import annotations

import random
import struct

import bodies
import pytest
from loads import (
    assert_equal,
    assert_sound,
    copy_sql,
    copy_text,
    descriptor,
    load,
)
from wire import Connection, ServerError

SEED = 20240229


def long_text(length: int) -> str:
    """Text that does not compress to nothing."""
    numbers = random.Random(SEED + length)
    return "".join(numbers.choice("abcdefghijklmnopqrstuvwxyz 0123456789") for _ in range(length))


def binary_row(values: list[bytes | None]) -> bytes:
    row = struct.pack(">h", len(values))
    for value in values:
        row += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return row


def binary_frame(rows: list[list[bytes | None]]) -> bytes:
    return bodies.frame("C", len(rows), b"".join(map(binary_row, rows)))


@pytest.mark.parametrize("options", ["", ", FREEZE true"], ids=["plain", "frozen"])
def test_long_values_are_toasted(session: Connection, options: str) -> None:
    """Bodies, text and binary rows in one stream, long values among them."""
    shape = "(k int4 NOT NULL, v text, w bytea)"
    rows: list[list[str | None]] = [[str(k), "short", None] for k in range(10)]
    lengths = [1900, 2100, 8000, 9000, 100_000, 3_000_000]
    text_rows = [[str(100 + n), long_text(n), "\\x00ff"] for n in lengths]
    text_rows.append(["99", "a" * 1_000_000, "\\x" + "00" * 500_000])
    binary_rows = [
        [struct.pack(">i", 200 + n), long_text(n).encode(), b"\xff" * n] for n in lengths
    ]
    session.query(f"CREATE TABLE copied {shape}")
    copy_text(session, "copied", rows + text_rows)
    copy_text(
        session,
        "copied",
        [[str(200 + n), long_text(n), "\\x" + "ff" * n] for n in lengths],
    )
    session.query(f"BEGIN; CREATE TABLE direct {shape}")
    columns = descriptor(session, "direct")["columns"]
    stream = (
        bodies.body_frame(columns, rows[:5])
        + bodies.text_frame(text_rows)
        + bodies.body_frame(columns, rows[5:])
        + binary_frame(binary_rows)
    )
    assert load(session, "direct", stream, options=options) == "COPY 23"
    session.query("COMMIT")
    assert_equal(session, "direct", "copied")
    assert_sound(session, "direct", frozen=options != "")
    session.query("VACUUM FULL direct")
    assert_equal(session, "direct", "copied")


def test_every_type_travels_out_of_band(session: Connection) -> None:
    shape = (
        "(k int4, a int4[], j jsonb, i inet, v interval, p point, d dom, r int4range, x xml,"
        ' c comp, b bit(3), m money, ch "char", n name, tv tsvector)'
    )
    session.query("CREATE DOMAIN dom AS int4 CHECK (VALUE > 0)")
    session.query("CREATE TYPE comp AS (a int4, b text)")
    if "xml" in shape and not has_xml(session):
        shape = shape.replace(" x xml,", " x text,")
    row: list[str | None] = [
        "1", "{1,NULL,3}", '{"a": [1, 2]}', "10.0.0.0/8", "1 day 02:00:00", "(1,2)", "7",
        "[1,5)", "<a/>", "(1,x)", "101", "$1.00", "z", "some name", "'cat':1",
    ]  # fmt: skip
    rows = [row, [None] * len(row)] * 500
    session.query(f"CREATE TABLE copied {shape}")
    copy_text(session, "copied", rows)
    session.query(f"BEGIN; CREATE TABLE direct {shape}")
    shape_now = descriptor(session, "direct")
    assert [c["form"] for c in shape_now["columns"]][:2] == ["int4", None]
    assert shape_now["refusal"] is None
    load(session, "direct", bodies.text_frame(rows))
    session.query("COMMIT")
    assert_equal(session, "direct", "copied")
    assert_sound(session, "direct")


def has_xml(session: Connection) -> bool:
    try:
        session.query("SELECT '<a/>'::xml")
    except ServerError:
        return False
    return True


def test_refused_lines_are_skipped_and_told(session: Connection) -> None:
    session.query("CREATE DOMAIN small AS int4 CHECK (VALUE < 10)")
    session.query("BEGIN; CREATE TABLE t (k int4, j jsonb, d small)")
    shape = descriptor(session, "t")
    lines = [
        b"1\t{}\t1\n",
        b"two\t{}\t1\n",
        b"3\t{bad\t1\n",
        b"4\t{}\t11\n",
        b"5\t{}\n",
        b"6\t{}\t1\t1\n",
        b"7\t\\N\t\\N\n",
        b'8\t"\\\\u0000"\t2\n',
    ]
    first = bodies.frame("T", 3, b"".join(lines[:3]))
    second = bodies.frame("T", 5, b"".join(lines[3:]))
    tag = session.copy(copy_sql("t", shape["hash"]), first + second)
    assert tag == "COPY 2"
    told = [(n["C"], n["H"], n["W"]) for n in session.notices]
    hint = "fullbore: row skipped"
    assert told == [
        ("22P02", hint, 'COPY t, line 2, column k: "two"'),
        ("22P02", hint, 'COPY t, line 3, column j: "{bad"'),
        ("23514", hint, 'COPY t, line 4, column d: "11"'),
        ("22P04", hint, 'COPY t, line 5: "5\t{}"'),
        ("22P04", hint, 'COPY t, line 6: "6\t{}\t1\t1"'),
        ("22P05", hint, 'COPY t, line 8, column j: ""\\u0000""'),
    ], told
    assert session.notices[0]["M"] == 'invalid input syntax for type integer: "two"'
    assert session.notices[1]["D"] == 'Token "bad" is invalid.'
    session.query("COMMIT")
    assert session.query("SELECT k FROM t ORDER BY k") == [["1"], ["7"]]
    assert_sound(session, "t")


def test_a_bad_value_in_binary_is_an_error(session: Connection) -> None:
    session.query("BEGIN; CREATE TABLE t (k int4)")
    with pytest.raises(ServerError) as refused:
        load(session, "t", binary_frame([[b"\0\0\0\1"], [b"\0" * 5]]))
    assert refused.value.code == "22P03"
    assert "column k" in refused.value.fields["W"]
    session.query("ROLLBACK")


def test_not_null_and_check_are_errors_in_text(session: Connection) -> None:
    shape = "(k int4 NOT NULL CHECK (k > 0), j jsonb)"
    for line, code in ((b"\\N\t{}\n", "23502"), (b"0\t{}\n", "23514")):
        session.query(f"BEGIN; CREATE TABLE t {shape}")
        with pytest.raises(ServerError) as refused:
            load(session, "t", bodies.frame("T", 1, line))
        assert refused.value.code == code
        session.query("ROLLBACK")


def test_columns_of_the_copy_and_defaults(session: Connection) -> None:
    session.query("BEGIN; CREATE TABLE t (a int4, b text DEFAULT 'dflt', c jsonb)")
    shape = descriptor(session, "t")
    stream = bodies.frame("T", 2, b'{"x": 1}\t1\n{}\t2\n')
    assert session.copy(copy_sql("t", shape["hash"], columns="(c, a)"), stream) == "COPY 2"
    session.query("COMMIT")
    assert session.query("SELECT * FROM t ORDER BY a") == [
        ["1", "dflt", '{"x": 1}'],
        ["2", "dflt", "{}"],
    ]


@pytest.mark.parametrize(
    ("kind", "rows", "payload"),
    [
        ("T", 2, b"1\n"),
        ("T", 1, b"1\n2\n"),
        ("T", 2, b"1\n\\.\n2\n"),
        ("C", 2, binary_row([b"\0\0\0\1"])),
        ("C", 1, binary_row([b"\0\0\0\1"]) * 2),
        ("C", 2, binary_row([b"\0\0\0\1"]) + b"\xff\xff"),
    ],
)
def test_a_wrong_count_is_refused(
    any_session: Connection, kind: str, rows: int, payload: bytes
) -> None:
    any_session.query("BEGIN; CREATE TABLE t (k int4)")
    with pytest.raises(ServerError) as refused:
        load(any_session, "t", bodies.frame(kind, rows, payload))
    assert refused.value.code in ("08P01", "22P04"), refused.value
    any_session.query("ROLLBACK")
    assert any_session.value("SELECT 1") == "1"


def test_codecs(any_session: Connection, any_server) -> None:
    """Payloads that lz4 and zstd would give, made by hand: literals alone."""
    any_session.query("BEGIN; CREATE TABLE t (k int4)")
    shape = descriptor(any_session, "t")
    payload = b"".join(bodies.row(shape["columns"], [str(k)]) for k in range(2))
    assert len(payload) == 14
    lz4 = bytes([len(payload) << 4]) + payload
    # A zstd frame: magic, one segment with its length in a byte, one raw block that is the last.
    zstd = bytes.fromhex("28b52ffd20") + bytes([len(payload)])
    zstd += (len(payload) << 3 | 1).to_bytes(3, "little") + payload
    stream = b""
    for number, wire in ((1, lz4), (2, zstd)):
        name = ("none", "lz4", "zstd")[number]
        if name in shape["codecs"]:
            stream += bodies.frame("B", 2, payload, codec=number, wire=wire)
    assert load(any_session, "t", stream) == f"COPY {2 * (len(shape['codecs']) - 1)}"
    any_session.query("COMMIT; BEGIN; TRUNCATE t")
    for number, wire in ((1, lz4[:-1]), (2, zstd[:-1]), (3, payload)):
        any_session.query("SAVEPOINT s; TRUNCATE t")
        with pytest.raises(ServerError) as refused:
            load(any_session, "t", bodies.frame("B", 2, payload, codec=number, wire=wire))
        assert refused.value.code in ("08P01", "0A000")
        any_session.query("ROLLBACK TO s")
    any_session.query("ROLLBACK")


@pytest.mark.parametrize("forbids", ["NOT NULL", "CHECK (VALUE IS NOT NULL)"])
def test_a_domain_that_forbids_null_is_asked(any_session: Connection, forbids: str) -> None:
    session = any_session
    session.query(f"CREATE DOMAIN dom AS int4 {forbids}; BEGIN; CREATE TABLE t (a int4, b dom)")
    columns = descriptor(session, "t")["columns"]
    assert load(session, "t", bodies.text_frame([["1", None], ["2", "3"]])) == "COPY 1"
    with pytest.raises(ServerError) as refused:
        load(session, "t", bodies.body_frame(columns, [["1", None]]))
    assert refused.value.code == "08P01", refused.value
    session.query("ROLLBACK")


def test_a_check_may_ask_for_tableoid(any_session: Connection) -> None:
    session = any_session
    session.query("BEGIN; CREATE TABLE t (k int4)")
    session.query("ALTER TABLE t ADD CHECK (tableoid = 't'::regclass)")
    columns = descriptor(session, "t")["columns"]
    stream = bodies.body_frame(columns, [["1"]]) + bodies.text_frame([["2"]])
    assert load(session, "t", stream) == "COPY 2"
    session.query("COMMIT")
