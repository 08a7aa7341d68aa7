"""Power cuts: what was written to a piece's files but not synced is lost, and the rest must do.

A kill loses nothing that the kernel holds, so it proves nothing of syncs. Here every process is
killed at once, and then whatever the server had not synced of the piece's files is taken out of
them, as the worst disk would. WAL and other files keep all: what is tested is that a direct load
syncs, or has synced, or logs, all that its commit promises.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import bodies
import pytest
from crash.matrix import FRAMES, ROWS, SHAPE
from crash.shim import Shim, wait_until
from loads import (
    INDEXED,
    READ_INDEX,
    SUM,
    assert_sound,
    begin_indexed,
    checksum,
    copy_sql,
    descriptor,
    fill_indexes,
)
from server import Server
from wire import Connection, ServerError


def load(server: Server, shim: Shim, table: str, options: str, checkpoint: str) -> list[Path]:
    """Loads and commits; the files of the table."""
    session, other = Connection(server.socket_dir), Connection(server.socket_dir)
    begin_indexed(session, table, SHAPE)
    shape = descriptor(session, table)
    stream = bodies.body_frame(shape["columns"], ROWS) * FRAMES
    half = len(stream) // 2
    files = []
    for suffix in ("", "_v", "_k"):
        path = session.value(f"SELECT pg_relation_filepath('{table}{suffix}')")
        files.append(server.data / str(path))
    files.append(server.data / f"{files[0]}_vm")
    if checkpoint == "between":
        # The next one after a file was made syncs it once, whoever wrote; it is not relied on.
        other.query("CHECKPOINT")
    session.begin_copy(copy_sql(table, shape["hash"], options + INDEXED))
    session.send(b"d", stream[:half])
    if checkpoint == "between":
        wait_until("pages that are written", lambda: shim.unsynced(files[0]))
        other.query("CHECKPOINT")
    session.send(b"d", stream[half:])
    session.send(b"c")
    session.finish()
    fill_indexes(session, table)
    session.query("COMMIT")
    if checkpoint == "after":
        other.query("CHECKPOINT")
    session.close()
    other.close()
    return files


def cut(server: Server) -> None:
    """Everything ends at once."""
    postmaster = int((server.data / "postmaster.pid").read_text().split()[0])
    for pid in {postmaster, *server.processes()}:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    wait_until(
        "end of all processes",
        lambda: not server.processes() and not Path(f"/proc/{postmaster}").exists(),
    )


def lose(file: Path, ranges: list[tuple[int, int]]) -> int:
    """Takes them out: zeros where more follows, a shorter file where nothing does."""
    if not file.exists():
        return 0
    clean = file.stat().st_size
    with file.open("r+b") as opened:
        for at, length in sorted(ranges, reverse=True):
            if at + length >= clean:
                clean = min(clean, at)
            else:
                opened.seek(at)
                opened.write(bytes(length))
        opened.truncate(clean)
    return sum(length for _, length in ranges)


@pytest.mark.parametrize(
    ("checkpoint", "options"),
    [
        ("none", ", IO 'direct', FREEZE true"),
        ("between", ", IO 'direct', FREEZE true"),
        ("after", ", IO 'direct', FREEZE true"),
        ("between", ", IO 'buffered'"),
    ],
)
def test_what_was_not_synced_is_not_missed(
    shimmed: tuple[Server, Shim], options: str, checkpoint: str
) -> None:
    server, shim = shimmed
    files = load(server, shim, "direct", options, checkpoint)
    cut(server)
    for file in files:
        lose(file, shim.unsynced(file))
    server.start()
    again = Connection(server.socket_dir)
    assert checksum(again, "direct") == checksum(again, "copied")
    assert_sound(again, "direct", frozen="FREEZE" in options)
    again.query("DROP TABLE direct; CHECKPOINT")
    again.close()


@pytest.mark.parametrize(("number", "query"), [(0, SUM), (1, READ_INDEX)])
def test_the_loss_is_a_loss(shimmed: tuple[Server, Shim], number: int, query: str) -> None:
    """Were nothing synced, the same cut would be seen: the tests above can fail."""
    server, shim = shimmed
    files = load(server, shim, "direct", ", IO 'direct'", "after")
    cut(server)
    assert lose(files[number], [(0, files[number].stat().st_size)]) > 0
    server.start()
    again = Connection(server.socket_dir)
    try:
        assert again.value(query.format("direct")) != again.value(query.format("copied"))
    except ServerError as error:
        assert error.code.startswith("XX"), error
    again.query("DROP TABLE direct")
    again.close()


def test_wal_carries_what_no_checkpoint_has_passed(shimmed: tuple[Server, Shim]) -> None:
    """With wal_level=replica nothing needs to be synced at the commit on 17 and later."""
    server, shim = shimmed
    files = load(server, shim, "direct", ", IO 'direct'", "none")
    relies_on_wal = server.settings["wal_level"] == "replica" and server.name == "18"
    for file in files[:2]:
        unsynced = sum(length for _, length in shim.unsynced(file))
        assert (unsynced > 0) == relies_on_wal, f"{unsynced} of {file}"
    session = Connection(server.socket_dir)
    session.query("DROP TABLE direct; CHECKPOINT")
    session.close()
