"""Crashes at every phase, checkpoints in between, segments, and replicas of every kind."""

from __future__ import annotations

import shutil
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import bodies
import pytest
from conftest import fresh
from loads import (
    INDEXED,
    READ_INDEX,
    assert_equal,
    assert_sound,
    begin_indexed,
    checksum,
    copy_sql,
    copy_text,
    descriptor,
    fill_indexes,
    load,
    load_indexed,
    load_rows,
)
from server import Server
from test_filters import PARTS, make, scans
from wire import Connection, ServerError

SHAPE = "(k int8 NOT NULL, v text)"
ROWS: list[list[str | None]] = [[str(k), f"value {k} " + "x" * 100] for k in range(2000)]
WAYS = ["", ", IO 'direct'", ", IO 'buffered', FREEZE true", ", IO 'direct', FREEZE true"]


def many_frames(columns: list[bodies.Column], count: int) -> bytes:
    return bodies.body_frame(columns, ROWS) * count


def relation_files(server: Server, path: str) -> list[Path]:
    return sorted((server.data / path).parent.glob(Path(path).name + "*"))


def test_a_crash(server: Server) -> None:
    """Before the commit a table is absent, after it complete; others are as they were. One crash
    for all ways at all phases."""
    first = fresh(server)
    first.query(f"CREATE TABLE copied {SHAPE}; CREATE TABLE other AS SELECT 7 AS k")
    for _ in range(8):
        copy_text(first, "copied", ROWS)
    expected = checksum(first, "copied")
    under_way = []
    # Those with a checkpoint in them go first: nothing of the others' is to be in one.
    for phase in ("mid-load", "checkpoint", "loaded", "committed"):
        for number, options in enumerate(WAYS):
            table = f"direct_{phase.replace('-', '_')}_{number}"
            session = Connection.to(first)
            under_way.append(session)
            begin_indexed(session, table, SHAPE)
            shape = descriptor(session, table)
            stream = many_frames(shape["columns"], 8)
            if phase == "mid-load":
                session.begin_copy(copy_sql(table, shape["hash"], options + INDEXED))
                session.socket.sendall(b"d" + struct.pack(">I", len(stream) + 4) + stream[:-9])
                first.query("CHECKPOINT")
                continue
            session.copy(copy_sql(table, shape["hash"], options + INDEXED), stream)
            if phase == "checkpoint":
                first.query("CHECKPOINT")
            fill_indexes(session, table)
            if phase in ("committed", "checkpoint"):
                session.query("COMMIT")
    server.crash()
    again = Connection.to(first)
    assert again.value("SELECT k FROM other") == "7"
    for number, options in enumerate(WAYS):
        for phase in ("mid_load", "loaded"):
            assert again.value(f"SELECT to_regclass('direct_{phase}_{number}')") is None, options
        for phase in ("checkpoint", "committed"):
            table = f"direct_{phase}_{number}"
            assert checksum(again, table) == expected, table
            assert_equal(again, table, "copied")
            assert_sound(again, table, frozen="FREEZE" in options)
    again.close()


def test_a_checkpoint_in_the_middle(server: Server) -> None:
    """What was written before it is in no WAL that a recovery would read."""
    first = fresh(server)
    expected = {}
    for number, options in enumerate(WAYS):
        session, table = Connection.to(first), f"direct{number}"
        begin_indexed(session, table, SHAPE)
        shape = descriptor(session, table)
        stream = many_frames(shape["columns"], 8)
        half = len(stream) // 2
        session.begin_copy(copy_sql(table, shape["hash"], options + INDEXED))
        session.send(b"d", stream[:half])
        first.query("CHECKPOINT")
        session.send(b"d", stream[half:])
        session.send(b"c")
        assert session.finish()[1] == "COPY 16000"
        fill_indexes(session, table)
        session.query("COMMIT")
        expected[table] = checksum(session, table), "FREEZE" in options
    server.crash()
    again = Connection.to(first)
    for table, (sum_, frozen) in expected.items():
        assert checksum(again, table) == sum_
        assert_sound(again, table, frozen=frozen)
    again.close()


def test_data_checksums_on_disk(server: Server) -> None:
    """pg_checksums agrees with every page, of the visibility map too."""
    session = fresh(server)
    for number, options in enumerate(WAYS):
        table = f"direct{number}"
        begin_indexed(session, table, SHAPE)
        stream = many_frames(descriptor(session, table)["columns"], 8)
        load_indexed(session, table, stream, options)
        session.query("COMMIT")
    session.close()
    server.stop()
    try:
        assert "Bad checksums:  0" in server.program("pg_checksums", "-c", "-D", str(server.data))
    finally:
        server.start()


def test_an_abort_leaves_no_file(any_server: Server) -> None:
    session = fresh(any_server)
    for options in WAYS:
        session.query(f"BEGIN; CREATE TABLE direct {SHAPE}")
        load_rows(session, "direct", ROWS, options=options)
        path = session.value("SELECT pg_relation_filepath('direct')")
        assert path is not None
        assert relation_files(any_server, path) != []
        session.query("ROLLBACK")
        # The first segment stays, empty, until the next checkpoint.
        assert all(file.stat().st_size == 0 for file in relation_files(any_server, path))


@pytest.fixture
def replicated(server: Server) -> Iterator[Server]:
    if server.settings["wal_level"] != "replica":
        pytest.skip("replicas need wal_level=replica")
    yield server


