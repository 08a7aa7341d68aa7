"""A table of types that have no binary encoder of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from data_made import texts
from lab import Case, Way
from peers import ours, psql

from cases.setting import Setting

MEGABYTES = 300


@contextmanager
def text_types(setting: Setting) -> Iterator[Case]:
    """All goes as text, so the best that we can be is psql, with several sessions."""
    server, data = setting.server, texts(setting.megabytes(MEGABYTES))
    ways = [
        Way("fullbore, append", lambda: ours.into_existing(server, data)),
        Way("psql, 4 sessions", lambda: psql.one_table(server, data, 4)),
        Way("psql, 2 sessions", lambda: psql.one_table(server, data, 2)),
    ]
    yield Case(data.size, ways, data.files)
