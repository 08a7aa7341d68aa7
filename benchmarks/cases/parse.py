"""Parse only, typed, into batches that are thrown away; no server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from data import DataSet, tpch
from data_made import wide
from lab import Case, Way
from peers import ours, rust_arrow, wheel_tools

from cases.setting import Setting
from cases.wide import MEGABYTES


@contextmanager
def parse_only(setting: Setting) -> Iterator[Case]:
    """lineitem in four files."""
    yield _parse(setting, tpch(setting.scale, 4))


@contextmanager
def parse_wide(setting: Setting) -> Iterator[Case]:
    """The quoted CSV."""
    yield _parse(setting, wide(setting.megabytes(MEGABYTES)))


def _parse(setting: Setting, data: DataSet) -> Case:
    server = setting.server
    ways = [
        Way("fullbore, parse only", lambda: ours.parse(server, data, "null:batches")),
        Way("fullbore, parse and encode", lambda: ours.parse(server, data, "null:")),
    ]
    case = Case(data.size, ways, data.files + data.plain, loads=False)
    for name in ("duckdb", "pyarrow", "polars"):
        case.add(f"{name}, parse only", lambda name=name: wheel_tools.parser(name, server, data))
    case.add("arrow-csv (Rust), parse only", lambda: rust_arrow.parser(server, data))
    return case
