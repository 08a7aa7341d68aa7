"""What every case is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lab import DATA
from server import Server

# Scales of TPC-H and megabytes of the other files, where `--scale` is not given.
STANDARD_SCALE = 2.0


@dataclass(frozen=True)
class Setting:
    """The server, and how large the data are."""

    server: Server
    scale: str

    def scaled(self, amount: float) -> float:
        """An amount that is meant for the standard scale."""
        return amount * float(self.scale) / STANDARD_SCALE

    def megabytes(self, amount: float) -> int:
        """Megabytes of a file that is meant for the standard scale; never none."""
        return max(4, round(self.scaled(amount)))

    def scale_of(self, amount: float) -> str:
        """A scale of TPC-H that is meant for the standard scale."""
        return f"{self.scaled(amount):.4g}"


@contextmanager
def replica() -> Iterator[Server]:
    """A server under wal_level=replica, on a data folder of its own."""
    server = Server(DATA / "home-replica")
    server.start()
    try:
        if server.sql("SHOW wal_level") != "replica":
            server.sql("ALTER SYSTEM SET wal_level = 'replica'")
            server.stop()
            server.start()
        yield server
    finally:
        server.stop()
