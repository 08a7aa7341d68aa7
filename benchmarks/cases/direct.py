"""The direct method: lineitem as partitions and into one table, under both levels of WAL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from data import tpch
from lab import Case, Way
from peers import ours, psql
from server import Server

from cases.lineitem import PARTITIONS
from cases.setting import Setting, replica


@contextmanager
def direct(setting: Setting) -> Iterator[Case]:
    """wal_level=minimal: what is loaded is new, and not logged by either side."""
    yield _lineitem(setting, setting.server)


@contextmanager
def direct_replica(setting: Setting) -> Iterator[Case]:
    """wal_level=replica: both sides log every row, as production does."""
    with replica() as server:
        case = _lineitem(setting, server)
        case.server = server
        case.notes.append("direct-replica ran under wal_level=replica, for all of its ways.")
        yield case
        server.clear()


def _lineitem(setting: Setting, server: Server) -> Case:
    data = tpch(setting.scale, 4)
    replace = ("--publish", "replace")
    ways = [
        Way(
            "fullbore direct, partitions",
            lambda: ours.load(server, data, *PARTITIONS, method="direct"),
        ),
        Way("fullbore copy, partitions", lambda: ours.load(server, data, *PARTITIONS)),
        Way("psql, expert, 2 sessions", lambda: psql.own_tables(server, [data], 2)),
        Way(
            "fullbore direct, one table",
            lambda: ours.into_existing(server, data, *replace, method="direct"),
        ),
        Way(
            "psql, one table, 2 sessions",
            lambda: psql.one_table(server, data, 2),
            beside="fullbore direct, one table",
        ),
        Way(
            "psql, one table, 4 sessions",
            lambda: psql.one_table(server, data, 4),
            beside="fullbore direct, one table",
        ),
    ]
    return Case(data.size, ways, data.files + data.plain)
