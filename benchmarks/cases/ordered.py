"""lineitem in the order of another key than its files have."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from data import tpch
from lab import Case, Failed, Measured, Way
from peers import ours
from server import Server

from cases.lineitem import CREATE
from cases.setting import Setting

KEY = ("l_partkey", "l_orderkey", "l_linenumber")
ORDER = ("--order-by", ",".join(KEY), "--sort-memory", "512MB")


@contextmanager
def ordered(setting: Setting) -> Iterator[Case]:
    """Sorted in 512 MB. The raw output has the seconds that the primary key takes then."""
    server, data = setting.server, tpch(setting.scale, 4)
    ways = [
        Way(
            f"fullbore {method}{', --order-by' if order else ''}",
            lambda method=method, order=order: _keyed(
                server, bool(order), lambda: ours.load(server, data, *CREATE, *order, method=method)
            ),
        )
        for method in ("direct", "copy")
        for order in ((), ORDER)
    ]
    yield Case(data.size, ways, data.files)


def _keyed(server: Server, is_ordered: bool, load: Callable[[], Measured]) -> Measured:
    """Loads, and builds the key."""
    measured = load()
    server.sql("ANALYZE lineitem")
    asked = (
        "SELECT correlation FROM pg_stats WHERE tablename = 'lineitem' AND attname = 'l_partkey'"
    )
    measured.notes["correlation"] = float(server.sql(asked))
    if is_ordered and measured.notes["correlation"] < 0.999:
        raise Failed(f"the correlation is {measured.notes['correlation']}")
    began = time.monotonic()
    server.sql(f"ALTER TABLE lineitem ADD PRIMARY KEY ({', '.join(KEY)})")
    measured.notes["key_s"] = time.monotonic() - began
    return measured
