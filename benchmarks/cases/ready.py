"""Rows to tables that are ready to be queried: with keys, indexes and statistics."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data import TABLES, DataSet, generated, tpch
from lab import DATA, Case, Measured, Way, run_text
from measure import Command, run_measured
from peers import ours, psql, wheel_tools
from server import Server, program

from cases.setting import Setting, replica

INDEXES = ("l_shipdate", "l_partkey, l_suppkey")
KEY = "l_orderkey, l_linenumber"
MEMORY = "SET maintenance_work_mem = '2GB';\n"

KEYS = {
    "region": "r_regionkey",
    "nation": "n_nationkey",
    "supplier": "s_suppkey",
    "customer": "c_custkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey, ps_suppkey",
    "orders": "o_orderkey",
    "lineitem": KEY,
}
# Table, its columns, and what they refer to.
REFERENCES = (
    ("nation", "n_regionkey", "region"),
    ("supplier", "s_nationkey", "nation"),
    ("customer", "c_nationkey", "nation"),
    ("partsupp", "ps_partkey", "part"),
    ("partsupp", "ps_suppkey", "supplier"),
    ("orders", "o_custkey", "customer"),
    ("lineitem", "l_orderkey", "orders"),
    ("lineitem", "l_partkey, l_suppkey", "partsupp"),
)


def _key(table: str, columns: str) -> str:
    return f"ALTER TABLE {table} ADD PRIMARY KEY ({columns});\n"


def _reference(table: str, columns: str, other: str) -> str:
    return f"ALTER TABLE {table} ADD FOREIGN KEY ({columns}) REFERENCES {other};\n"


def _indexes(table: str) -> list[str]:
    return [f"CREATE INDEX ON {table} ({columns});\n" for columns in INDEXES]


@contextmanager
def ready(setting: Setting) -> Iterator[Case]:
    """lineitem with its primary key and two more indexes, wal_level=minimal."""
    with _lineitem(setting, setting.server) as case:
        yield case


@contextmanager
def ready_replica(setting: Setting) -> Iterator[Case]:
    """The same under wal_level=replica."""
    with replica() as server, _lineitem(setting, server) as case:
        case.server = server
        case.notes.append("ready-replica ran under wal_level=replica, for all of its ways.")
        yield case
        server.clear()


@contextmanager
def _lineitem(setting: Setting, server: Server) -> Iterator[Case]:
    data = tpch(setting.scale, 4)
    by_index, by_shape = _then(server, "lineitem"), _then_own(server)
    ways = [
        Way("fullbore direct, partitions", lambda: _ours(server, data, "partitions", "direct")),
        Way("fullbore copy, partitions", lambda: _ours(server, data, "partitions", "copy")),
        Way("psql, expert, 2 tables", lambda: psql.own_tables(server, [data], 2, by_shape())),
        Way("fullbore direct, one table", lambda: _ours(server, data, "replace", "direct")),
        Way("fullbore copy, one table", lambda: _ours(server, data, "replace", "copy")),
        Way(
            "psql, expert, one table",
            lambda: psql.one_table(server, data, 2, by_index()),
            beside="fullbore direct, one table",
        ),
    ]
    case = Case(data.size, ways, data.files + data.plain)
    dump = _dump(setting, server, data)
    ways.append(
        Way(
            "pg_restore -j 2",
            lambda: _restored(server, dump),
            beside="fullbore direct, one table",
        )
    )
    case.add("DuckDB, then psql", lambda: wheel_tools.duckdb(server, data, by_index()))
    case.add("ADBC, then psql", lambda: wheel_tools.adbc(server, data, by_index()))
    for way in ways[-2:]:
        way.beside = "fullbore direct, one table"
    try:
        yield case
    finally:
        shutil.rmtree(dump, ignore_errors=True)


def _ours(server: Server, data: DataSet, publish: str, method: str) -> Measured:
    create = data.create()
    if publish == "partitions":
        create = create.rstrip() + " PARTITION BY RANGE (l_orderkey)"
    server.sql(f"{create};\n{_key(data.table, KEY)}{''.join(_indexes(data.table))}")
    options = ("--table", data.table, *data.ours, "--publish", publish, "--method", method)
    return ours.ready(server, *options, "--", *map(str, data.files))


def _then(server: Server, table: str):
    """What makes one table ready: indexes in two sessions, then VACUUM FREEZE ANALYZE."""

    def phases() -> list[list[Command]]:
        first, *others = [_key(table, KEY), *_indexes(table)]
        texts = [MEMORY + first, MEMORY + "".join(others)]
        vacuum = [f"VACUUM (FREEZE, ANALYZE) {table};"]
        return [psql.scripts(server, texts, "index"), psql.scripts(server, vacuum, "vacuum")]

    return phases


def _then_own(server: Server):
    """The same for two tables, a session each."""

    def phases() -> list[list[Command]]:
        tables = ("lineitem_0", "lineitem_1")
        texts = [MEMORY + _key(one, KEY) + "".join(_indexes(one)) for one in tables]
        vacuum = [f"VACUUM (FREEZE, ANALYZE) {one};" for one in tables]
        return [psql.scripts(server, texts, "index"), psql.scripts(server, vacuum, "vacuum")]

    return phases


def _dump(setting: Setting, server: Server, data: DataSet):
    """What pg_restore reads: the table with its indexes, uncompressed."""
    folder = DATA / f"dump-{setting.scale}"
    shutil.rmtree(folder, ignore_errors=True)
    server.clear()
    _ours(server, data, "replace", "direct")
    command = [program("pg_dump"), "--format=directory", "--compress=0", "--jobs=2"]
    run_text([*command, f"--file={folder}", "--table=lineitem", f"--dbname={server.url}"])
    server.clear()
    return folder


def _restored(server: Server, dump) -> Measured:
    command = [program("pg_restore"), "--jobs=2", f"--dbname={server.url}", str(dump)]
    vacuum = psql.scripts(server, ["VACUUM (FREEZE, ANALYZE) lineitem;"], "vacuum")
    env = {"PGOPTIONS": "-c maintenance_work_mem=2GB"}
    return run_measured(server, [(command, None)], env=env, then=[vacuum])


def with_keys(sets: list[DataSet]) -> str:
    """What makes tables of TPC-H with their primary and foreign keys."""
    made = [data.create() + ";\n" + _key(data.table, KEYS[data.table]) for data in sets]
    return "".join(made) + "".join(_reference(*one) for one in REFERENCES)


def replacing(sets: list[DataSet], job: Path) -> Path:
    """Writes a job that replaces all these tables at once."""
    lines = ["tables_at_once = true"]
    for data in sets:
        sources = ", ".join(f'"{path}"' for path in data.files)
        lines += ["[[table]]", f'name = "{data.table}"', f"sources = [{sources}]"]
        lines += ['format = "tbl"', 'publish = "replace"', ""]
    job.write_text("\n".join(lines))
    return job


@contextmanager
def ready_tables(setting: Setting) -> Iterator[Case]:
    """All tables of TPC-H with their primary and foreign keys."""
    server = setting.server
    generated(setting.scale, 4, TABLES)
    sets = [tpch(setting.scale, 4, table) for table in TABLES]
    job = replacing(sets, DATA / f"ready-{setting.scale}.toml")

    def expert() -> Measured:
        server.sql(";\n".join(data.create() for data in sets))
        largest = sorted(sets, key=lambda data: -data.size)
        copies = ["", ""]
        for number, path_of in enumerate((data, path) for data in largest for path in data.plain):
            data, path = path_of
            copies[number % 2] += f"\\copy {data.table} FROM '{path}' ({data.copy})\n"
        keys = [_key(table, KEYS[table]) for table in TABLES if table != "lineitem"]
        indexes = [MEMORY + _key("lineitem", KEY), MEMORY + "".join(keys)]
        vacuum = ["VACUUM (FREEZE, ANALYZE) lineitem;", ""]
        others = [table for table in TABLES if table != "lineitem"]
        vacuum[1] = f"VACUUM (FREEZE, ANALYZE) {', '.join(others)};"
        references = [
            MEMORY + "".join(_reference(*one) for one in REFERENCES if is_of(one[0] == "lineitem"))
            for is_of in (bool, lambda its: not its)
        ]
        then = [
            psql.scripts(server, indexes, "index"),
            psql.scripts(server, vacuum, "vacuum"),
            psql.scripts(server, references, "reference"),
        ]
        return run_measured(server, psql.scripts(server, copies), then=then)

    def loaded() -> Measured:
        server.sql(with_keys(sets))
        return ours.ready(server, str(job))

    ways = [
        Way("fullbore, a job of 8 tables", loaded),
        Way("psql, expert", expert),
    ]
    files = [path for data in sets for path in data.files + data.plain]
    yield Case(sum(data.size for data in sets), ways, files)
