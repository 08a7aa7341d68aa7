"""Databases that are loaded into, read back by their own clients."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fullbore
import pytest
from stores import free_port

Rows = list[tuple[Any, ...]]
DATABASES = itertools.count(1)


DRIVERS = Path(__file__).parents[2] / ".cache" / "drivers"
HAS_DUCKDB = (DRIVERS / "libduckdb.so").exists() and sys.version_info >= (3, 11)
NEEDS_DUCKDB = pytest.mark.skipif(
    not HAS_DUCKDB, reason="DUCKDB'S LIBRARY IS MISSING: make databases"
)


def needs(package: str, name: str) -> pytest.MarkDecorator:
    """Skips where pip could not install a driver."""
    reason = f"{name}'S DRIVER IS MISSING: make databases"
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=reason)


NEEDS_SQLITE = needs("adbc_driver_sqlite", "SQLITE")
NEEDS_POSTGRES = needs("adbc_driver_postgresql", "POSTGRESQL")

NEEDS_MARIADB = pytest.mark.skipif(
    shutil.which("mariadb-install-db") is None, reason="MARIADB IS MISSING: make databases"
)


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [str(fullbore.find_command()), *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )


def run(*arguments: str, code: int = 0) -> str:
    """What the command says, ending with a code."""
    process = start(*arguments)
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, f"{arguments}: {process.returncode}\n{out}\n{err}"
    return out + err


class MariaDb:
    """A server of the tests' own."""

    def __init__(self, home: Path) -> None:
        self.home = home
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
        self.start()
        self.sql(
            "CREATE USER loader@'127.0.0.1' IDENTIFIED BY 'sec ret';"
            " GRANT ALL ON *.* TO loader@'127.0.0.1'"
        )

    def start(self) -> None:
        where = [*self.user, f"--datadir={self.home}/data", f"--socket={self.socket}"]
        with (self.home / "log").open("a") as log:
            self.process = subprocess.Popen(
                [
                    *("mariadbd", "--no-defaults", *where, f"--pid-file={self.home}/pid"),
                    *(f"--port={self.port}", "--bind-address=127.0.0.1", "--local-infile=1"),
                ],
                stdout=log,
                stderr=log,
            )
        for _ in range(150):
            if self.client("-e", "SELECT 1").returncode == 0:
                break
            time.sleep(0.2)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

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


def load(place: Place, source: object, *options: str, code: int = 0) -> str:
    return run("load", str(source), "--to", place.to, *options, code=code)


def summary(*arguments: str, code: int = 0) -> dict[str, Any]:
    """What the command prints as JSON."""
    process = start("load", *arguments, "--json", "--quiet")
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, f"{arguments}: {process.returncode}\n{out}\n{err}"
    return json.loads(out)
