"""What is killed, and what has to hold afterwards."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import bodies
from loads import SUM, assert_indexes_sound, copy_text, descriptor
from server import Server
from wire import Connection, ServerError

from crash.client import Client, Load
from crash.phases import ABSENT, COMPLETE, EITHER, HEAP, INDEX, Phase
from crash.shim import Shim, wait_until

VICTIMS = ("client", "backend", "postmaster")
SHAPE = "(k int8 NOT NULL, v text)"
ROWS: list[list[str | None]] = [[str(k), f"value {k} " + "x" * 100] for k in range(2000)]
FRAMES = 16
IO = ["", ", IO 'direct'", ", IO 'buffered'"]
ATTEMPTS = 5
SWITCH_NEAR_END = """
    SELECT pg_switch_wal() FROM pg_size_bytes(current_setting('wal_segment_size')) AS segment
    WHERE segment - mod(pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0'), segment) < 1000000"""
SETTINGS = {
    # So that the server asks for syncs, which are moments; the shim does not make them.
    "fsync": "on",
    "restart_after_crash": "on",
    "autovacuum": "off",
    "checkpoint_timeout": "'1h'",
    # So that the loading backend itself writes WAL while it loads.
    "wal_buffers": "'64kB'",
    # So that a commit syncs the larger index, and logs the smaller one.
    "wal_skip_threshold": "'350kB'",
    "shared_buffers": "'16MB'",
}


@dataclass
class Account:
    """What came out, by phase and victim."""

    outcomes: dict[tuple[str, str, str], Counter[str]] = field(default_factory=dict)
    orphans: int = 0
    missed: int = 0

    def add(self, level: str, phase: str, victim: str, outcome: str) -> None:
        self.outcomes.setdefault((level, phase, victim), Counter())[outcome] += 1


class Matrix:
    """One server of one WAL level, on which loads are disturbed one after the other."""

    def __init__(self, server: Server, shim: Shim, seed: int, account: Account) -> None:
        self.server = server
        self.shim = shim
        self.level = server.settings["wal_level"]
        self.numbers = random.Random(seed)
        self.account = account
        self.cases = 0
        self.database = "matrix"
        first = Connection(server.socket_dir)
        first.query(f"CREATE DATABASE {self.database}")
        first.close()
        session = self.session()
        session.query(f"CREATE EXTENSION fullbore; CREATE TABLE copied {SHAPE}")
        session.query("CREATE TABLE churn (v int4); INSERT INTO churn VALUES (0)")
        if session.query("SELECT 1 FROM pg_available_extensions WHERE name = 'amcheck'"):
            session.query("CREATE EXTENSION amcheck")
        for _ in range(FRAMES):
            copy_text(session, "copied", ROWS)
        self.expected = session.value(SUM.format("copied"))
        session.query(f"CREATE TABLE shape {SHAPE}")
        shape = descriptor(session, "shape")
        self.hash = shape["hash"]
        self.stream = bodies.body_frame(shape["columns"], ROWS) * FRAMES
        session.query("CHECKPOINT")
        session.close()

    def session(self) -> Connection:
        return Connection(self.server.socket_dir, self.database)

    def case(self, phase: Phase, victim: str) -> None:
        """One load, disturbed once; repeated where the moment did not come."""
        for _ in range(ATTEMPTS):
            if self.attempt(phase, victim):
                return
            self.account.missed += 1
        raise AssertionError(f"{self.level}: {phase.name} never comes")

    def attempt(self, phase: Phase, victim: str) -> bool:
        self.cases += 1
        table = f"piece{self.cases}"
        options = self.numbers.choice(IO)
        if phase.frozen or self.numbers.random() < 0.3:
            options += ", FREEZE true"
        client = Client(
            self.server.socket_dir, self.database, table,
            Load(SHAPE, self.hash, options, self.stream),
        )  # fmt: skip
        watcher = self.session()
        try:
            begun = client.do("begin").split()
            backend, files = int(begun[0]), begun[1:]
            checkpointer = self.checkpointer(watcher)
            if not self.reach(phase, client, watcher, backend, checkpointer, files, options):
                return False
            everything = victim == "postmaster" and self.numbers.random() < 0.5
            self.kill(victim, client, backend, checkpointer, everything)
        finally:
            self.shim.let_go()
            client.kill()
            watcher.close()
        outcome = self.check(table, files, phase, victim, everything)
        self.account.add(self.level, phase.name, victim, outcome)
        return True

    def checkpointer(self, session: Connection) -> int:
        pid = session.value("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
        assert pid is not None
        return int(pid)

    def reach(
        self, phase: Phase, client: Client, watcher: Connection, backend: int, checkpointer: int,
        files: list[str], options: str,
    ) -> bool:  # fmt: skip
        """Goes on until the moment has come; False where it was passed by."""
        own = phase.stop is not None and phase.who == "backend"
        steps = ["half", "rest", "COMMIT"]
        for step in steps[: steps.index(phase.step) + 1]:
            if own and phase.since == step:
                self.keep_in_segment(phase, watcher)
                self.set_rule(phase, backend, files, options)
            client.tell(phase.instead if step == "COMMIT" else step)
            done = False
            while not done and not (own and self.shim.hit()):
                # Of half a stream the end is that the backend waits for more.
                answer = client.answer(0.002)
                assert answer != "", f"the load fails at {step}: {self.server.log[-2000:]}"
                done = done or answer is not None
            if done and step == "half":
                wait_until("backend that waits or stops", lambda: self.waits(watcher, backend)
                           or (own and self.shim.hit()))  # fmt: skip
                if phase.checkpoint == "between":
                    self.checkpoint_between(phase, watcher, checkpointer)
            if own and self.shim.hit():
                break
        if phase.stop is not None and not self.shim.hit():
            return False
        if phase.checkpoint == "begun":
            watcher.send(b"Q", b"CHECKPOINT\0")
            other = self.session()
            query = (
                "SELECT count(*) FROM pg_stat_activity WHERE pid = {} AND wait_event IS NOT NULL"
            )
            other.value(query.format(checkpointer))
            other.close()
        if phase.checkpoint == "after":
            watcher.query("CHECKPOINT")
        return True

    def set_rule(self, phase: Phase, backend: int, files: list[str], options: str) -> None:
        assert phase.stop is not None
        operation, path, action = phase.stop
        # Buffered, each page is a write of its own.
        most = phase.skip_max * (100 if "buffered" in options and HEAP in path else 1)
        skip = self.numbers.randint(0, most)
        path = path.replace(HEAP, files[0]).replace(INDEX, files[1])
        self.shim.rule(backend, operation, path, skip, action)

    def keep_in_segment(self, phase: Phase, watcher: Connection) -> None:
        """A commit whose WAL goes on in another segment syncs the one that it leaves first: that
        would be taken for the commit's own sync."""
        if phase.stop is not None and phase.since == "COMMIT" and phase.stop[1] == "/pg_wal/":
            watcher.query(SWITCH_NEAR_END)

    def waits(self, watcher: Connection, backend: int) -> bool:
        event = "SELECT wait_event FROM pg_stat_activity WHERE pid = {}"
        return watcher.value(event.format(backend)) == "ClientRead"

    def checkpoint_between(self, phase: Phase, watcher: Connection, checkpointer: int) -> None:
        if phase.who == "backend":
            watcher.query("CHECKPOINT")
            return
        assert phase.stop is not None
        operation, path, action = phase.stop
        # Something to sync, whatever the load does.
        watcher.query("UPDATE churn SET v = v + 1")
        self.shim.rule(checkpointer, operation, path, 0, action)
        watcher.send(b"Q", b"CHECKPOINT\0")
        wait_until("checkpointer that stands still", self.shim.hit)

    def kill(
        self, victim: str, client: Client, backend: int, checkpointer: int, everything: bool
    ) -> None:
        """Kills, lets everybody else go on, and waits until the server can be asked again."""
        if victim == "client":
            client.kill()
            self.shim.let_go()
            wait_until("end of the backend", lambda: not Path(f"/proc/{backend}").exists())
            return
        if victim == "backend":
            os.kill(backend, signal.SIGKILL)
            self.shim.let_go()
            wait_until("recovery", lambda: self.is_back(checkpointer))
            return
        postmaster = int((self.server.data / "postmaster.pid").read_text().split()[0])
        children = self.server.processes() if everything else []
        os.kill(postmaster, signal.SIGKILL)
        for pid in children:
            if pid != postmaster:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        self.shim.let_go()
        wait_until(
            "end of all processes",
            lambda: not self.server.processes() and not Path(f"/proc/{postmaster}").exists(),
        )
        self.server.start()

    def is_back(self, old_checkpointer: int) -> bool:
        try:
            session = self.session()
            back = self.checkpointer(session) != old_checkpointer
            session.close()
        except (OSError, ServerError, IndexError, AssertionError):
            return False
        return back

    def check(
        self, table: str, files: list[str], phase: Phase, victim: str, everything: bool
    ) -> str:
        """The piece is absent or complete, as it must be, and nothing else is changed."""
        session = self.session()
        where = f"{self.level}, {phase.name}, {victim} killed, {table}"
        there = session.value(f"SELECT to_regclass('{table}')") is not None
        outcome = COMPLETE if there else ABSENT
        then = phase.then
        if phase.step == "COMMIT" and phase.instead == "COMMIT" and then != COMPLETE:
            # Who was told to commit goes on without its client, and without its postmaster.
            if victim == "client":
                then = COMPLETE
            elif victim == "postmaster" and not everything:
                then = EITHER
        assert then in (EITHER, outcome), f"{where}: {outcome}, not {then}"
        if there:
            assert session.value(SUM.format(table)) == self.expected, f"{where}: other rows"
            if session.query("SELECT 1 FROM pg_extension WHERE extname = 'amcheck'"):
                found = session.query(f"SELECT * FROM verify_heapam('{table}')")
                assert found == [], f"{where}: {found}"
            assert_indexes_sound(session, table)
        assert session.value(SUM.format("copied")) == self.expected, f"{where}: another table"
        left = [f for f in files if not there and self.is_left(f)]
        assert victim != "client" or left == [], f"{where}: {left} left without a crash"
        self.account.orphans += bool(left)
        session.close()
        return outcome

    def is_left(self, file: str) -> bool:
        """Bytes of it, or any second file of it, are still there."""
        path = self.server.data / file
        beside = [p for p in path.parent.glob(f"{path.name}[._]*") if p.exists()]
        return beside != [] or (path.exists() and path.stat().st_size > 0)

    def unknown_files(self) -> set[str]:
        """Relation files that no catalog knows, by the file system and the catalog alone."""
        session = self.session()
        folder = session.value("SELECT 'base/' || oid FROM pg_database WHERE datname = "
                               "current_database()")  # fmt: skip
        known = {
            row[0]
            for row in session.query(
                "SELECT pg_relation_filenode(oid) FROM pg_class"
                " WHERE pg_relation_filenode(oid) IS NOT NULL"
            )
        }
        session.close()
        assert folder is not None
        names = {p.name for p in (self.server.data / folder).iterdir() if p.name[0].isdigit()}
        bases = {name.split(".")[0].split("_")[0] for name in names}
        return {f"{folder}/{base}" for base in bases - known}

    def remove(self, orphans: set[str]) -> None:
        """What a person would do who was told of them: nothing of them is in any cache."""
        for orphan in orphans:
            path = self.server.data / orphan
            for file in [path, *path.parent.glob(f"{path.name}[._]*")]:
                file.unlink(missing_ok=True)

    def end_of_group(self) -> None:
        """All pieces again, checksums of all files, and an empty table of contents for the next."""
        session = self.session()
        pieces = session.query(
            "SELECT relname FROM pg_class WHERE relname ~ '^piece' AND relkind = 'r' ORDER BY 1"
        )
        for (name,) in pieces:
            assert session.value(SUM.format(name)) == self.expected, f"{self.level}: {name}"
        session.close()
        self.server.stop()
        try:
            shown = self.server.program("pg_checksums", "-c", "-D", str(self.server.data))
            assert "Bad checksums:  0" in shown, shown
        finally:
            self.server.start()
        session = self.session()
        for (name,) in pieces:
            session.query(f"DROP TABLE {name}")
        session.query("CHECKPOINT")
        session.close()
