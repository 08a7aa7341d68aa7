"""File systems that are really full, of data and of WAL; where root may mount small ones."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import bodies
import pytest
from conftest import COMPILER, WANTED
from crash.matrix import ROWS, SETTINGS, SHAPE
from crash.shim import wait_until
from loads import (
    INDEXED,
    assert_sound,
    begin_indexed,
    checksum,
    copy_sql,
    copy_text,
    descriptor,
    fill_indexes,
)
from server import Installation, Server, installations, ordinary_user
from test_failing_disks import WAYS, assert_as_before
from wire import Connection, ServerError


class SmallDisk:
    """A file system of so many megabytes, in memory; needs the right to mount one."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder = folder
        folder.mkdir()
        self.mounted = False
        who = ordinary_user()
        options = f"size={megabytes}m,mode=700"
        if who:
            options += f",uid={who['user']},gid={who['group']}"
        command = ["mount", "-t", "tmpfs", "-o", options, "fullbore-test", str(folder)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip("A FULL DISK IS NOT TESTED: mounting a small file system needs root")
        self.mounted = True

    def grow(self, megabytes: int) -> None:
        command = ["mount", "-o", f"remount,size={megabytes}m", str(self.folder)]
        subprocess.run(command, check=True)

    def free(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def end(self) -> None:
        """Out of sight at once; gone when the last process that uses it is."""
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)


def newest() -> Installation:
    found = [i for i in installations() if i.name in WANTED and i.pg_config.exists()]
    if not found:
        pytest.skip("no PostgreSQL is there")
    return found[-1]


def begin(session: Connection) -> dict[str, Any]:
    """A table whose rows and indexes lie on the small disk."""
    session.query("SET default_tablespace = small")
    begin_indexed(session, "direct", SHAPE)
    session.query("RESET default_tablespace")
    return descriptor(session, "direct")


def test_a_full_file_system() -> None:
    """A tablespace on a small one; which also has no direct I/O on older kernels."""
    server = Server(newest(), {"wal_level": "minimal"}, COMPILER)
    disk = None
    try:
        disk = SmallDisk(server.folder / "small", 12)
        session = Connection(server.socket_dir)
        session.query("CREATE EXTENSION fullbore")
        session.query(f"CREATE TABLESPACE small LOCATION '{disk.folder}'")
        free = disk.free()
        for options in (way + INDEXED for way in WAYS):
            shape = begin(session)
            frame = bodies.body_frame(shape["columns"], ROWS)
            session.copy(copy_sql("direct", shape["hash"], options), frame)
            size = int(session.value("SELECT pg_relation_size('direct')") or 0)
            session.query("ROLLBACK; CHECKPOINT")
            # Full of rows, and full when its indexes are written.
            for frames in (100, int(0.98 * free / size)):
                shape = begin(session)
                with pytest.raises(ServerError) as caught:
                    session.copy(copy_sql("direct", shape["hash"], options), frame * frames)
                    assert frames < 100
                    fill_indexes(session, "direct")
                assert caught.value.code == "53100", caught.value
                session.query("ROLLBACK; CHECKPOINT")
                assert disk.free() >= free - 65536
            shape = begin(session)
            assert session.copy(copy_sql("direct", shape["hash"], options), frame * 8) == (
                f"COPY {8 * len(ROWS)}"
            )
            fill_indexes(session, "direct")
            session.query("COMMIT")
            assert_sound(session, "direct")
            session.query("DROP TABLE direct; CHECKPOINT")
        session.close()
    finally:
        if disk is not None:
            disk.end()
        server.close()


def test_a_full_file_system_of_wal() -> None:
    """The server falls; given room again, it comes back without the piece."""
    server = Server(newest(), {**SETTINGS, "wal_level": "replica"}, COMPILER)
    disk = None
    try:
        session = Connection(server.socket_dir)
        session.query(f"CREATE EXTENSION fullbore; CREATE TABLE copied {SHAPE}")
        copy_text(session, "copied", ROWS)
        expected = checksum(session, "copied")
        session.close()
        server.stop()
        disk = SmallDisk(server.folder / "wal", 64)
        command = f"cp -a {server.data}/pg_wal/. {disk.folder} && mv {server.data}/pg_wal "
        command += f"{server.folder}/old_wal && ln -s {disk.folder} {server.data}/pg_wal"
        subprocess.run(["sh", "-c", command], check=True)
        server.start()
        session = Connection(server.socket_dir)
        session.query(f"BEGIN; CREATE TABLE direct {SHAPE}")
        shape = descriptor(session, "direct")
        frame = bodies.body_frame(shape["columns"], ROWS)
        with pytest.raises((ServerError, OSError)) as caught:
            session.copy(copy_sql("direct", shape["hash"]), frame * 600)
        session.close()
        assert "No space left on device" in server.log, caught.value
        disk.grow(512)
        # Either it recovers by itself or it has given up meanwhile.
        if not server.processes():
            server.start()
        again = when_it_answers(server)
        assert_as_before(again, expected)
        again.close()
    finally:
        if disk is not None:
            disk.end()
        server.close()


def when_it_answers(server: Server) -> Connection:
    found: list[Connection] = []

    def answers() -> bool:
        if not server.processes():
            server.start()
        try:
            session = Connection(server.socket_dir)
            session.query("SELECT 1")
        except (OSError, ServerError):
            return False
        found.append(session)
        return True

    wait_until("server that answers", answers)
    return found[0]
