"""Clients that break the protocol, in their headers, their rows, their messages, their manners."""

from __future__ import annotations

import random
import struct
import threading
from collections.abc import Callable

import bodies
import pytest
from loads import assert_sound, copy_sql, descriptor, load
from wire import Connection, ServerError

SHAPE = "(k int8 NOT NULL, d date, n numeric(12,2), v varchar(20), c char(4), b bool, j json)"
ROWS: list[list[str | None]] = [
    [str(k), "2024-02-29", f"{k}.50", f"value {k}", "abcd", "t", '{"k": 1}'] for k in range(40)
] + [["7", None, None, "käse", None, "f", None]]
SEED = 7


def begin(session: Connection) -> list[bodies.Column]:
    session.query(f"BEGIN; CREATE TABLE t {SHAPE}")
    return descriptor(session, "t")["columns"]


def refused(session: Connection, stream: bytes, **how: int) -> ServerError:
    """It is refused, the session goes on, and the table is gone with its transaction."""
    with pytest.raises(ServerError) as caught:
        load(session, "t", stream, **how)
    session.query("ROLLBACK")
    assert session.value("SELECT to_regclass('t')") is None
    return caught.value


def test_every_byte_of_a_header(any_session: Connection) -> None:
    """A header of other values announces something else than what follows."""
    columns = begin(any_session)
    good = bodies.body_frame(columns, ROWS)
    any_session.query("ROLLBACK")
    for at in range(24):
        for flip in (0x01, 0x80, 0xFF):
            begin(any_session)
            stream = bytearray(good)
            stream[at] ^= flip
            error = refused(any_session, bytes(stream))
            # As another kind of frame, it is up to COPY's own reader.
            expected = ("08P01", "0A000", "22P04") if at == 4 else ("08P01", "0A000")
            assert error.code in expected, (at, flip, error)


@pytest.mark.parametrize("message_bytes", [1, 7, 1000])
def test_streams_cut_short(any_session: Connection, message_bytes: int) -> None:
    """At every place; and messages can be cut anywhere, too."""
    columns = begin(any_session)
    good = bodies.body_frame(columns, ROWS[:2])
    assert load(any_session, "t", good + good, message_bytes=message_bytes) == "COPY 4"
    any_session.query("ROLLBACK")
    for cut in range(1, len(good)):
        begin(any_session)
        error = refused(any_session, good[:cut], message_bytes=message_bytes)
        assert error.code == "08P01"


def test_errors_in_the_middle_of_a_message_leave_the_session_usable(
    any_session: Connection,
) -> None:
    begin(any_session)
    junk = b"FBF1B" + b"\xff" * 2_000_000
    error = refused(any_session, junk, message_bytes=1_500_000)
    assert error.code == "08P01"
    columns = begin(any_session)
    load(any_session, "t", bodies.body_frame(columns, ROWS))
    any_session.query("COMMIT; DROP TABLE t")


def body_of(columns: list[bodies.Column], values: list[str | None]) -> bytearray:
    return bytearray(bodies.body(columns, values)[0])


def one(body: bytes, has_bitmap: bool = False) -> bytes:
    head = struct.pack("<H", len(body) | (0x8000 if has_bitmap else 0))
    return bodies.frame("B", 1, head + body)


Breaker = Callable[[list[bodies.Column]], bytes]
BROKEN: dict[str, tuple[str, str, Breaker]] = {}


def broken(shape: str, code: str) -> Callable[[Breaker], Breaker]:
    def keep(breaker: Breaker) -> Breaker:
        BROKEN[breaker.__name__] = (shape, code, breaker)
        return breaker

    return keep


def raw(content: bytes) -> bytes:
    return one(b"\0" + content)


@broken("(v text)", "08P01")
def toast_pointer(columns: list[bodies.Column]) -> bytes:
    return raw(b"\x01\x12" + b"\0" * 16)


@broken("(v text)", "08P01")
def compressed(columns: list[bodies.Column]) -> bytes:
    return raw(struct.pack("<I", 200 << 2 | 2) + b"x" * 196)


@broken("(v text)", "08P01")
def header_past_the_end(columns: list[bodies.Column]) -> bytes:
    return raw(b"\x41ab")


@broken("(v text)", "08P01")
def long_header_past_the_end(columns: list[bodies.Column]) -> bytes:
    return raw(struct.pack("<I", 0x3FFFFFFF << 2))


@broken("(v text)", "08P01")
def long_header_of_nothing(columns: list[bodies.Column]) -> bytes:
    return raw(struct.pack("<I", 0))


@broken("(v text)", "08P01")
def half_a_long_header(columns: list[bodies.Column]) -> bytes:
    return raw(b"\0\0")


@broken("(v text)", "08P01")
def long_header_where_short_would_do(columns: list[bodies.Column]) -> bytes:
    return raw(struct.pack("<I", 5 << 2) + b"x")


