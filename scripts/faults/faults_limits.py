"""Connections that the server refuses for a while, a primary that only reads for a moment, a
session that is ended while it publishes: all of them are waited for."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import suppress
from typing import ClassVar

import checks
import promises
from company import Company
from load import LOADED, Command, record_of
from places import Failed, Wrong
from promises import Told
from server import DATABASE, Server
from trial import Trial
from ways import TARGET

ROLE = "loader"
OWN = f"""
    DO $$ BEGIN CREATE ROLE {ROLE} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
    GRANT CREATE ON DATABASE {DATABASE} TO {ROLE};
    GRANT USAGE, CREATE ON SCHEMA public TO {ROLE};
    GRANT USAGE ON SCHEMA fullbore, fullbore_ledger TO {ROLE};
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fullbore_ledger TO {ROLE};
    GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA fullbore TO {ROLE};
    SELECT format('ALTER TABLE %s OWNER TO {ROLE}', relid::regclass)
      FROM pg_partition_tree('{TARGET}') UNION ALL
    SELECT 'ALTER TABLE {TARGET} OWNER TO {ROLE}'"""
ENDED = f"""
    SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
     WHERE datname = '{DATABASE}' AND usename = '{ROLE}' AND application_name <> 'fault'
     ORDER BY md5(pid || '{{seed}}') {{limit}}) AS theirs"""


class Crowd:
    """Sessions that take up every connection."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.sockets: list[socket.socket] = []

    def come(self) -> None:
        """Opens sessions until there are no more to be had."""
        while self._open():
            pass

    def _open(self) -> bool:
        one = socket.socket(socket.AF_UNIX)
        one.settimeout(10)
        one.connect(str(self.server.socket_dir / ".s.PGSQL.5432"))
        names = {"user": ROLE, "database": DATABASE, "application_name": "fault"}
        words = b"".join(f"{k}\0{v}\0".encode() for k, v in names.items()) + b"\0"
        one.sendall(struct.pack("!ii", len(words) + 8, 196608) + words)
        # Who is let in may still be told that there is no room.
        answer = one.makefile("rb")
        while (kind := answer.read(1)) not in (b"Z", b"E", b""):
            answer.read(struct.unpack("!i", answer.read(4))[0] - 4)
        if kind == b"Z":
            self.sockets.append(one)
            return True
        one.close()
        return False

    def go(self) -> None:
        for one in self.sockets:
            one.close()
        self.sockets.clear()


class Limits(Company):
    """Each limit is lifted within the time that the load was told to wait, or is not."""

    name = "limits"
    VARIANTS = ("role", "connections", "database", "read-only", "publisher")
    BEGUN: ClassVar[dict[str, str]] = {
        "role": f"ALTER ROLE {ROLE} CONNECTION LIMIT 0",
        "database": f"ALTER DATABASE {DATABASE} CONNECTION LIMIT 0",
        "read-only": f"ALTER ROLE {ROLE} SET default_transaction_read_only = on",
    }
    LIFTED = (
        f"ALTER ROLE {ROLE} CONNECTION LIMIT -1; ALTER DATABASE {DATABASE} CONNECTION LIMIT -1;"
        f"ALTER ROLE {ROLE} RESET default_transaction_read_only"
    )

    def run(self, trial: Trial, duration: float) -> None:
        self.limit = self.variant(trial)
        self.is_lifted = self.limit == "publisher" or trial.rng.random() < 0.7
        trial.facts.update(limit=self.limit, lifted=self.is_lifted)
        self.crowd: Crowd | None = None
        ended = trial.strike(duration)
        self.lift(trial)
        self.held.may_be_more = True
        told = self.check(trial, ended)
        if self.limit in ("role", "database") and "max_connections" in ended.said:
            raise Wrong(f"{self.limit}: it advises about another limit: {told}")
        if ended.code != LOADED and self.is_lifted and self.has_begun:
            raise Wrong(f"{self.limit}: it was not waited for: {told}")
        self.as_said(trial, told)

    def prepare(self, trial: Trial) -> None:
        setting = trial.setting
        setting.url = setting.url.replace("//postgres@", f"//{ROLE}@")
        setting.options += ["--retry-for", "40" if self.is_lifted else "2"]

    def ready(self, trial: Trial) -> None:
        super().ready(trial)
        server = trial.setting.server
        if server.sql("SELECT to_regnamespace('fullbore_ledger') IS NULL") == "t":
            self.make_ledger(trial)
        for statement in server.sql(OWN).splitlines():
            server.sql(statement)
        self.crowd = Crowd(server)

    def make_ledger(self, trial: Trial) -> None:
        """Its tables belong to a superuser, as those of other trials do."""
        server = trial.setting.server
        name = trial.setting.home / "one.csv"
        name.write_text("1\n")
        arguments = ["load", str(name), "--to", server.url, "--table", "one", "--create"]
        ended = Command(trial.setting.home, [*arguments, "--header", "none"], ()).end()
        checks.require(ended.code == LOADED, ended.said)
        server.sql("DROP TABLE one; TRUNCATE fullbore_ledger.runs CASCADE")

    def strike(self, trial: Trial, load: Command) -> None:
        server = trial.setting.server
        while not record_of(trial.setting.home) and not load.has_ended():
            time.sleep(0.002)
        if self.limit == "publisher":
            while not load.has_ended() and self.rows(server) < self.held.rows:
                pass
            load.wait_until(load.age() + trial.rng.random() * 0.15)
            self.has_begun = True
            self.end_sessions(trial, "")
            return
        self.has_begun = checks.ledger_state(server)[0] in ("loading", "published", "finished")
        if self.limit == "connections":
            self.crowd.come()
        else:
            server.sql(self.BEGUN[self.limit])
        self.end_sessions(trial, trial.rng.choice(("LIMIT 1", "LIMIT 1", "")))
        if self.limit == "connections":
            # What had just become free.
            self.crowd.come()
        if self.is_lifted:
            load.wait_until(load.age() + 0.3 + trial.rng.random() * 3)
            self.lift(trial)

    def rows(self, server: Server) -> int:
        return sum(run.rows for run in promises.ledger(server))

    def end_sessions(self, trial: Trial, limit: str) -> None:
        ended = trial.setting.server.sql(ENDED.format(seed=trial.rng.random(), limit=limit))
        trial.facts["sessions_ended"] = int(ended)

    def lift(self, trial: Trial) -> None:
        if self.crowd is not None:
            self.crowd.go()
        trial.setting.server.sql(self.LIFTED)

    def end(self, trial: Trial) -> None:
        with suppress(Failed, AttributeError):
            self.lift(trial)

    def check(self, trial: Trial, ended, before=None) -> Told:
        trial.facts.setdefault("said", ended.said[:600])
        return super().check(trial, ended, before)
