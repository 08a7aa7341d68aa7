"""lineitem in the order of another key than its files have."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data import DataSet, tpch
from lab import Case, Failed, Measured, Way
from peers import ours
from server import Server

from cases.lineitem import SCHEMA
from cases.setting import Setting

KEY = ("l_partkey", "l_orderkey", "l_linenumber")
ORDER = ("--order-by", ",".join(KEY), "--sort-memory", "512MB")


@contextmanager
def ordered(setting: Setting) -> Iterator[Case]:
    """Sorted in 512 MB.

    The raw output has the seconds that the primary key takes afterwards. `with its key`, the
    extension fills it from the rows as they pass.
    """
    server, data = setting.server, tpch(setting.scale, 4, with_plain=False)
    keyed = data.files[0].parent / "keyed.sql"
    plain = Path(SCHEMA).read_text().rstrip().removesuffix(");").rstrip()
    keyed.write_text(f"{plain},\n    PRIMARY KEY ({', '.join(KEY)})\n);\n")
    ways = [
        Way(
            f"fullbore {method}{', --order-by' if order else ''}{', with its key' if key else ''}",
            lambda method=method, order=order, key=key: _loaded(
                server, data, method, order, str(key or SCHEMA)
            ),
        )
        for method, key in (("direct", None), ("direct", keyed), ("copy", None))
        for order in ((), ORDER)
    ]
    yield Case(data.size, ways, data.files)


def _loaded(
    server: Server, data: DataSet, method: str, order: tuple[str, ...], schema: str
) -> Measured:
    """Loads, and builds the key where the table has none."""
    shape = ("--create", "--schema", schema, "--publish", "replace")
    measured = ours.load(server, data, *shape, *order, method=method)
    server.sql("ANALYZE lineitem")
    asked = (
        "SELECT correlation FROM pg_stats WHERE tablename = 'lineitem' AND attname = 'l_partkey'"
    )
    measured.notes["correlation"] = float(server.sql(asked))
    if order and measured.notes["correlation"] < 0.999:
        raise Failed(f"the correlation is {measured.notes['correlation']}")
    if schema == SCHEMA:
        began = time.monotonic()
        server.sql(f"ALTER TABLE lineitem ADD PRIMARY KEY ({', '.join(KEY)})")
        measured.notes["key_s"] = time.monotonic() - began
    return measured
