"""Parse only, typed, on all cores: ``parse.py DESCRIPTION NAME``. Prints the rows."""

from __future__ import annotations

import sys

from source import Source, arrow_batches, described, duckdb_scan, polars_frame


def duckdb(source: Source) -> int:
    """DuckDB's scan; the aggregates touch every column."""
    import duckdb as engine

    touched = ", ".join(
        f"sum(length({name}))" if kind == "text" else f"max({name})"
        for name, kind in source.columns.items()
    )
    found = engine.sql(f"SELECT count(*), {touched} FROM {duckdb_scan(source)}").fetchall()
    return found[0][0]


def pyarrow(source: Source) -> int:
    """pyarrow's CSV reader, which streams, and parses a block's columns side by side."""
    return sum(batch.num_rows for batch in arrow_batches(source))


def polars(source: Source) -> int:
    """polars' CSV reader."""
    return sum(polars_frame(source, path).height for path in source.files)


if __name__ == "__main__":
    print({"duckdb": duckdb, "pyarrow": pyarrow, "polars": polars}[sys.argv[2]](described()))
