"""Rows into a table that has their keys: half are new, a tenth unchanged, one in 100 twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from data import DataSet
from lab import DATA, Case, Failed, Measured, Way
from measure import run_measured
from peers import ours, psql
from server import Server

from cases.setting import Setting

# At the standard scale.
TABLE_ROWS = 20_000_000
FILE_ROWS = 2_000_000
FILES = 4
COLUMNS = "id bigint, a int, b text, c numeric(12,2), d timestamp"
SCHEMA = f"CREATE TABLE {{table}} ({COLUMNS})"
# A row of the table has an even key.
AS_IT_IS = (
    "(g % 1000)::int, 'text of row ' || g, (g % 100000) / 100.0::numeric(12,2),"
    " timestamp '2024-01-01' + g * interval '1 s'"
)
SET = ", ".join(f"{column} = excluded.{column}" for column in "abcd")


@contextmanager
def upsert(setting: Setting) -> Iterator[Case]:
    """Method copy, wal_level=minimal, the table in the order of its key."""
    server = setting.server
    rows = int(setting.scaled(TABLE_ROWS))
    data = _data(server, int(setting.scaled(FILE_ROWS)), rows)
    base = _Base(server, rows)
    ways = [
        Way("fullbore upsert", lambda: base.checked(lambda: _ours(server, data))),
        Way(
            "fullbore upsert, four sessions",
            lambda: base.checked(lambda: _ours(server, data, "--streams", "4")),
        ),
        Way(
            "fullbore upsert, one transaction",
            lambda: base.checked(lambda: _ours(server, data, "--atomic")),
        ),
        Way(
            "psql, ON CONFLICT from an unsorted table",
            lambda: base.checked(lambda: _theirs(server, data, UNSORTED)),
        ),
        Way(
            "psql, ON CONFLICT from DISTINCT ON",
            lambda: base.checked(lambda: _theirs(server, data, SORTED)),
        ),
    ]
    try:
        yield Case(data.size, ways, data.files)
    finally:
        server.sql("DROP SCHEMA IF EXISTS kept CASCADE")


class _Base:
    """The table before each way, and what all ways must leave."""

    def __init__(self, server: Server, rows: int) -> None:
        self.server, self.rows, self.sum = server, rows, ""
        made = f"SELECT g * 2::bigint, {AS_IT_IS} FROM generate_series(1, {rows}) g"
        server.sql(
            "SET client_min_messages = warning; DROP SCHEMA IF EXISTS kept CASCADE;"
            f" CREATE SCHEMA kept; {SCHEMA.format(table='kept.base')};"
            f" INSERT INTO kept.base {made}"
        )

    def checked(self, load: Callable[[], Measured]) -> Measured:
        """Loads into a fresh copy of the table, and compares with what the first way made."""
        self.server.sql(
            SCHEMA.format(table="stock") + "; INSERT INTO stock SELECT * FROM kept.base;"
            " ALTER TABLE stock ADD PRIMARY KEY (id)"
        )
        self.server.sql("VACUUM (FREEZE, ANALYZE) stock")
        self.server.sql("CHECKPOINT")
        measured = load()
        found = self.server.sql(
            "SELECT count(*), sum(hashtextextended(stock::text, 0)) FROM stock"
        ).strip()
        self.sum = self.sum or found
        if found != self.sum:
            raise Failed(f"the table is {found}, of the first way it was {self.sum}")
        return measured


def _data(server: Server, rows: int, known: int) -> DataSet:
    """Files in no order; the last row of a key is to stay."""
    folder = DATA / f"upsert-{rows}-{known}"
    files = [folder / f"stock.{number}.csv" for number in range(FILES)]
    if not all(file.exists() for file in files):
        folder.mkdir(parents=True, exist_ok=True)
        step = known // rows
        # The row of a key: every second one is new, every tenth row is as the table has it.
        row = (
            f"SELECT h * {step * 2}::bigint + h % 2, r.* FROM (SELECT h * {step} AS g) AS same,"
            f" LATERAL (SELECT {AS_IT_IS} WHERE h % 10 = 0 UNION ALL"
            " SELECT -1, 'changed ' || n, 1.5, timestamp '2025-01-01' WHERE h % 10 <> 0) AS r"
        )
        # One in a hundred comes twice.
        keys = (
            f"SELECT n, CASE WHEN n > {rows} THEN (n - {rows}) * 100 - 1 ELSE n END AS h"
            f" FROM generate_series(1, {rows + rows // 100}) n"
        )
        lines = f"SELECT one.* FROM ({keys}) AS keys, LATERAL ({row}) AS one"
        for number, file in enumerate(files):
            part = f"{lines} WHERE n % {FILES} = {number} ORDER BY hashint8(n)"
            server.sql(f"\\copy ({part}) TO '{file}' (FORMAT csv)")
    return DataSet(
        table="stock",
        schema=SCHEMA,
        files=files,
        plain=files,
        copy="FORMAT csv",
        ours=("--format", "csv", "--header", "none"),
        delimiter=",",
        quote='"',
    )


def _ours(server: Server, data: DataSet, *options: str) -> Measured:
    return ours.load(server, data, "--publish", "upsert", *options)


UNSORTED = f"""\
DELETE FROM staged a
 USING (SELECT id, max(place) AS place FROM staged GROUP BY id HAVING count(*) > 1) b
 WHERE a.id = b.id AND a.place < b.place;
INSERT INTO stock SELECT id, a, b, c, d FROM staged ON CONFLICT (id) DO UPDATE SET {SET};"""

SORTED = f"""\
INSERT INTO stock SELECT DISTINCT ON (id) id, a, b, c, d FROM staged ORDER BY id, place DESC
    ON CONFLICT (id) DO UPDATE SET {SET};"""


def _theirs(server: Server, data: DataSet, merge: str) -> Measured:
    copies = "\n".join(_copy(path) for path in data.plain)
    text = (
        f"CREATE UNLOGGED TABLE staged ({COLUMNS}, place bigserial);\n{copies}\n{merge}\n"
        "DROP TABLE staged;"
    )
    return run_measured(server, psql.scripts(server, [text]))


def _copy(path: Path) -> str:
    return f"\\copy staged (id, a, b, c, d) FROM '{path}' (FORMAT csv)"
