"""The boundary of segments, at 1 GB: behind FULLBORE_TEST_LONG=1, it needs 1.1 GB of disk."""

from __future__ import annotations

import os
import struct

import bodies
import pytest
from conftest import COMPILER, WANTED
from loads import copy_sql, descriptor
from server import Server, installations
from wire import Connection

SEGMENT_PAGES = 131_072
# A row fills a page, so rows are counted as pages are; a frame of them is just below 4 MiB. Of
# fixed lengths alone the table has no TOAST table, which would not have such long rows.
COLUMNS = 1012
FRAME_ROWS = 512
SHAPE = f"(k int8 NOT NULL, {', '.join(f'c{n} int8 NOT NULL' for n in range(1, COLUMNS))})"

pytestmark = pytest.mark.skipif(
    os.environ.get("FULLBORE_TEST_LONG") != "1", reason="FULLBORE_TEST_LONG=1 runs it"
)


def frame(first: int, rows: int) -> bytes:
    """Rows with a number each, laid out by hand: there are too many for ``bodies.row``."""
    others = bytes(8 * (COLUMNS - 1))
    payload = b"".join(
        struct.pack("<HBq", 1 + 8 * COLUMNS, 0, first + number) + others for number in range(rows)
    )
    return bodies.frame("B", rows, payload)


def load(session: Connection, options: str, good: bytes, rows: int, rest: bytes = b"") -> None:
    """So many whole frames of the same bytes, and a rest."""
    session.begin_copy(copy_sql("t", descriptor(session, "t")["hash"], options))
    for _ in range(rows // FRAME_ROWS):
        session.send(b"d", good)
    if rest:
        session.send(b"d", rest)
    session.send(b"c")
    session.finish()


@pytest.mark.parametrize("options", [", IO 'direct', FREEZE true", ", IO 'buffered'"])
@pytest.mark.parametrize("ends", ["behind", "at"])
def test_across_a_segment(options: str, ends: str) -> None:
    """A load that crosses the boundary, and two of which the first ends exactly at it."""
    found = [i for i in installations() if i.name in WANTED and i.pg_config.exists()]
    server = Server(found[-1], {"wal_level": "minimal"}, COMPILER)
    try:
        session = Connection(server.socket_dir)
        session.query(f"CREATE EXTENSION fullbore; BEGIN; CREATE TABLE t {SHAPE}")
        good = frame(0, FRAME_ROWS)
        behind = frame(1_000_000, 40)
        if ends == "behind":
            load(session, options, good, SEGMENT_PAGES, behind)
        else:
            load(session, options, good, SEGMENT_PAGES)
            load(session, options, b"", 0, behind)
        session.query("COMMIT")
        assert session.value("SELECT count(*) FROM t") == str(SEGMENT_PAGES + 40)
        # Each row where it belongs: its page tells its number.
        page = "(ctid::text::point)[0]::int8"
        wrong = f"""SELECT count(*) FROM t WHERE k <> CASE WHEN {page} < {SEGMENT_PAGES}
                    THEN {page} % {FRAME_ROWS} ELSE 1000000 + {page} - {SEGMENT_PAGES} END"""
        assert session.value(wrong) == "0"
        path = session.value("SELECT pg_relation_filepath('t')")
        assert path is not None
        first, second = server.data / path, server.data / f"{path}.1"
        assert (first.stat().st_size, second.stat().st_size) == (SEGMENT_PAGES * 8192, 40 * 8192)
        if "FREEZE" in options:
            session.query("CREATE EXTENSION pg_visibility")
            summary = session.query("SELECT * FROM pg_visibility_map_summary('t')")
            assert summary == [[str(SEGMENT_PAGES + 40)] * 2]
            assert session.query("SELECT * FROM pg_check_frozen('t')") == []
        session.query("CREATE EXTENSION amcheck")
        check = "SELECT * FROM verify_heapam('t', startblock := {}, endblock := {})"
        start, end = SEGMENT_PAGES - 100, SEGMENT_PAGES + 39
        assert session.query(check.format(start, end)) == []
        server.crash()
        again = Connection(server.socket_dir)
        assert again.value(wrong) == "0"
        again.close()
    finally:
        server.close()
