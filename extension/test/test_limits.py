"""What ends a load from outside: a timeout, an administrator, payloads that would not end."""

from __future__ import annotations

import struct

import bodies
import pytest
from crash.shim import wait_until
from hostile import compress
from loads import copy_sql, descriptor, load_rows
from wire import Connection, ServerError

SHAPE = "(k int8 NOT NULL, v text)"
ROWS: list[list[str | None]] = [[str(k), "x" * 200] for k in range(1000)]


def begin(session: Connection, options: str = "", setting: str = "") -> bytes:
    """A load that was begun under a setting, and the frame that it waits for."""
    session.query(f"BEGIN; CREATE TABLE t {SHAPE}")
    shape = descriptor(session, "t")
    if setting:
        session.query(f"SET {setting}")
    session.begin_copy(copy_sql("t", shape["hash"], options))
    return bodies.body_frame(shape["columns"], ROWS)


def test_a_timeout_acts_between_messages(any_session: Connection) -> None:
    other = Connection.to(any_session)
    frame = begin(any_session, setting="statement_timeout = '500ms'")
    any_session.send(b"d", frame[:1000])
    # Longer than that, by the server's own clock.
    other.query("SELECT pg_sleep(1)")
    any_session.send(b"d", frame[1000:])
    any_session.send(b"c")
    with pytest.raises(ServerError) as caught:
        any_session.finish()
    assert caught.value.code == "57014"
    assert "statement timeout" in caught.value.fields["M"]
    any_session.query("ROLLBACK; SET statement_timeout = 0")
    other.close()


@pytest.mark.parametrize("options", ["", ", IO 'direct'"])
def test_a_session_that_is_terminated(
    any_session: Connection, any_server: object, options: str
) -> None:
    """In the middle of a message: its table goes, and no checkpoint waits for it."""
    lost = Connection.to(any_session)
    frame = begin(lost, options)
    many = frame * 10
    lost.socket.sendall(b"d" + struct.pack(">I", len(many) + 4) + many[:-100])
    event = f"SELECT wait_event FROM pg_stat_activity WHERE pid = {lost.pid}"
    wait_until("backend that waits", lambda: any_session.value(event) == "ClientRead")
    any_session.query(f"SELECT pg_terminate_backend({lost.pid})")
    with pytest.raises((ServerError, ConnectionError)):
        lost.finish()
    gone = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {lost.pid}"
    wait_until("end of the backend", lambda: any_session.value(gone) == "0")
    any_session.query("CHECKPOINT")
    assert any_session.value("SELECT to_regclass('t')") is None
    lost.close()


def zstd_of(length: int) -> bytes:
    """A frame of so many equal bytes: four bytes for each 128 KiB."""
    blocks = -(-length // 131072)
    wire = bytes.fromhex("28b52ffd") + bytes([0xA0]) + struct.pack("<I", length)
    for number in range(blocks):
        size = min(131072, length - number * 131072)
        last = number == blocks - 1
        wire += (size << 3 | 1 << 1 | last).to_bytes(3, "little") + b"z"
    return wire


@pytest.mark.parametrize("announced", [100, 4 * 1024 * 1024])
def test_bombs_are_not_unpacked(any_session: Connection, announced: int) -> None:
    """A thousand bytes that would become 30 MB: no more is decoded than was announced."""
    any_session.query(f"BEGIN; CREATE TABLE t {SHAPE}")
    shape = descriptor(any_session, "t")
    if "zstd" not in shape["codecs"]:
        pytest.skip("the extension was built without zstd")
    wire = zstd_of(30_000_000)
    assert len(wire) < 1024
    head = struct.pack("<4scBHIII", b"FBF1", b"B", compress.ZSTD, 0, 1, announced, len(wire))
    stream = head + struct.pack("<I", bodies.crc32c(wire)) + wire
    with pytest.raises(ServerError) as caught:
        any_session.copy(copy_sql("t", shape["hash"]), stream)
    assert caught.value.code == "08P01", caught.value
    assert "decoded" in caught.value.fields["D"]
    any_session.query(f"ROLLBACK; BEGIN; CREATE TABLE t {SHAPE}")
    load_rows(any_session, "t", ROWS)
    any_session.query("ROLLBACK")
    assert any_session.value("SELECT 1") == "1"
