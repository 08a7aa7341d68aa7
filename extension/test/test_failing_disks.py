"""Disks that are full and syncs that fail, of the data and of WAL, faked call by call.

What the server does then is the server's own rule (an error where a file can't grow, PANIC where a
sync or WAL fails); what is tested is that direct loads keep to it and that nothing is left wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bodies
import pytest
from crash.matrix import FRAMES, ROWS, SHAPE
from crash.shim import Shim, wait_until
from loads import SUM, assert_sound, begin_indexed, checksum, descriptor, load_indexed
from server import Server
from wire import Connection, ServerError

WAYS = [", IO 'direct'", ", IO 'buffered'"]


_streams: dict[str, bytes] = {}


def stream_of(shape: dict[str, Any]) -> bytes:
    """The rows laid out; tables of one shape have one hash."""
    if shape["hash"] not in _streams:
        _streams[shape["hash"]] = bodies.body_frame(shape["columns"], ROWS) * FRAMES
    return _streams[shape["hash"]]


class Load:
    """A session in the middle of a transaction that made its table."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.session = Connection(server.socket_dir)
        self.checkpointer = checkpointer_of(self.session)
        begin_indexed(self.session, "direct", SHAPE)
        self.stream = stream_of(descriptor(self.session, "direct"))
        paths = self.session.query(
            "SELECT pg_relation_filepath('direct'), pg_relation_filepath('direct_v')"
        )
        self.path, self.index = map(str, paths[0])

    def copy(self, options: str) -> None:
        load_indexed(self.session, "direct", self.stream, options)

    def lost_session(self, doing: str) -> None:
        """What is done makes the server fall, whether or not it can still say so to the client."""
        log_begin = len(self.server.log)
        with pytest.raises((ServerError, ConnectionError)):
            if doing.startswith(", IO"):
                self.copy(doing)
            else:
                self.session.query(doing)
        assert "PANIC:  could not" in self.server.log[log_begin:], self.server.log[log_begin:]

    def when_back(self) -> Connection:
        """The server recovers by itself; a session after that."""

        def is_back() -> bool:
            try:
                session = Connection(self.server.socket_dir)
                back = checkpointer_of(session) != self.checkpointer
                session.close()
            except (OSError, ServerError, IndexError):
                return False
            return back

        wait_until("recovery", is_back)
        return Connection(self.server.socket_dir)


def checkpointer_of(session: Connection) -> str | None:
    return session.value("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")


def is_empty(server: Server, path: str) -> bool:
    files = (server.data / path).parent.glob(f"{Path(path).name}*")
    return all(file.stat().st_size == 0 for file in files)


def load_again(session: Connection) -> None:
    """The same load goes through now, and is COPY's."""
    session.query("DROP TABLE IF EXISTS direct")
    begin_indexed(session, "direct", SHAPE)
    load_indexed(session, "direct", stream_of(descriptor(session, "direct")))
    session.query("COMMIT")
    assert checksum(session, "direct") == checksum(session, "copied")
    assert_sound(session, "direct")
    session.query("DROP TABLE direct")


def assert_as_before(session: Connection, expected: str | None) -> None:
    assert session.value("SELECT to_regclass('direct')") is None
    assert checksum(session, "copied") == expected


@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize("skip", [0, 3])
def test_no_room_for_data(shimmed: tuple[Server, Shim], options: str, skip: int) -> None:
    """An error like any other: the transaction fails, the file goes, the session goes on."""
    server, shim = shimmed
    load = Load(server)
    shim.rule(load.session.pid, "write", load.path, skip, "ENOSPC")
    with pytest.raises(ServerError) as caught:
        load.copy(options)
    shim.clear()
    assert caught.value.code == "53100", caught.value
    assert load.path in caught.value.fields["M"]
    assert "disk space" in caught.value.fields["H"]
    load.session.query("ROLLBACK")
    assert is_empty(server, load.path)
    load_again(load.session)
    load.session.close()


def test_no_room_for_an_index(shimmed: tuple[Server, Shim]) -> None:
    server, shim = shimmed
    load = Load(server)
    shim.rule(load.session.pid, "write", load.index, 1, "ENOSPC")
    with pytest.raises(ServerError) as caught:
        load.copy("")
    shim.clear()
    assert caught.value.code == "53100", caught.value
    assert load.index in caught.value.fields["M"]
    load.session.query("ROLLBACK")
    assert is_empty(server, load.path) and is_empty(server, load.index)
    load_again(load.session)
    load.session.close()


