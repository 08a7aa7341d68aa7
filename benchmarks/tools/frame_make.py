"""Writes a data set as Parquet, for ``frame_load.py``. ``frame_make.py DESCRIPTION FILE``."""

from __future__ import annotations

import sys

import pyarrow.parquet as pq
from source import arrow_batches, arrow_schema, described

if __name__ == "__main__":
    source = described()
    with pq.ParquetWriter(sys.argv[2], arrow_schema(source)) as writer:
        for batch in arrow_batches(source):
            writer.write_batch(batch)
