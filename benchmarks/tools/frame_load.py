"""Loads a frame that is in memory. ``frame_load.py DESCRIPTION URL WAY FRAME.parquet [ROWS]``.

The ways are ``fullbore-direct``, ``fullbore-copy`` and ``adbc``, each of a pyarrow table or, with
``-polars`` behind it, of a polars frame; ``to_sql`` and ``to_sql-multi`` of a pandas one. Prints
what the load alone took, and what memory it added to that of the frame.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from source import described


def resident() -> int:
    """Bytes that this process has in memory."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


def peak_of(work: Callable[[], object]) -> tuple[float, float, int]:
    """Seconds, CPU seconds and the peak of what memory work adds."""
    before, peak, done = resident(), 0, threading.Event()

    def look() -> None:
        nonlocal peak
        while not done.wait(0.02):
            peak = max(peak, resident())

    watcher = threading.Thread(target=look)
    watcher.start()
    used = resource.getrusage(resource.RUSAGE_SELF)
    began = time.monotonic()
    try:
        work()
    finally:
        done.set()
    seconds = time.monotonic() - began
    now = resource.getrusage(resource.RUSAGE_SELF)
    watcher.join()
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return seconds, cpu, max(0, peak - before)


def fullbore_load(frame: Any, table: str, url: str, method: str) -> Callable[[], object]:
    """Into the table that is there, in place of its rows: the direct method fills new tables."""
    import fullbore

    options: dict[str, Any] = {"method": method, "statistics": "none", "verify": "count"}
    publish = "replace" if method == "direct" else "append"
    return lambda: fullbore.load(frame, to=url, table=table, publish=publish, **options)


def adbc_load(frame: Any, table: str, url: str) -> Callable[[], object]:
    """ADBC's ingest, in one transaction."""
    import adbc_driver_postgresql.dbapi as adbc

    def load() -> None:
        with adbc.connect(url) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest(table, frame, mode="append")
            connection.commit()

    return load


def pandas_load(frame: Any, table: str, url: str, method: str | None) -> Callable[[], object]:
    """pandas' to_sql through SQLAlchemy and psycopg."""
    from decimal import Decimal

    from sqlalchemy import Numeric, create_engine

    # As text, which is how it sends decimals otherwise, the server does not take them.
    decimals = [name for name, column in frame.items() if isinstance(column.iloc[0], Decimal)]
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
    rows = 1000 if method else None
    kinds = dict.fromkeys(decimals, Numeric())
    return lambda: frame.to_sql(
        table, engine, if_exists="append", index=False, method=method, chunksize=rows, dtype=kinds
    )


def main() -> None:
    """Loads in one way."""
    import pyarrow.parquet as pq

    source, url, way, path = described(), *sys.argv[2:5]
    table = pq.read_table(path)
    if len(sys.argv) > 5:
        table = table.slice(0, int(sys.argv[5]))
    frame: Any = table
    if way.endswith("-polars"):
        import polars

        frame = polars.from_arrow(table)
    if way.startswith("fullbore"):
        work = fullbore_load(frame, source.table, url, way.split("-")[1])
    elif way.startswith("adbc"):
        work = adbc_load(frame, source.table, url)
    else:
        method = "multi" if way.endswith("multi") else None
        work = pandas_load(frame.to_pandas(), source.table, url, method)
    seconds, cpu, memory = peak_of(work)
    print(json.dumps({"seconds": seconds, "cpu": cpu, "memory": memory, "bytes": table.nbytes}))


if __name__ == "__main__":
    main()
