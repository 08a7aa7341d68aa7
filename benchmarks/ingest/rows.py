"""Small rows with random keys, as batches and as keys that were loaded."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import md5
from pathlib import Path

# The load begins at noon: daily partitions are two, then.
BEGAN = datetime(2026, 3, 1, 12)
MINUTES = 1440

COLUMNS = (
    "id uuid NOT NULL, account bigint NOT NULL, at timestamp NOT NULL, amount numeric(8,2) NOT NULL"
)
INDEXES = ("id", "account")


def minute(batch: int, batches: int) -> datetime:
    """When a batch arrives: a day is divided among them."""
    return BEGAN + timedelta(minutes=MINUTES * batch / batches)


def write(path: Path, batch: int, batches: int, rows: int) -> None:
    """A batch as a file, which appears at once. A row's keys are a digest of its number: no two
    neighbours are near each other in an index."""
    at = minute(batch, batches).isoformat(sep=" ", timespec="seconds")
    lines = []
    for row in range(batch * rows, (batch + 1) * rows):
        digest = md5(str(row).encode(), usedforsecurity=False).hexdigest()
        lines.append(f"{digest},{int(digest[8:18], 16)},{at},{row % 100_000 / 100}\n")
    partial = path.with_name(f".{path.name}")
    partial.write_text("".join(lines))
    partial.rename(path)
