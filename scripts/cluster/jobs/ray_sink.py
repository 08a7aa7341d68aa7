"""A dataset written by our sink: ray_sink.py URL TABLE MODE FOLDER.

With the mode `write_sql` Ray Data's own writer is used.
"""

from __future__ import annotations

import sys
from typing import Any

import fullbore.ray
import ray
from rows import COLUMNS, reading


def psycopg2_connect(url: str) -> Any:
    import psycopg2

    return psycopg2.connect(url)


def main() -> None:
    url, table, mode, folder = sys.argv[1:]
    ray.init(log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = ray.data.read_csv(
        folder,
        **reading(),
        override_num_blocks=12,
    )
    if mode == "write_sql":
        marks = ", ".join(["%s"] * len(COLUMNS))
        rows.write_sql(f"INSERT INTO {table} VALUES ({marks})", lambda: psycopg2_connect(url))
        return
    sink = fullbore.ray.Sink(table, url, mode=mode)
    rows.write_datasink(sink)
    print(sink.result.rows)


if __name__ == "__main__":
    main()