@broken("(v text)", "08P01")
def no_value_at_all(columns: list[bodies.Column]) -> bytes:
    return raw(b"")


@broken("(v text)", "08P01")
def empty_body(columns: list[bodies.Column]) -> bytes:
    return one(b"")


@broken("(v text)", "08P01")
def bytes_behind_the_last_value(columns: list[bodies.Column]) -> bytes:
    return raw(b"\x05x\0")


@broken("(a bool, v int8)", "08P01")
def padding_not_zero(columns: list[bodies.Column]) -> bytes:
    return raw(b"\1" + b"\0\0\0\0\0\0\1" + b"\0" * 8)


@broken("(a bool, v int8)", "08P01")
def padding_before_data_not_zero(columns: list[bodies.Column]) -> bytes:
    return one(b"\1" + b"\1" + b"\0" * 15)


@broken("(a int4, b int4)", "08P01")
def bitmap_without_a_null(columns: list[bodies.Column]) -> bytes:
    return one(b"\x03" + struct.pack("<ii", 1, 2), True)


@broken("(a int4, b int4)", "08P01")
def bitmap_with_bits_behind(columns: list[bodies.Column]) -> bytes:
    return one(b"\x05" + struct.pack("<i", 1), True)


@broken("(a int4 NOT NULL, b int4)", "23502")
def null_where_none_may_be(columns: list[bodies.Column]) -> bytes:
    return one(b"\x02" + struct.pack("<i", 1), True)


@broken("(a int4, j jsonb)", "08P01")
def a_type_off_the_whitelist(columns: list[bodies.Column]) -> bytes:
    return raw(struct.pack("<i", 1) + b"\x05x")


@broken("(v bytea)", "08P01")
def longer_than_the_descriptor_allows(columns: list[bodies.Column]) -> bytes:
    return raw(struct.pack("<I", 3000 << 2) + b"\0" * 2996)


def values(type_: str, contents: list[bytes]) -> None:
    """Contents that the type's receive function would refuse."""
    for number, content in enumerate(contents):
        name = f"{type_} {number}"
        BROKEN[name] = (f"(v {type_})", "22P03", lambda _, content=content: raw(content))


def varlena(content: bytes) -> bytes:
    if len(content) <= 126:
        return bytes([(len(content) + 1) << 1 | 1]) + content
    return struct.pack("<I", (len(content) + 4) << 2) + content


values("bool", [b"\2", b"\xff"])
values("date", [struct.pack("<i", -2451546), struct.pack("<i", 2147483494 - 2451545)])
values("time", [struct.pack("<q", value) for value in (-1, 86_400_000_001)])
values("time(0)", [struct.pack("<q", 1)])
values("timestamp", [struct.pack("<q", v) for v in (-211813488000000001, 9223371331200000000)])
values("timestamptz(3)", [struct.pack("<q", 1), struct.pack("<q", -1001)])
values(
    "text",
    [varlena(v) for v in (b"a\0b", b"\x80", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
                          b"abcdefgh\xc3", b"\xe2\x82", b"\xc3x", b"x" * 200 + b"\0" + b"x" * 9)],
)  # fmt: skip
values("varchar(3)", [varlena(b"abcd"), varlena("äöüß".encode())])
values("char(3)", [varlena(b"ab"), varlena(b"abcd"), varlena("äö".encode())])
values(
    "json",
    [varlena(v) for v in (b"", b"{", b"[1,]", b'{"a"}', b"01", b"1.", b"tru", b"truex", b'"\x01"',
                          b'"\\x"', b'"\\u12g4"', b"1 2", b"[1", b"-", b"1e", b'{"a":1,}', b"}")],
)  # fmt: skip
values(
    "numeric",
    [varlena(struct.pack("<" + "H" * len(v), *v)) for v in (
        (), (0x8000, 10000), (0x8000, 0), (0x8000, 1, 0), (0xA000,), (0x8001,), (0xC000, 1),
        (0xC001,), (0xE000,), (0x0000, 0, 1), (0x8000, 1, 1), (0x0040,), (0x8080, 0x0001, 0x0001),
    )] + [varlena(b"\x80")],
)  # fmt: skip
values(
    "numeric(4,2)",
    [varlena(struct.pack("<" + "H" * len(v), *v)) for v in (
        (0x8000, 1), (0x8180, 1), (0x8100, 100), (0x8100, 1, 1), (0xD000,), (0x8100, 9999),
    )],
)  # fmt: skip


@pytest.mark.parametrize("name", list(BROKEN))
def test_broken_bodies(any_session: Connection, name: str) -> None:
    shape, code, breaker = BROKEN[name]
    any_session.query(f"BEGIN; CREATE TABLE t {shape}")
    stream = breaker(descriptor(any_session, "t")["columns"])
    error = refused(any_session, stream)
    assert error.code == code, error
    assert "frame 1, row 1" in error.fields["W"]


