"""A standby that lags behind a direct load: the load does not wait for it, nor lose anything."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator

import bodies
import pytest
from conftest import COMPILER, WANTED
from crash.shim import wait_until
from loads import READ_INDEX, begin_indexed, checksum, descriptor, load_indexed
from server import Server, installations
from wire import Connection

SHAPE = "(k int8 NOT NULL, v text)"
ROWS: list[list[str | None]] = [[str(k), f"value {k} " + "x" * 100] for k in range(2000)]
FRAMES = 60


class Standby:
    """A streaming standby of a primary."""

    def __init__(self, primary: Server) -> None:
        self.primary = primary
        self.data = primary.folder / "standby"
        self.sockets = primary.folder / "standby-socket"
        for folder in (self.data, self.sockets):
            folder.mkdir(mode=0o700)
            primary.give(folder)
        primary.program(
            "pg_basebackup", "-h", str(primary.socket_dir), "-U", "postgres", "-c", "fast",
            "-X", "stream", "-R", "-D", str(self.data),
        )  # fmt: skip
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(f"unix_socket_directories = '{self.sockets}'\n")
        log = str(self.data / "log")
        primary.program("pg_ctl", "-D", str(self.data), "-l", log, "-w", "-s", "start")

    def session(self, database: str) -> Connection:
        return Connection(self.sockets, database)

    def close(self) -> None:
        self.primary.program("pg_ctl", "-D", str(self.data), "-w", "-s", "-m", "immediate", "stop")
        shutil.rmtree(self.data)


@pytest.fixture(scope="module")
def primary() -> Iterator[Server]:
    found = [i for i in installations() if i.name in WANTED and i.pg_config.exists()]
    if not found:
        pytest.skip("no PostgreSQL is there")
    settings = {"wal_level": "replica", "wal_sender_timeout": "0", "max_wal_size": "'64MB'"}
    server = Server(found[-1], settings, COMPILER)
    session = Connection(server.socket_dir)
    session.query("CREATE EXTENSION fullbore")
    session.close()
    yield server
    server.close()


@pytest.fixture(scope="module")
def standby(primary: Server) -> Iterator[Standby]:
    made = Standby(primary)
    yield made
    made.close()


def begin(session: Connection, table: str) -> bytes:
    begin_indexed(session, table, SHAPE)
    return bodies.body_frame(descriptor(session, table)["columns"], ROWS) * FRAMES


def copy(session: Connection, table: str, stream: bytes) -> None:
    load_indexed(session, table, stream, ", FREEZE true")


def receiver(standby: Standby) -> int:
    """The process that takes the primary's WAL."""
    session = standby.session("postgres")
    found: list[int] = []

    def is_there() -> bool:
        for (pid,) in session.query("SELECT pid FROM pg_stat_wal_receiver"):
            found.append(int(pid or 0))
        return bool(found)

    wait_until("WAL receiver", is_there)
    session.close()
    return found[0]


def equal(standby: Standby, session: Connection, table: str) -> None:
    end = session.value("SELECT pg_current_wal_flush_lsn()")
    copy_of = standby.session("postgres")
    replayed = f"SELECT pg_last_wal_replay_lsn() >= '{end}'"
    wait_until("standby that is level", lambda: copy_of.value(replayed) == "t")
    assert checksum(copy_of, table) == checksum(session, table)
    scanned = READ_INDEX.format(table)
    assert copy_of.value(scanned) == session.value(scanned)
    copy_of.close()


LAG = "SELECT pg_current_wal_lsn() - sent_lsn > 0 OR sent_lsn > flush_lsn FROM pg_stat_replication"


def test_a_standby_that_stands_still(primary: Server, standby: Standby) -> None:
    """The primary loads and commits, through checkpoints; later the standby has it all."""
    session = Connection(primary.socket_dir)
    # What it has not sent has to be kept for it.
    session.query("ALTER SYSTEM SET wal_keep_size = '1GB'")
    session.query("SELECT pg_reload_conf()")
    stream = begin(session, "still")
    stopped = receiver(standby)
    os.kill(stopped, signal.SIGSTOP)
    try:
        copy(session, "still", stream)
        session.query("COMMIT; CHECKPOINT")
        assert session.value(LAG) == "t"
    finally:
        os.kill(stopped, signal.SIGCONT)
    equal(standby, session, "still")
    session.close()


def test_a_commit_that_waits_for_the_standby(primary: Server, standby: Standby) -> None:
    """The load goes through, its commit waits; nobody sees the rows before the standby has them."""
    session = Connection(primary.socket_dir)
    watcher = Connection(primary.socket_dir)
    stream = begin(session, "awaited")
    watcher.query("ALTER SYSTEM SET synchronous_standby_names = '*'")
    watcher.query("SELECT pg_reload_conf()")
    stopped = receiver(standby)
    os.kill(stopped, signal.SIGSTOP)
    try:
        copy(session, "awaited", stream)
        session.send(b"Q", b"COMMIT\0")
        event = f"SELECT wait_event FROM pg_stat_activity WHERE pid = {session.pid}"
        wait_until("commit that waits", lambda: watcher.value(event) == "SyncRep")
        assert watcher.value("SELECT to_regclass('awaited')") is None
    finally:
        os.kill(stopped, signal.SIGCONT)
        session.finish()
        watcher.query("ALTER SYSTEM RESET synchronous_standby_names")
        watcher.query("SELECT pg_reload_conf()")
    equal(standby, session, "awaited")
    session.close()
    watcher.close()


def test_replay_that_is_paused(primary: Server, standby: Standby) -> None:
    """A reader on the standby holds its snapshot; replay waits and then shows the load whole."""
    session = Connection(primary.socket_dir)
    stream = begin(session, "paused")
    reader = standby.session("postgres")
    reader.query("SELECT pg_wal_replay_pause()")
    state = "SELECT pg_get_wal_replay_pause_state()"
    wait_until("pause", lambda: reader.value(state) in ("paused", "pause requested"))
    copy(session, "paused", stream)
    session.query("COMMIT")
    assert reader.value("SELECT to_regclass('paused')") is None
    reader.query("SELECT pg_wal_replay_resume()")
    equal(standby, session, "paused")
    reader.close()
    session.close()
