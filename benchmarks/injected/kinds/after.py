"""What is done for rows to be used takes longer than they do: indexes, statistics, foreign keys."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from trial import DIRECT, PARTITIONS, Load, Stage, kind, table

COLUMNS = ["l_orderkey", "l_partkey", "l_suppkey", "l_comment", "l_shipdate", "l_extendedprice"]
REPLACE = ("--publish", "replace")
# What columns of lineitem may refer to, and how many rows of it there are at scale 1.
OTHERS = {"l_orderkey": 6_000_000, "l_partkey": 200_000, "l_suppkey": 10_000}


@kind
def indexes_after(stage: Stage, draw: Random) -> Iterator[Load]:
    """A replaced table with several indexes, which are built once its rows are there."""
    server = stage.server()
    chosen = draw.sample(COLUMNS, draw.randint(4, 5))
    table(server, "; ".join(f"CREATE INDEX ON lineitem ({column})" for column in chosen))
    yield Load(server, stage.files(300), [*REPLACE, "--streams", "2"], {"indexes": chosen})


@kind
def little_memory(stage: Stage, draw: Random) -> Iterator[Load]:
    """The same with hardly any memory to sort in, one of them on long text."""
    megabytes = draw.randint(1, 4)
    settings = {"maintenance_work_mem": f"{megabytes}MB"}
    server = stage.server(f"memory-{megabytes}", settings=settings)
    chosen = draw.sample(COLUMNS, 5)
    table(server, "; ".join(f"CREATE INDEX ON lineitem ({column})" for column in chosen))
    notes: dict[str, object] = {"indexes": chosen, "megabytes": megabytes}
    yield Load(server, stage.files(300), [*REPLACE, "--streams", "2"], notes)


@kind
def many_partitions(stage: Stage, draw: Random) -> Iterator[Load]:
    """Many small partitions, each of which ANALYZE samples like a large table."""
    server = stage.server()
    options = [*PARTITIONS, "--streams", "2", "--statistics", "analyze", "--piece-size", "2MB"]
    files = stage.files(draw.randint(100, 145))
    yield Load(server, files, options, {"files": len(files)})


@kind
def foreign_keys(stage: Stage, draw: Random) -> Iterator[Load]:
    """A replaced table that refers to others; its rows go by the direct method."""
    server = stage.server()
    server.sql("CREATE EXTENSION IF NOT EXISTS fullbore")
    chosen = ["l_orderkey", *draw.sample(["l_partkey", "l_suppkey"], draw.randint(1, 2))]
    more = []
    for column in chosen:
        other = f"of_{column}"
        more.append(f"DROP TABLE IF EXISTS {other}")
        numbers = f"generate_series(1, {OTHERS[column]})"
        more.append(f"CREATE TABLE {other} AS SELECT k::bigint AS k FROM {numbers} k")
        more.append(f"ALTER TABLE {other} ADD PRIMARY KEY (k)")
        more.append(f"ALTER TABLE lineitem ADD FOREIGN KEY ({column}) REFERENCES {other}")
    table(server, "; ".join(more))
    yield Load(server, stage.files(300), [*REPLACE, *DIRECT], {"keys": chosen})
