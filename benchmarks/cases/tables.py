"""All tables of TPC-H, as one job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from data import TABLES, generated, tpch
from lab import DATA, ROOT, Case, Way
from peers import ours, psql

from cases.setting import Setting


@contextmanager
def all_tables(setting: Setting) -> Iterator[Case]:
    """The demo's job, which makes six tables of partitions, against a table for each session."""
    server = setting.server
    folder = generated(setting.scale, 4, TABLES)
    sets = [tpch(setting.scale, 4, table) for table in TABLES]
    demo = (ROOT / "demo" / "tpch.toml").read_text()
    demo = demo.replace('"benchmarks/data/tpch-1/', f'"{folder}/')
    # Exactly our four files: other programs may have left theirs beside them.
    demo = demo.replace('.tbl.*"', '.tbl.[1-4]"')
    job = DATA / f"tpch-{setting.scale}.toml"
    job.write_text(demo.replace('"demo/schema/', f'"{ROOT / "demo" / "schema"}/'))
    # The largest first, as a good expert does, so that neither session is left alone for long.
    largest_first = sorted(sets, key=lambda data: -data.size)
    ways = [
        Way("fullbore, a job of 8 tables", lambda: ours.job(server, job)),
        Way("psql, expert, 2 sessions", lambda: psql.own_tables(server, largest_first, 2)),
        Way("psql, expert, 4 sessions", lambda: psql.own_tables(server, largest_first, 4)),
    ]
    files = [path for data in sets for path in data.files + data.plain]
    yield Case(sum(data.size for data in sets), ways, files)
