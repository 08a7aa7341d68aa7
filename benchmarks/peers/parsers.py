"""Parse only, typed, both cores: each in a process of its own, so that its memory is its own.

Run as a script: ``parsers.py NAME FILE...``.
"""

from __future__ import annotations

import sys

COLUMNS = {
    "l_orderkey": "int64",
    "l_partkey": "int64",
    "l_suppkey": "int64",
    "l_linenumber": "int32",
    "l_quantity": "decimal",
    "l_extendedprice": "decimal",
    "l_discount": "decimal",
    "l_tax": "decimal",
    "l_returnflag": "text",
    "l_linestatus": "text",
    "l_shipdate": "date",
    "l_commitdate": "date",
    "l_receiptdate": "date",
    "l_shipinstruct": "text",
    "l_shipmode": "text",
    "l_comment": "text",
}


def duckdb(files: list[str]) -> int:
    """DuckDB's scan; the sums touch every column."""
    import duckdb as engine

    kinds = {"int64": "BIGINT", "int32": "INTEGER", "decimal": "DECIMAL(15,2)", "date": "DATE"}
    columns = ", ".join(
        f"'{name}': '{kinds.get(kind, 'VARCHAR')}'" for name, kind in COLUMNS.items()
    )
    touched = ", ".join(
        f"sum(length({name}))" if kind == "text" else f"max({name})"
        for name, kind in COLUMNS.items()
    )
    rows = engine.sql(
        f"SELECT count(*), {touched} FROM read_csv({files!r}, delim='|', header=false, quote='',"
        f" columns={{{columns}}})"
    ).fetchall()[0]
    return rows[0]


def pyarrow(files: list[str]) -> int:
    """pyarrow's CSV reader, file by file."""
    import pyarrow as pa
    from pyarrow import csv

    kinds = {
        "int64": pa.int64(),
        "int32": pa.int32(),
        "decimal": pa.decimal128(15, 2),
        "date": pa.date32(),
        "text": pa.string(),
    }
    rows = 0
    for path in files:
        with csv.open_csv(
            path,
            read_options=csv.ReadOptions(column_names=list(COLUMNS)),
            parse_options=csv.ParseOptions(delimiter="|", quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types={name: kinds[kind] for name, kind in COLUMNS.items()}
            ),
        ) as reader:
            rows += sum(batch.num_rows for batch in reader)
    return rows


def polars(files: list[str]) -> int:
    """polars' CSV reader."""
    import polars as pl

    kinds = {"int64": pl.Int64, "int32": pl.Int32, "decimal": pl.Decimal(15, 2), "date": pl.Date}
    schema = {name: kinds.get(kind, pl.String) for name, kind in COLUMNS.items()}
    return sum(
        pl.read_csv(path, separator="|", has_header=False, schema=schema, quote_char=None).height
        for path in files
    )


if __name__ == "__main__":
    print({"duckdb": duckdb, "pyarrow": pyarrow, "polars": polars}[sys.argv[1]](sys.argv[2:]))
