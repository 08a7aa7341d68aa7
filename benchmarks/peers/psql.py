"""psql's COPY, as it is used every day and as an expert uses it."""

from __future__ import annotations

from pathlib import Path

from lab import FULLBORE, Measured, Server, run_measured


def _psql() -> list[str]:
    return [str(FULLBORE), "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1"]


def one_table(server: Server, schema: str, files: list[Path], sessions: int) -> Measured:
    """Several sessions into one table that is there already."""
    server.sql(schema.format(table="lineitem"))
    commands = []
    for number in range(sessions):
        mine = files[number::sessions]
        copies = "\n".join(f"\\copy lineitem FROM '{path}' (DELIMITER '|')" for path in mine)
        commands.append((_psql(), _script(f"one-{number}", copies)))
    return run_measured(server, commands)


def own_tables(server: Server, schema: str, files: list[Path], sessions: int) -> Measured:
    """The expert's way: a table for each session, made in the transaction, FREEZE."""
    commands = []
    for number in range(sessions):
        table = f"lineitem_{number}"
        mine = files[number::sessions]
        copies = "\n".join(f"\\copy {table} FROM '{path}' (DELIMITER '|', FREEZE)" for path in mine)
        text = f"BEGIN;\n{schema.format(table=table)};\n{copies}\nCOMMIT;"
        commands.append((_psql(), _script(f"own-{number}", text)))
    return run_measured(server, commands)


def _script(name: str, text: str) -> str:
    from lab import DATA

    path = DATA / f"{name}.sql"
    path.write_text(text + "\n")
    return str(path)
