"""psql's COPY, as it is used every day and as an expert uses it."""

from __future__ import annotations

from pathlib import Path

from data import DataSet, in_parts
from lab import SCRATCH, Measured
from measure import Command, run_measured
from server import Server, psql_command


def one_table(
    server: Server, data: DataSet, sessions: int, then: list[list[Command]] | None = None
) -> Measured:
    """Several sessions into one table that is there already."""
    server.sql(data.create())
    return _run(
        server,
        [
            "\n".join(_copy(data.table, path, data.copy) for path in part.plain)
            for part in in_parts(data, sessions)
        ],
        then,
    )


def own_tables(
    server: Server,
    sets: list[DataSet],
    sessions: int,
    then: list[list[Command]] | None = None,
) -> Measured:
    """The expert's way: for each session a table of its own, made in the transaction, FREEZE."""
    texts = [""] * sessions
    for turn, data in enumerate(sets):
        for number, part in enumerate(in_parts(data, sessions)):
            # Tables of one file go to the sessions in turn.
            session = number if len(data.plain) > 1 else turn % sessions
            table = f"{data.table}_{number}"
            copies = "\n".join(_copy(table, path, f"{data.copy}, FREEZE") for path in part.plain)
            texts[session] += f"BEGIN;\n{data.create(table)};\n{copies}\nCOMMIT;\n"
    return _run(server, texts, then)


def scripts(server: Server, texts: list[str], name: str = "psql") -> list[Command]:
    """A session for each of these scripts."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    commands: list[Command] = []
    for number, text in enumerate(texts):
        script = SCRATCH / f"{name}-{number}.sql"
        script.write_text(text + "\n")
        command = [psql_command(), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", server.url]
        commands.append((command, script))
    return commands


def _copy(table: str, path: Path, options: str) -> str:
    return f"\\copy {table} FROM '{path}' ({options})"


def _run(server: Server, texts: list[str], then: list[list[Command]] | None = None) -> Measured:
    return run_measured(server, scripts(server, texts), then=then or ())
