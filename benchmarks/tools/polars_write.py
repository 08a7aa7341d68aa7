"""polars: read_csv, then write_database through ADBC. ``polars_write.py DESCRIPTION URL``."""

from __future__ import annotations

import sys

from source import described, polars_frame

if __name__ == "__main__":
    source = described()
    for path in source.files:
        # A file at a time: whole frames are what it writes, and they have to fit in memory.
        polars_frame(source, path).write_database(
            source.table, sys.argv[2], engine="adbc", if_table_exists="append"
        )
