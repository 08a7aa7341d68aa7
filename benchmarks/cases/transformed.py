"""Rows that are changed on their way: five expressions and a filter, a lookup, and none of both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data import tpch
from lab import Case, Way, run_text
from peers import ours, psql
from peers.sling import sling
from peers.spark import spark
from peers.wheel_tools import dlt

from cases.lineitem import SLOW_SCALE
from cases.setting import Setting

# Each keeps the type of its column, and the filter all rows, so that all ways load the same.
SELECT = {
    "l_extendedprice": "l_extendedprice * (1 - l_discount)",
    "l_comment": "upper(l_comment)",
    "l_shipdate": "l_shipdate + interval '1 day'",
    "l_returnflag": "CASE WHEN l_quantity > 25 THEN 'B' ELSE 'S' END",
    "l_shipmode": "trim(l_shipmode)",
}
WHERE = "l_quantity > 0"
EXPRESSIONS = [
    *(f"--select={column}={sql}" for column, sql in SELECT.items()),
    f"--where={WHERE}",
]
LOOKUP_ROWS = 200_000
REPLACE = ("--publish", "replace")


@contextmanager
def transformed(setting: Setting) -> Iterator[Case]:
    """Method direct into one table."""
    server, data = setting.server, tpch(setting.scale, 4)
    looked_up = _job(data.files, _parts())
    ways = [
        Way(
            "fullbore direct, as it is",
            lambda: ours.into_existing(server, data, *REPLACE, method="direct"),
        ),
        Way(
            "fullbore direct, five expressions and a filter",
            lambda: ours.into_existing(server, data, *REPLACE, *EXPRESSIONS, method="direct"),
        ),
        Way(
            f"fullbore direct, a lookup into {LOOKUP_ROWS:,} rows",
            lambda: ours.job_into(server, data, looked_up, method="direct"),
        ),
    ]
    yield Case(data.size, ways, data.files + data.plain)


@contextmanager
def transformed_slow(setting: Setting) -> Iterator[Case]:
    """The same expressions by tools that take long, on less."""
    server, data = setting.server, tpch(setting.scale_of(SLOW_SCALE), 4)
    ways = [
        Way(
            "fullbore direct, five expressions and a filter",
            lambda: ours.into_existing(server, data, *REPLACE, *EXPRESSIONS, method="direct"),
        ),
        Way("psql, 2 sessions, as it is", lambda: psql.one_table(server, data, 2)),
    ]
    notes = [
        "In transformed-slow, sling and dlt load rows as they are: they compute less than we do."
    ]
    case = Case(data.size, ways, data.files + data.plain, notes=notes)
    case.add("sling, as it is", lambda: sling(server, data))
    case.add("dlt, as it is", lambda: dlt(server, data))
    case.add("Spark JDBC, the same", lambda: spark(server, data, SELECT, WHERE))
    yield case


def _parts() -> Path:
    """The first parts of TPC-H: their key and their size."""
    source = tpch("1", 4, "part").files
    path = source[0].parent / "part-sizes.csv"
    if not path.exists():
        rows = run_text(["cut", "-d|", "-f1,6", *map(str, source)]).splitlines()
        with path.open("w") as out:
            out.write("p_partkey,p_size\n")
            out.writelines(row.replace("|", ",") + "\n" for row in rows[:LOOKUP_ROWS])
    return path


def _job(files: list[Path], parts: Path) -> Path:
    """Puts a part's size in the place of its supplier."""
    path = files[0].parent / "looked-up.toml"
    listed = ", ".join(f'"{file}"' for file in files)
    path.write_text(f"""\
[[table]]
name = "lineitem"
format = "tbl"
publish = "replace"
sources = [{listed}]

[table.select]
l_suppkey = "part.p_size"

[[table.lookup]]
name = "part"
sources = "{parts}"
key = {{ p_partkey = "l_partkey" }}
default = {{ p_size = "0" }}
""")
    return path
