"""Databases that are loaded into, read back by their own clients."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

from stores import free_port

Rows = list[tuple[Any, ...]]
DATABASES = itertools.count(1)


class MariaDb:
    """A server of the tests' own."""

    def __init__(self, home: Path) -> None:
        self.socket = home / "s.sock"
        self.port = free_port()
        # The server refuses root.
        self.user = ["--user=nobody"] if os.geteuid() == 0 else []
        if self.user:
            shutil.chown(home, "nobody")
        data = f"--datadir={home}/data"
        made = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", *self.user, data, *made],
            check=True,
            capture_output=True,
        )
        with (home / "log").open("w") as log:
            self.process = subprocess.Popen(
                [
                    *("mariadbd", "--no-defaults", *self.user, data, f"--socket={self.socket}"),
                    *(f"--port={self.port}", "--bind-address=127.0.0.1", "--local-infile=1"),
                    f"--pid-file={home}/pid",
                ],
                stdout=log,
                stderr=log,
            )
        for _ in range(150):
            if self.client("-e", "SELECT 1").returncode == 0:
                break
            time.sleep(0.2)
        self.sql(
            "CREATE USER loader@'127.0.0.1' IDENTIFIED BY 'sec ret';"
            " GRANT ALL ON *.* TO loader@'127.0.0.1'"
        )

    def client(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["mariadb", "--no-defaults", "-uroot", f"--socket={self.socket}", "-N", "-B"]
        command.append("--default-character-set=utf8mb4")
        return subprocess.run([*command, *arguments], capture_output=True, encoding="utf-8")

    def sql(self, statement: str, database: str = "mysql") -> Rows:
        ended = self.client("--init-command=SET time_zone = '+00:00'", database, "-e", statement)
        assert ended.returncode == 0, ended.stderr
        number = re.compile(r"-?[0-9]{1,18}")
        return [
            tuple(
                int(value) if number.fullmatch(value) else None if value == "NULL" else value
                for value in line.split("\t")
            )
            for line in ended.stdout.splitlines()
        ]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


class Place:
    """A database of the test's own: in a file, or at a server."""

    def __init__(self, scheme: str, folder: Path, maria: MariaDb | None = None) -> None:
        self.scheme = scheme
        self.file = folder / f"target.{scheme}"
        self.to = f"{scheme}:{self.file}"
        self.maria = maria
        if maria is not None:
            self.database = f"d{next(DATABASES)}"
            maria.sql(f"CREATE DATABASE {self.database} CHARACTER SET utf8mb4")
            self.to = f"mysql://loader:sec%20ret@127.0.0.1:{maria.port}/{self.database}"

    def sql(self, statement: str) -> Rows:
        """The rows of a statement, by the database's own library."""
        if self.scheme == "duckdb":
            import duckdb

            with duckdb.connect() as session:
                session.execute("SET TimeZone = 'UTC'")
                # A form that the library of the tests reads, which is older.
                session.execute(f"ATTACH '{self.file}' AS own (STORAGE_VERSION 'v1.4.0'); USE own")
                for part in statement.split(";"):
                    answer = session.execute(part)
                return answer.fetchall()
        if self.maria is not None:
            return self.maria.sql(statement.replace(";;", ";"), self.database)
        session = sqlite3.connect(self.file)
        try:
            for part in statement.split(";;"):
                rows = session.execute(part).fetchall()
            session.commit()
            return rows
        finally:
            session.close()

    def names(self) -> list[str]:
        """The tables that there are, but for those of the ledger."""
        of = {
            "duckdb": "SELECT table_name FROM duckdb_tables()",
            "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
            "mysql": "SHOW TABLES",
        }[self.scheme]
        return sorted(name for (name,) in self.sql(of) if not name.startswith("fullbore_"))
