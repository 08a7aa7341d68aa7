"""Fullbore."""

from __future__ import annotations

import json
from pathlib import Path

from data import DataSet
from lab import FULLBORE, Measured
from measure import run_measured, said
from server import Server

# Another build stands here while two are compared.
COMMAND = FULLBORE


def load(
    server: Server, data: DataSet, *options: str, method: str = "copy", to: str = ""
) -> Measured:
    """Loads the files; statistics are left out, as the peers leave them out."""
    to = to or server.url
    wanted = ("--to", to, "--table", data.table, "--method", method, *data.ours, *options)
    return run_measured(server, [(_command(*wanted, "--", *map(str, data.files)), None)])


def into_existing(server: Server, data: DataSet, *options: str, method: str = "copy") -> Measured:
    """Loads the files into a table that is there already."""
    server.sql(data.create())
    return load(server, data, *options, method=method)


def parse(server: Server, data: DataSet, to: str) -> Measured:
    """Parses the files, and encodes the batches where `to` does, and throws all away."""
    wanted = ("--to", to, "--table", data.table, *data.typed())
    return run_measured(server, [(_command(*wanted, "--", *map(str, data.files)), None)])


def job(server: Server, path: Path, method: str = "copy") -> Measured:
    """Runs a job file."""
    return run_measured(
        server, [(_command("--to", server.url, "--method", method, str(path)), None)]
    )


def job_into(server: Server, data: DataSet, path: Path, method: str = "copy") -> Measured:
    """Runs a job file over files that are described, into a table that is there already."""
    server.sql(data.create())
    return job(server, path, method)


def piped(server: Server, data: DataSet, feed: list[str], *options: str) -> Measured:
    """Loads what a command writes; notes how many bytes that was."""
    server.sql(data.create())
    wanted = ("--to", server.url, "--table", data.table, *data.ours, "--json", *options, "-")
    measured = run_measured(server, [(_command(*wanted), None)], feed=feed)
    measured.notes["bytes"] = json.loads(said())["bytes"]
    return measured


def ready(server: Server, *options: str) -> Measured:
    """Loads into tables that are there, with all that makes them ready to be queried."""
    command = [str(COMMAND), "load", "--quiet", "--to", server.url, *options]
    return run_measured(server, [(command, None)])


def _command(*options: str) -> list[str]:
    return [str(COMMAND), "load", "--statistics=none", "--quiet", *options]
