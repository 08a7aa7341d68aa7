"""A wide CSV with quoted text, into one table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from data_made import wide
from lab import Case, Way
from peers import ours, psql, wheel_tools

from cases.setting import Setting

MEGABYTES = 400


@contextmanager
def wide_csv(setting: Setting) -> Iterator[Case]:
    """25 columns, 12 of them text in quotes, with commas, quotes and line feeds inside."""
    server, data = setting.server, wide(setting.megabytes(MEGABYTES))
    ways = [
        Way("fullbore, append", lambda: ours.into_existing(server, data)),
        Way("psql, 4 sessions", lambda: psql.one_table(server, data, 4)),
        Way("psql, 2 sessions", lambda: psql.one_table(server, data, 2)),
    ]
    case = Case(data.size, ways, data.files)
    case.add("DuckDB's PostgreSQL writer", lambda: wheel_tools.duckdb(server, data))
    case.add("ADBC, pyarrow reading", lambda: wheel_tools.adbc(server, data))
    case.add("polars write_database (ADBC)", lambda: wheel_tools.polars(server, data))
    yield case