def test_a_base_backup_during_loads(replicated: Server) -> None:
    """Taken in the middle of a load, restored, and compared."""
    session = fresh(replicated)
    other = Connection.to(session)
    begin_indexed(session, "direct", SHAPE)
    shape = descriptor(session, "direct")
    stream = many_frames(shape["columns"], 20)
    third = len(stream) // 3
    backup = replicated.folder / "backup"
    session.begin_copy(copy_sql("direct", shape["hash"], ", FREEZE true" + INDEXED))
    session.send(b"d", stream[:third])
    replicated.program(
        "pg_basebackup", "-h", str(replicated.socket_dir), "-U", "postgres", "-c", "fast",
        "-X", "none", "-D", str(prepare(replicated, backup)),
    )  # fmt: skip
    session.send(b"d", stream[third:])
    session.send(b"c")
    session.finish()
    fill_indexes(session, "direct")
    session.query("COMMIT")
    expected = checksum(session, "direct")
    other.query("SELECT pg_switch_wal()")
    restored = restore(replicated, backup)
    try:
        copy = when_recovered(restored, session.database)
        assert checksum(copy, "direct") == expected
        assert_sound_here(copy, session)
        copy.close()
    finally:
        replicated.program("pg_ctl", "-D", str(backup), "-w", "-s", "-m", "immediate", "stop")
        shutil.rmtree(backup)


def prepare(server: Server, folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    server.give(folder)
    return folder


def restore(server: Server, backup: Path) -> Path:
    """Recovers a backup from the primary's own WAL, to its end, as a server of its own."""
    sockets = server.folder / "restored"
    if not sockets.exists():
        sockets.mkdir()
        server.give(sockets)
    signal = backup / "recovery.signal"
    signal.touch()
    server.give(signal)
    with (backup / "postgresql.conf").open("a") as file:
        file.write(f"restore_command = 'cp {server.data}/pg_wal/%f %p'\n")
        file.write(f"unix_socket_directories = '{sockets}'\nhot_standby = off\n")
    log = str(backup / "log")
    server.program("pg_ctl", "-D", str(backup), "-l", log, "-w", "-s", "-t", "120", "start")
    return sockets


def when_recovered(sockets: Path, database: str) -> Connection:
    """pg_ctl is content before the recovery has ended; until then sessions are turned away."""
    for _ in range(1200):
        try:
            return Connection(sockets, database)
        except (ConnectionError, ServerError, FileNotFoundError):
            threading.Event().wait(0.05)
    raise AssertionError("the backup does not recover")


def assert_sound_here(copy: Connection, session: Connection) -> None:
    """The checkers were installed on the primary after the backup: make them here."""
    assert_sound(copy, "direct", frozen=True)
    assert copy.value("SELECT 1") == session.value("SELECT 1")


def test_a_streaming_standby(replicated: Server) -> None:
    session = fresh(replicated)
    standby = replicated.folder / "standby"
    replicated.program(
        "pg_basebackup", "-h", str(replicated.socket_dir), "-U", "postgres", "-c", "fast",
        "-X", "stream", "-R", "-D", str(prepare(replicated, standby)),
    )  # fmt: skip
    sockets = replicated.folder / "standby-socket"
    sockets.mkdir(exist_ok=True)
    replicated.give(sockets)
    with (standby / "postgresql.conf").open("a") as file:
        file.write(f"unix_socket_directories = '{sockets}'\n")
    log = str(standby / "log")
    replicated.program("pg_ctl", "-D", str(standby), "-l", log, "-w", "-s", "start")
    try:
        for number, options in enumerate(WAYS):
            table = f"direct{number}"
            begin_indexed(session, table, SHAPE)
            stream = many_frames(descriptor(session, table)["columns"], 8)
            load_indexed(session, table, stream, options)
            # Without indexes rows can be of any length.
            session.query(f"CREATE TABLE long{number} {SHAPE}")
            load(session, f"long{number}", bodies.text_frame([["5", "y" * 100_000]]), options)
            session.query("COMMIT")
        make(session, "integer", 2000)
        session.query(
            f"INSERT INTO events SELECT g % {PARTS}, g, g FROM generate_series(2001, 2500) g"
        )
        end = session.value("SELECT pg_current_wal_lsn()")
        copy = Connection(sockets, session.database)
        while copy.value(f"SELECT pg_last_wal_replay_lsn() >= '{end}'") != "t":
            copy.query("SELECT pg_sleep(0.05)")
        # Here, rows are seen that are dead for all on the primary, which a new filter lacks.
        copy.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")
        session.query("DELETE FROM events WHERE n = 5; REINDEX INDEX part_0_k_idx1")
        end = session.value("SELECT pg_current_wal_lsn()")
        while copy.value(f"SELECT pg_last_wal_replay_lsn() >= '{end}'") != "t":
            copy.query("SELECT pg_sleep(0.05)")
        copy.query("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
        assert copy.query("SELECT n FROM events WHERE k = 5") == [["5"]]
        copy.query("COMMIT")
        assert scans(copy, "SELECT n FROM events WHERE k = 5")[0] == []
        for number in range(11, 2501, 17):
            rows, count = scans(copy, f"SELECT n FROM events WHERE k = {number}")
            assert rows == [[str(number)]] and count < PARTS
        for number in range(len(WAYS)):
            for table in (f"direct{number}", f"long{number}"):
                assert checksum(copy, table) == checksum(session, table)
            scanned = READ_INDEX.format(f"direct{number}")
            assert copy.value(scanned) == session.value(scanned)
        copy.close()
    finally:
        replicated.program("pg_ctl", "-D", str(standby), "-w", "-s", "-m", "immediate", "stop")
        shutil.rmtree(standby)
