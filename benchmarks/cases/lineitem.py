"""TPC-H lineitem: as partitions, into one table, and as one file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from data import tpch
from lab import ROOT, Case, Way
from peers import ours, psql, wheel_tools
from peers.pgloader import pgloader
from peers.sling import sling
from peers.spark import spark

from cases.setting import Setting

SCHEMA = str(ROOT / "demo" / "schema" / "lineitem.sql")
CREATE = ("--create", "--schema", SCHEMA)
PARTITIONS = (*CREATE, "--publish", "partitions", "--partition-by", "l_orderkey")
# About 100 MB: for tools that would need minutes for all of it.
SLOW_SCALE = 0.14


@contextmanager
def partitions(setting: Setting) -> Iterator[Case]:
    """A table for each session, against partitions."""
    server, data = setting.server, tpch(setting.scale, 4)
    ways = [
        Way("fullbore, partitions", lambda: ours.load(server, data, *PARTITIONS)),
        Way("psql, expert, 2 sessions", lambda: psql.own_tables(server, [data], 2)),
        Way("psql, expert, 4 sessions", lambda: psql.own_tables(server, [data], 4)),
    ]
    yield Case(data.size, ways, data.files + data.plain)


@contextmanager
def one_table(setting: Setting) -> Iterator[Case]:
    """One table that is there already, and all tools that are fast enough."""
    server, data = setting.server, tpch(setting.scale, 4)
    ways = [
        Way("fullbore, append", lambda: ours.into_existing(server, data)),
        Way(
            "fullbore, append, 4 streams",
            lambda: ours.into_existing(server, data, "--streams", "4"),
        ),
        Way("psql, 4 sessions", lambda: psql.one_table(server, data, 4)),
        Way("psql, 2 sessions", lambda: psql.one_table(server, data, 2)),
        Way("psql, expert, 1 session", lambda: psql.own_tables(server, [data], 1)),
    ]
    case = Case(data.size, ways, data.files + data.plain)
    case.add("DuckDB's PostgreSQL writer", lambda: wheel_tools.duckdb(server, data))
    case.add("ADBC, pyarrow reading", lambda: wheel_tools.adbc(server, data))
    case.add("polars write_database (ADBC)", lambda: wheel_tools.polars(server, data))
    yield case


@contextmanager
def slow_tools(setting: Setting) -> Iterator[Case]:
    """The tools that take long, on less."""
    server, data = setting.server, tpch(setting.scale_of(SLOW_SCALE), 4)
    ways = [
        Way("fullbore, append", lambda: ours.into_existing(server, data)),
        Way("psql, 4 sessions", lambda: psql.one_table(server, data, 4)),
    ]
    notes = [
        "slow-tools is a small part of lineitem, because these tools are slow; start-up weighs in."
        " dlt makes its table itself: text has no length there, and columns may be NULL."
    ]
    case = Case(data.size, ways, data.files + data.plain, notes=notes)
    case.add("pgloader", lambda: pgloader(server, data))
    case.add("sling", lambda: sling(server, data))
    case.add("dlt", lambda: wheel_tools.dlt(server, data))
    case.add("Spark JDBC", lambda: spark(server, data))
    yield case


@contextmanager
def one_file(setting: Setting) -> Iterator[Case]:
    """The same rows as one file and as four, both into a new table."""
    server = setting.server
    one, four = tpch(setting.scale, 1), tpch(setting.scale, 4)
    ways = [
        Way("fullbore, one file", lambda: ours.load(server, one, *CREATE)),
        Way("fullbore, four files", lambda: ours.load(server, four, *CREATE)),
        Way("psql, 1 session", lambda: psql.one_table(server, one, 1)),
    ]
    yield Case(one.size, ways, one.files + four.files + one.plain)
