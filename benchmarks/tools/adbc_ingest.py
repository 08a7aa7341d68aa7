"""ADBC: pyarrow reads, the driver sends COPY binary. ``adbc_ingest.py DESCRIPTION URL``."""

from __future__ import annotations

import sys

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
from source import arrow_batches, arrow_schema, described

if __name__ == "__main__":
    source = described()
    reader = pa.RecordBatchReader.from_batches(arrow_schema(source), arrow_batches(source))
    with adbc.connect(sys.argv[2]) as connection, connection.cursor() as cursor:
        print(cursor.adbc_ingest(source.table, reader, mode="append"))
        connection.commit()
