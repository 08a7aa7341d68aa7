"""lineitem between two hosts of our own making: two network namespaces and a veth pair."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from data import tpch
from lab import Case, Measured, Way
from namespaces import server_in_namespace
from peers import ours, psql

from cases.lineitem import PARTITIONS
from cases.setting import Setting


@contextmanager
def network(setting: Setting) -> Iterator[Case]:
    """As fast as the kernel passes packets on."""
    with _lineitem(setting, None) as case:
        yield case


@contextmanager
def network_1gbit(setting: Setting) -> Iterator[Case]:
    """Both ends shaped to 1 Gb/s."""
    with _lineitem(setting, "1gbit") as case:
        case.notes.append(
            "COPY binary of lineitem is 1.7 times its text: at 1 Gb/s that counts more than CPU,"
            " and --as-text is for that."
        )
        yield case


@contextmanager
def direct_network(setting: Setting) -> Iterator[Case]:
    """The direct method between the two hosts, beside the same server's unix socket."""
    data = tpch(setting.scale, 4)
    with server_in_namespace(None) as server:

        def load(to: str) -> Measured:
            return ours.load(server, data, *PARTITIONS, method="direct", to=to)

        ways = [
            Way("fullbore direct, over the pair", lambda: load(server.url)),
            Way("fullbore direct, unix socket", lambda: load(server.socket_url)),
        ]
        yield Case(data.size, ways, data.files, server=server)


@contextmanager
def _lineitem(setting: Setting, rate: str | None) -> Iterator[Case]:
    data = tpch(setting.scale, 4)
    with server_in_namespace(rate) as server:
        ways = [
            Way("fullbore, partitions", lambda: ours.load(server, data, *PARTITIONS)),
            Way(
                "fullbore, partitions, --as-text",
                lambda: ours.load(server, data, *PARTITIONS, "--as-text"),
            ),
            Way("psql, expert, 2 sessions", lambda: psql.own_tables(server, [data], 2)),
            Way("fullbore, one table", lambda: ours.into_existing(server, data)),
            Way(
                "psql, one table, 4 sessions",
                lambda: psql.one_table(server, data, 4),
                beside="fullbore, one table",
            ),
        ]
        yield Case(data.size, ways, data.files + data.plain, server=server)
