"""Peers that are Python libraries: each runs its script of `tools` in its own environment."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from data import DataSet
from lab import HERE, SCRATCH, Measured
from measure import Command, run_measured
from server import Server
from wheels import python_with

Load = Callable[[], Measured]
TOOLS = HERE / "tools"


def parser(name: str, server: Server, data: DataSet) -> Load:
    """Parse only: duckdb, pyarrow or polars."""
    command = [python_with(name), str(TOOLS / "parse.py"), data.described(), name]
    return lambda: run_measured(server, [(command, None)])


def duckdb(server: Server, data: DataSet, then: list[list[Command]] | None = None) -> Load:
    """DuckDB's PostgreSQL writer."""
    python = python_with("duckdb_extension_postgres_scanner", "requirements-duckdb-writer.txt")
    return _loading(server, data, python, "duckdb_write.py", then)


def adbc(server: Server, data: DataSet, then: list[list[Command]] | None = None) -> Load:
    """pyarrow reading, ADBC ingesting."""
    return _loading(server, data, python_with("adbc_driver_postgresql"), "adbc_ingest.py", then)


def polars(server: Server, data: DataSet) -> Load:
    """polars' write_database."""
    python_with("adbc_driver_postgresql")
    return _loading(server, data, python_with("polars"), "polars_write.py")


def dlt(server: Server, data: DataSet) -> Load:
    """dlt's pipeline, from scratch each time; it makes its table itself."""
    python = python_with("dlt")
    folder = SCRATCH / "dlt"

    def load() -> Measured:
        shutil.rmtree(folder, ignore_errors=True)
        script = str(TOOLS / "dlt_load.py")
        command = [python, script, data.described(), server.url, str(folder)]
        return run_measured(server, [(command, None)])

    return load


def _loading(
    server: Server,
    data: DataSet,
    python: str,
    script: str,
    then: list[list[Command]] | None = None,
) -> Load:
    def load() -> Measured:
        server.sql(data.create())
        command = [python, str(TOOLS / script), data.described(), server.url]
        return run_measured(server, [(command, None)], then=then or ())

    return load
