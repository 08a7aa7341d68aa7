"""What it costs to compare every value: lineitem, verified quickly and in full."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from data import tpch
from lab import Case, Way
from peers import ours

from cases.lineitem import PARTITIONS
from cases.setting import Setting

FULL = ("--verify", "full")


@contextmanager
def verified(setting: Setting) -> Iterator[Case]:
    """By both methods, each with and without the sums; the server's sums count in its CPU."""
    server, data = setting.server, tpch(setting.scale, 4)

    def partitions(method: str, *options: str) -> Way:
        name = " ".join(("fullbore", method, "partitions", *options[1:]))
        return Way(name, lambda: ours.load(server, data, *PARTITIONS, *options, method=method))

    ways = [
        partitions("direct"),
        partitions("direct", *FULL),
        partitions("copy"),
        partitions("copy", *FULL),
    ]
    yield Case(data.size, ways, data.files)
