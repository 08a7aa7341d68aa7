"""Writes a data set as one CSV, as gzip files and as Parquet.

``objects_make.py DESCRIPTION FOLDER``
"""

from __future__ import annotations

import contextlib
import gzip
import sys
from pathlib import Path

import pyarrow.csv as pc
import pyarrow.parquet as pq
from source import arrow_batches, arrow_schema, described

PACKED = 8

if __name__ == "__main__":
    source, folder = described(), Path(sys.argv[2])
    schema = arrow_schema(source)
    bare = pc.WriteOptions(include_header=False)
    with contextlib.ExitStack() as open_files:

        def into(file: object) -> pc.CSVWriter:
            return open_files.enter_context(pc.CSVWriter(file, schema, write_options=bare))

        packed = [
            into(open_files.enter_context(gzip.open(folder / f"packed.{n}.csv.gz", "wb", 1)))
            for n in range(PACKED)
        ]
        whole = into(folder / "one.csv")
        parquet = open_files.enter_context(pq.ParquetWriter(folder / "one.parquet", schema))
        for number, batch in enumerate(arrow_batches(source)):
            whole.write_batch(batch)
            packed[number % PACKED].write_batch(batch)
            parquet.write_batch(batch)