def test_an_enum_s_label_is_its_own(any_session: Connection) -> None:
    any_session.query("CREATE TYPE a AS ENUM ('x'); CREATE TYPE b AS ENUM ('x')")
    any_session.query("BEGIN; CREATE TABLE t (v a)")
    other = any_session.value("SELECT oid FROM pg_enum WHERE enumtypid = 'b'::regtype")
    assert other is not None
    assert refused(any_session, raw(struct.pack("<I", int(other)))).code == "22P03"


def test_mutated_bodies_never_do_harm(any_session: Connection) -> None:
    """Random changes with a right checksum: refused, or rows that every reader can read."""
    numbers = random.Random(SEED)
    columns = begin(any_session)
    any_session.query("COMMIT")
    payload = b"".join(bodies.row(columns, values) for values in ROWS)
    taken = 0
    for _ in range(1500):
        changed = bytearray(payload)
        for _ in range(numbers.choice((1, 1, 2, 8))):
            changed[numbers.randrange(len(changed))] = numbers.randrange(256)
        any_session.query("BEGIN; TRUNCATE t")
        try:
            load(any_session, "t", bodies.frame("B", len(ROWS), bytes(changed)))
        except ServerError as error:
            assert error.code in ("08P01", "22P03", "23502"), error
        else:
            taken += 1
            any_session.query("SELECT count(*), sum(hashtextextended(t::text, 0)) FROM t")
        any_session.query("ROLLBACK")
    assert taken > 50, f"seed {SEED}: the test changes too much, {taken} taken"


def test_copy_fail_and_odd_messages(any_session: Connection) -> None:
    columns = begin(any_session)
    good = bodies.body_frame(columns, ROWS)
    statement = copy_sql("t", descriptor(any_session, "t")["hash"])
    any_session.begin_copy(statement)
    any_session.send(b"d", good)
    any_session.send(b"f", b"no more\0")
    with pytest.raises(ServerError) as caught:
        any_session.finish()
    assert caught.value.code == "57014"
    assert "no more" in caught.value.fields["M"]
    any_session.query("ROLLBACK")

    # Flush and Sync are let pass, empty messages too.
    begin(any_session)
    any_session.begin_copy(statement)
    for at in range(0, len(good), 100):
        any_session.send(b"d", good[at : at + 100])
        any_session.send(b"H")
        any_session.send(b"S")
        any_session.send(b"d", b"")
    any_session.send(b"c")
    assert any_session.finish()[1] == f"COPY {len(ROWS)}"
    assert_sound(any_session, "t")
    any_session.query("ROLLBACK")


def test_cancel_acts_between_messages(any_session: Connection) -> None:
    columns = begin(any_session)
    good = bodies.body_frame(columns, ROWS)
    other = Connection.to(any_session)
    any_session.begin_copy(copy_sql("t", descriptor(any_session, "t")["hash"]))
    any_session.send(b"d", good + good[:100])
    other.query(f"SELECT pg_cancel_backend({any_session.pid})")
    any_session.send(b"d", good[100:])
    any_session.send(b"c")
    with pytest.raises(ServerError) as caught:
        any_session.finish()
    assert caught.value.code == "57014"
    any_session.query("ROLLBACK")
    assert any_session.value("SELECT 1") == "1"
    other.close()


def test_a_client_that_goes_away(any_session: Connection) -> None:
    """In the middle of a frame and of a message: its backend ends, the table with it."""
    lost = Connection.to(any_session)
    columns = begin(lost)
    good = bodies.body_frame(columns, ROWS)
    lost.begin_copy(copy_sql("t", descriptor(lost, "t")["hash"]))
    lost.socket.sendall(b"d" + struct.pack(">I", len(good) + 4) + good[: len(good) // 2])
    lost.close()
    gone = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {lost.pid}"
    waited = threading.Event()
    for _ in range(600):
        if any_session.value(gone) == "0":
            break
        waited.wait(0.05)
    assert any_session.value(gone) == "0"
    assert any_session.value("SELECT to_regclass('t')") is None


def test_a_bomb_is_refused_by_its_header(any_session: Connection) -> None:
    """Nothing is taken on a header's word: not 4 GiB, nor 1 GiB of which nothing comes."""
    for kind, raw_bytes, wire in (("B", 5_000_000, 5_000_000), ("T", 2**30, 2**30)):
        begin(any_session)
        head = struct.pack("<4scBHIIII", b"FBF1", kind.encode(), 0, 0, 1, raw_bytes, wire, 0)
        assert refused(any_session, head).code == "08P01"
    begin(any_session)
    head = struct.pack("<4scBHIIII", b"FBF1", b"T", 0, 0, 1, 2**30 - 1, 2**30 - 1, 0)
    assert refused(any_session, head + b"x" * 1000).code == "08P01"
