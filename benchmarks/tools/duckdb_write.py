"""DuckDB's scan into its PostgreSQL writer. ``duckdb_write.py DESCRIPTION URL``."""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import duckdb_extension_postgres_scanner as wheel
from source import described, duckdb_scan

if __name__ == "__main__":
    source = described()
    folder = Path(wheel.__file__).parent
    extension = next(folder.rglob("postgres_scanner.duckdb_extension"))
    engine = duckdb.connect()
    engine.load_extension(str(extension))
    engine.execute(f"ATTACH '{sys.argv[2]}' AS server (TYPE postgres)")
    engine.execute(f"INSERT INTO server.public.{source.table} SELECT * FROM {duckdb_scan(source)}")
