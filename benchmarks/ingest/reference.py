"""One table of the same rows, whose indexes are built afterwards."""

from __future__ import annotations

import argparse
from pathlib import Path

from lab import run
from rows import COLUMNS, INDEXES, write
from servers import Server


class Reference:
    """It grows from look to look."""

    def __init__(self, server: Server, folder: Path, args: argparse.Namespace) -> None:
        self.server, self.folder, self.args = server, folder, args
        self.batches = 0
        server.sql(f"CREATE TABLE events ({COLUMNS})")

    def grow(self, batches: int) -> None:
        """Has so many batches then, and indexes that were just built."""
        drop = "; ".join(f"DROP INDEX IF EXISTS events_{column}" for column in INDEXES)
        self.server.sql(f"SET client_min_messages = warning; {drop}")
        self.folder.mkdir(exist_ok=True)
        for batch in range(self.batches, batches):
            path = self.folder / f"{batch:06}.csv"
            write(path, batch, self.args.batches, self.args.rows)
            self.psql("-c", f"\\copy events from '{path}' (format csv)")
            path.unlink()
        self.batches = batches
        for column in INDEXES:
            self.server.sql(
                "SET maintenance_work_mem = '1GB';"
                f" CREATE INDEX events_{column} ON events ({column})"
            )
        self.psql("-c", "VACUUM (FREEZE, ANALYZE) events", "-c", "CHECKPOINT")

    def psql(self, *arguments: str) -> None:
        run(self.server.psql(*arguments))
