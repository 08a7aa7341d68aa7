"""lineitem into 64 partitions that exist, from files in no order of their key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from data import DataSet, tpch
from lab import Case, Failed, Measured, Way
from peers import ours, psql
from server import Server

from cases.setting import Setting

PARTITIONS = 64
STREAMS = 4


@contextmanager
def routed(setting: Setting) -> Iterator[Case]:
    """By COPY and directly into empty partitions; psql's sessions COPY into the table itself."""
    server, plain = setting.server, tpch(setting.scale, STREAMS)
    streams = ("--streams", str(STREAMS))
    ways = []
    for kind, data in _partitioned(plain, float(setting.scale)):
        checked = _Checked(server)
        ways += [
            Way(
                f"fullbore, append, {kind}",
                lambda data=data, checked=checked: checked.run(
                    lambda: ours.into_existing(server, data, *streams)
                ),
            ),
            Way(
                f"fullbore, append direct, {kind}",
                lambda data=data, checked=checked: checked.run(
                    lambda: ours.into_existing(server, data, *streams, method="direct")
                ),
            ),
            Way(
                f"psql, {STREAMS} sessions, {kind}",
                lambda data=data, checked=checked: checked.run(
                    lambda: psql.one_table(server, data, STREAMS)
                ),
            ),
        ]
    yield Case(plain.size, ways, plain.files + plain.plain)


def _partitioned(plain: DataSet, scale: float) -> Iterator[tuple[str, DataSet]]:
    """The table by hash, range and list."""
    parts, suppliers = int(200_000 * scale), int(10_000 * scale)
    ends = ["MINVALUE", *(str(parts * n // PARTITIONS) for n in range(1, PARTITIONS)), "MAXVALUE"]
    numbers = range(PARTITIONS)
    lists = (
        ", ".join(str(key) for key in range(1, suppliers + 1) if key % PARTITIONS == n)
        for n in numbers
    )
    bounds = {
        "hash": (
            "HASH (l_orderkey)",
            [f"WITH (MODULUS {PARTITIONS}, REMAINDER {n})" for n in numbers],
        ),
        "range": ("RANGE (l_partkey)", [f"FROM ({ends[n]}) TO ({ends[n + 1]})" for n in numbers]),
        "list": ("LIST (l_suppkey)", [f"IN ({values})" for values in lists]),
    }
    for kind, (by, values) in bounds.items():
        made = "".join(
            f"; CREATE TABLE {{table}}_{n} PARTITION OF {{table}} FOR VALUES {value}"
            for n, value in enumerate(values)
        )
        yield (
            f"{PARTITIONS} {kind}",
            replace(plain, schema=f"{plain.schema} PARTITION BY {by}{made}"),
        )


class _Checked:
    """Every way must leave the same rows in the same partitions."""

    def __init__(self, server: Server) -> None:
        self.server, self.found = server, ""

    def run(self, load: Callable[[], Measured]) -> Measured:
        measured = load()
        found = self.server.sql(
            "SELECT md5(string_agg(part::text, ' ' ORDER BY part)) FROM (SELECT tableoid::regclass,"
            " count(*), sum(l_orderkey * 7 + l_linenumber + l_partkey * 31), sum(l_extendedprice)"
            " FROM lineitem GROUP BY 1) AS part"
        ).strip()
        self.found = self.found or found
        if found != self.found:
            raise Failed("the partitions differ from those of the first way")
        return measured
