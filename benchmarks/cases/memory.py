"""What the client needs for a stream without an end: 8 sessions, fed through a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from data import tpch
from lab import FULLBORE, Case, Measured, Way
from peers import ours

from cases.setting import Setting

# Scales of TPC-H that make 1 GB and 8 GB of lineitem.
SMALL, LARGE = 1.32, 10.5
SMALL_BYTES, LARGE_BYTES = 1_005_000_000, 8_130_000_000


@contextmanager
def memory(setting: Setting) -> Iterator[Case]:
    """The peak has to be the same for both."""
    server = setting.server
    # Only what the table is called and looks like: the rows come through the pipe.
    data = tpch(setting.scale_of(0.1), 1)

    def load(scale: float) -> Measured:
        feed = [str(FULLBORE), "gen", "tpch", "--scale", setting.scale_of(scale)]
        feed += ["--tables", "lineitem", "--out", "-"]
        return ours.piped(server, data, feed, "--streams", "8")

    small, large = round(setting.scaled(SMALL_BYTES)), round(setting.scaled(LARGE_BYTES))
    ways = [
        Way(f"fullbore, 8 streams, {small / 1e9:.1f} GB", lambda: load(SMALL), small),
        Way(f"fullbore, 8 streams, {large / 1e9:.1f} GB", lambda: load(LARGE), large, once=True),
    ]
    notes = ["memory is `fullbore gen | fullbore load -`: gen's CPU and memory are not in it."]
    yield Case(small, ways, notes=notes)
