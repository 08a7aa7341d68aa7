"""Servers that the harness makes, breaks and takes away."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from places import (
    Failed,
    environment,
    folder_for,
    give,
    ordinary_user,
    output_of,
    server_programs,
)

DATABASE = "faults"

SETTINGS = {
    "fsync": "off",
    "shared_buffers": "'128MB'",
    "max_wal_size": "'2GB'",
    "max_connections": "60",
    "lc_messages": "'C'",
    "log_lock_waits": "off",
}


class Server:
    """A data folder and the server on it; in a network namespace where one is named."""

    def __init__(
        self,
        folder: Path,
        name: str,
        settings: dict[str, str],
        namespace: str | None = None,
        address: str | None = None,
        also: tuple[str, ...] = (),
        initdb: tuple[str, ...] = (),
        data: Path | None = None,
    ) -> None:
        self.name = name
        self.namespace = namespace
        self.address = address
        self.programs = server_programs()
        self.folder = folder / name
        self.folder.mkdir()
        self.folder.chmod(0o755)
        self.socket_dir = self.folder / "s"
        self.socket_dir.mkdir()
        self.data = data or self.folder / "data"
        self.data.mkdir(exist_ok=True)
        self.log_file = self.folder / "log"
        for path in (self.socket_dir, self.data, self.folder):
            give(path)
        all_settings = {
            **SETTINGS,
            "listen_addresses": f"'{','.join((address, *also)) if address else ''}'",
            "unix_socket_directories": f"'{self.socket_dir}'",
            **settings,
        }
        self.program("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-k", "-N",
                     "-E", "UTF8", "--locale=C", *initdb)  # fmt: skip
        with (self.data / "postgresql.conf").open("a") as out:
            out.writelines(f"{name} = {value}\n" for name, value in all_settings.items())
        if address is not None:
            access = self.data / "pg_hba.conf"
            for each in (address, *also):
                network = each.rpartition(".")[0] + ".0/24"
                access.write_text(f"host all postgres {network} trust\n{access.read_text()}")
        self.start()
        self.sql(f"CREATE DATABASE {DATABASE}", database="postgres")
        self.sql("CREATE EXTENSION fullbore; CREATE EXTENSION amcheck")

    @property
    def url(self) -> str:
        """Over its unix socket."""
        return f"postgresql://postgres@/{DATABASE}?host={self.socket_dir}"

    @property
    def network_url(self) -> str:
        """Over the network that can be cut."""
        return f"postgresql://postgres@{self.address}:5432/{DATABASE}"

    def program(self, name: str, *arguments: str) -> str:
        return output_of([str(self.programs / name), *arguments], ordinary=True)

    def start(self) -> None:
        """Starts it and waits until it takes connections."""
        command = [str(self.programs / "pg_ctl"), "-D", str(self.data), "-l", str(self.log_file)]
        command += ["-w", "-t", "120", "-s", "start"]
        who = ordinary_user()
        if self.namespace is not None and who is not None:
            inside = [f"--net=/var/run/netns/{self.namespace}", "--setuid", str(who[0])]
            output_of(["nsenter", *inside, "--setgid", str(who[1]), *command])
        else:
            output_of(command, ordinary=True)

    def stop(self, mode: str = "fast") -> None:
        self.program("pg_ctl", "-D", str(self.data), "-w", "-s", "-m", mode, "stop")

    def is_running(self) -> bool:
        with suppress(OSError, ValueError):
            pid = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
            return Path(f"/proc/{pid}").exists()
        return False

    def revive(self, seconds: float = 60) -> None:
        """Brings it back, whether it recovers by itself or has given up."""
        until = time.monotonic() + seconds
        while True:
            try:
                if not self.is_running():
                    self.start()
                self.sql("SELECT 1")
                return
            except Failed:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def sql(self, text: str, database: str = DATABASE) -> str:
        """Runs SQL over the unix socket: rows as lines, columns divided by `|`."""
        command = [str(self.programs / "psql"), "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1"]
        command += ["-h", str(self.socket_dir), "-U", "postgres", "-d", database]
        return output_of(command, f"SET client_min_messages = warning;\n{text}").strip("\n")

    def copy(self, table: str, files: list[Path]) -> None:
        """Plain COPY of files, as psql does it."""
        command = [str(self.programs / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1"]
        command += ["-h", str(self.socket_dir), "-U", "postgres", "-d", DATABASE]
        command += ["-c", f"COPY {table} FROM STDIN (FORMAT csv)"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment()) as psql:
            for path in files:
                with path.open("rb") as content:
                    shutil.copyfileobj(content, psql.stdin, 1 << 20)
            psql.stdin.close()
        if psql.returncode != 0:
            raise Failed(f"plain COPY into {table} ended with {psql.returncode}")

    def log_end(self, characters: int = 4000) -> str:
        with suppress(OSError):
            return self.log_file.read_text(errors="replace")[-characters:]
        return ""

    def close(self) -> None:
        """Ends it and removes its files."""
        if self.is_running():
            with suppress(Failed):
                self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)


def folder_for_servers() -> Path:
    """A new folder for them."""
    return folder_for("fbfaults")
