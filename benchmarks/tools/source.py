"""Reads a data set as it was described to us, with pyarrow, polars or DuckDB.

The files in this folder run in a peer's own Python, each in a process of its own, so that their
CPU and memory are their own. Their arguments are a description (see `DataSet.described`) and,
where they load, a PostgreSQL URL.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass
class Source:
    """What `DataSet.described` says."""

    table: str
    columns: dict[str, str]
    files: list[str]
    delimiter: str
    quote: str
    header: bool


def described() -> Source:
    """The data set that the first argument describes."""
    return Source(**json.loads(sys.argv[1]))


def decimal_of(kind: str) -> tuple[int, int] | None:
    """Precision and scale, if the kind is a decimal."""
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return (int(found[1]), int(found[2])) if found else None


def arrow_schema(source: Source) -> Any:
    """The columns as pyarrow's types."""
    import pyarrow as pa

    plain = {
        "int64": pa.int64(),
        "int32": pa.int32(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
        "text": pa.string(),
    }
    fields = []
    for name, kind in source.columns.items():
        decimal = decimal_of(kind)
        fields.append((name, pa.decimal128(*decimal) if decimal else plain[kind]))
    return pa.schema(fields)


def arrow_batches(source: Source) -> Iterator[Any]:
    """pyarrow's streaming CSV reader, file by file."""
    from pyarrow import csv

    schema = arrow_schema(source)
    for path in source.files:
        with csv.open_csv(
            path,
            read_options=csv.ReadOptions(
                column_names=list(source.columns), skip_rows=int(source.header)
            ),
            parse_options=csv.ParseOptions(
                delimiter=source.delimiter,
                quote_char=source.quote or False,
                newlines_in_values=bool(source.quote),
            ),
            convert_options=csv.ConvertOptions(
                column_types=schema,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        ) as reader:
            yield from reader


def polars_frame(source: Source, path: str) -> Any:
    """One file as polars reads it."""
    import polars as pl

    plain = {
        "int64": pl.Int64,
        "int32": pl.Int32,
        "float64": pl.Float64,
        "bool": pl.Boolean,
        "date": pl.Date,
        "timestamp": pl.Datetime("us"),
        "text": pl.String,
    }
    schema = {}
    for name, kind in source.columns.items():
        decimal = decimal_of(kind)
        schema[name] = pl.Decimal(*decimal) if decimal else plain[kind]
    return pl.read_csv(
        path,
        separator=source.delimiter,
        has_header=source.header,
        schema=schema,
        quote_char=source.quote or None,
    )


def duckdb_scan(source: Source) -> str:
    """DuckDB's scan of all files, as SQL."""
    plain = {
        "int64": "BIGINT",
        "int32": "INTEGER",
        "float64": "DOUBLE",
        "bool": "BOOLEAN",
        "date": "DATE",
        "timestamp": "TIMESTAMP",
        "text": "VARCHAR",
    }
    columns = ", ".join(
        f"'{name}': '{plain.get(kind, kind.upper())}'" for name, kind in source.columns.items()
    )
    return (
        f"read_csv({source.files!r}, delim='{source.delimiter}', header={source.header},"
        f" quote='{source.quote}', escape='{source.quote}', columns={{{columns}}},"
        f" auto_detect=false, max_line_size=1048576)"
    )
