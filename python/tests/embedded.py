"""An embedded server of the tests' own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import fullbore


class Server:
    """An embedded server of the tests' own."""

    def __init__(self, home: Path) -> None:
        self.environment = {**os.environ, "FULLBORE_HOME": str(home)}
        self.run("server", "start")
        self.url = self.run("server", "url").strip()

    def run(self, *arguments: str, text: str | None = None) -> str:
        """What the command answers."""
        command = [str(fullbore.find_command()), *arguments]
        ended = subprocess.run(
            command, input=text, capture_output=True, encoding="utf-8", env=self.environment
        )
        assert ended.returncode == 0, f"{arguments}: {ended.stderr}"
        return ended.stdout

    def sql(self, statement: str) -> list[list[str]]:
        """The rows that statements give, values as text."""
        said = self.run("psql", "--", "-qAtX", "-F", "\x1f", "-R", "\x1e", "-c", statement)
        return [row.split("\x1f") for row in said.strip("\n").split("\x1e") if row]

    def copy(self, table: str, text: str) -> None:
        """Loads COPY's text into a table, by psql."""
        self.run("psql", "--", "-qX", "-c", f"COPY {table} FROM STDIN", text=text)
