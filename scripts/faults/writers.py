"""Somebody who writes to a table while it is loaded, and remembers what was committed."""

from __future__ import annotations

import random
import threading

from places import Failed
from server import Server
from ways import TARGET

FIRST = -1000


class Writer(threading.Thread):
    """Inserts, updates and deletes rows of its own; `rows` are those that it has committed."""

    MODES = ("steady", "held open", "rolled back")

    def __init__(self, server: Server, mode: str, seed: str) -> None:
        super().__init__(name="writer", daemon=True)
        self.server = server
        self.mode = mode
        self.rng = random.Random(seed)
        self.rows: dict[int, int] = {}
        # Every version that was ever committed.
        self.versions: set[tuple[int, str, str]] = set()
        self.next = FIRST
        self.committed = 0
        self.failures: list[str] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        if self.mode == "steady":
            for _ in range(12):
                self.change()
                if self.is_over.wait(self.rng.random() * 0.15):
                    return
            return
        sleep = f"SELECT pg_sleep({0.2 + self.rng.random() * 2:.2f});"
        self.insert(3, sleep, "COMMIT" if self.mode == "held open" else "ROLLBACK")

    def change(self) -> None:
        """A transaction of a few rows."""
        chance = self.rng.random()
        if not self.rows or chance < 0.5:
            self.insert(self.rng.randint(1, 4))
            return
        k = self.rng.choice(sorted(self.rows))
        if chance < 0.8:
            n = self.rng.randint(0, 10**6)
            if self.does(f"UPDATE {TARGET} SET n = {n} WHERE k = {k}"):
                self.rows[k] = n
                self.versions.add((k, str(n), "other"))
        elif self.does(f"DELETE FROM {TARGET} WHERE k = {k}"):
            del self.rows[k]

    def insert(self, count: int, then: str = "", end: str = "COMMIT") -> None:
        rows = [(self.next - i, self.rng.randint(0, 10**6)) for i in range(count)]
        self.next -= count
        values = ", ".join(f"({k}, {n}, '2020-01-01', 1.5, 'other', 'theirs')" for k, n in rows)
        if self.does(f"INSERT INTO {TARGET} VALUES {values}; {then}", end) and end == "COMMIT":
            self.rows.update(rows)
            self.versions.update((k, str(n), "other") for k, n in rows)

    def does(self, text: str, end: str = "COMMIT") -> bool:
        try:
            self.server.sql(f"BEGIN; SET LOCAL statement_timeout = '150s'; {text}; {end}")
        except Failed as failed:
            self.failures.append(str(failed)[-200:])
            return False
        self.committed += 1
        return True

    def end(self) -> None:
        """Ends it; a transaction that is open goes its way."""
        self.is_over.set()
        self.join(180)
