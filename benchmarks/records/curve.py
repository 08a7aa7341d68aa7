"""The rate on a device while something is measured."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lab import run
from links import Hosts, inside

LOOK_S = 0.25


def received(there: Hosts, device: str = "wan0") -> int:
    """Bytes that the server's device has taken in so far."""
    return int(run([*inside(there.server), "cat", f"/sys/class/net/{device}/statistics/rx_bytes"]))


class Curve:
    """The rate on the far host's device, a few times a second."""

    def __init__(self, there: Hosts) -> None:
        self.there = there
        self.points: list[tuple[float, float]] = []
        self.over = threading.Event()
        self.began = time.monotonic()

    @contextmanager
    def watched(self) -> Iterator[Curve]:
        watcher = threading.Thread(target=self._watch)
        watcher.start()
        try:
            yield self
        finally:
            self.over.set()
            watcher.join()

    def _watch(self) -> None:
        at, before = time.monotonic(), received(self.there)
        while not self.over.wait(LOOK_S):
            now, count = time.monotonic(), received(self.there)
            middle = (at + now) / 2 - self.began
            self.points.append((round(middle, 3), round((count - before) / (now - at) / 1e6, 3)))
            at, before = now, count