def test_a_write_that_fails(shimmed: tuple[Server, Shim]) -> None:
    server, shim = shimmed
    for options in WAYS:
        load = Load(server)
        shim.rule(load.session.pid, "write", load.path, 2, "EIO")
        with pytest.raises(ServerError) as caught:
            load.copy(options)
        shim.clear()
        assert caught.value.code == "58030", caught.value
        load.session.query("ROLLBACK")
        assert is_empty(server, load.path)
        load_again(load.session)
        load.session.close()


def test_a_write_on_its_way_that_fails(shimmed: tuple[Server, Shim]) -> None:
    """It is made again, and waited for."""
    server, shim = shimmed
    load = Load(server)
    shim.rule(load.session.pid, "write", load.path, 2, "late")
    load.copy("")
    shim.clear()
    assert checksum(load.session, "direct") == checksum(load.session, "copied")
    assert_sound(load.session, "direct")
    load.session.query("ROLLBACK")
    load_again(load.session)
    load.session.close()


def test_no_room_for_the_visibility_map(shimmed: tuple[Server, Shim]) -> None:
    server, shim = shimmed
    load = Load(server)
    shim.rule(load.session.pid, "write", f"{load.path}_vm", 0, "ENOSPC")
    with pytest.raises(ServerError) as caught:
        load.copy(", FREEZE true")
    shim.clear()
    assert caught.value.code == "53100", caught.value
    load.session.query("ROLLBACK")
    assert is_empty(server, load.path)
    load_again(load.session)
    load.session.close()


@pytest.mark.parametrize("options", WAYS)
def test_no_room_for_wal(shimmed: tuple[Server, Shim], options: str) -> None:
    """The server's rule is PANIC; after it the piece is absent and all else as it was."""
    server, shim = shimmed
    if server.settings["wal_level"] == "minimal":
        pytest.skip("no page is shimmed with wal_level=minimal")
    load = Load(server)
    expected = checksum(load.session, "copied")
    shim.rule(load.session.pid, "write", "/pg_wal/", 3, "ENOSPC")
    load.lost_session(options)
    shim.clear()
    again = load.when_back()
    assert_as_before(again, expected)
    load_again(again)
    again.close()


@pytest.mark.parametrize("options", WAYS)
def test_a_sync_of_the_file_that_fails(shimmed: tuple[Server, Shim], options: str) -> None:
    """By the load, by its commit or by the next checkpoint, whoever has to; never a warning."""
    server, shim = shimmed
    load = Load(server)
    expected = checksum(load.session, "copied")
    minimal = server.settings["wal_level"] == "minimal"
    pid = load.session.pid
    if not minimal and server.name == "18":
        pid = int(load.checkpointer or 0)
    shim.rule(pid, "sync", load.path, 0, "EIO")
    if minimal:
        load.copy(options)
        load.lost_session("COMMIT")
    elif server.name == "18":
        load.copy(options)
        load.session.query("COMMIT")
        # The session that asks is not the one that falls.
        with pytest.raises((ServerError, ConnectionError)):
            load.session.query("CHECKPOINT")
    else:
        load.lost_session(options)
    shim.clear()
    again = load.when_back()
    if not minimal and server.name == "18":
        # It was committed, and its WAL is there: what could not be synced is written again.
        assert again.value(SUM.format("direct")) == expected
        again.query("DROP TABLE direct")
    assert_as_before(again, expected)
    load_again(again)
    again.close()


def test_a_failed_sync_where_that_is_an_error(shimmed: tuple[Server, Shim]) -> None:
    """With data_sync_retry = on the transaction fails alone."""
    server, shim = shimmed
    if server.settings["wal_level"] != "minimal":
        pytest.skip("the commit syncs the file with wal_level=minimal")
    server.stop()
    with (server.data / "postgresql.conf").open("a") as file:
        file.write("data_sync_retry = on\n")
    server.start()
    try:
        load = Load(server)
        expected = checksum(load.session, "copied")
        load.copy("")
        shim.rule(load.session.pid, "sync", load.path, 0, "EIO")
        with pytest.raises(ServerError) as caught:
            load.session.query("COMMIT")
        shim.clear()
        assert (caught.value.code, caught.value.fields["S"]) == ("58030", "ERROR"), caught.value
        assert_as_before(load.session, expected)
        load_again(load.session)
        load.session.close()
    finally:
        server.stop()
        with (server.data / "postgresql.conf").open("a") as file:
            file.write("data_sync_retry = off\n")
        server.start()
