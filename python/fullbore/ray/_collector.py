"""What workers tell of their parts, and how the driver hears each line once, whatever is lost.

A worker tells all lines of its record that its driver is not known to have heard, and its answer
brings the rest; the driver counts each line once.
"""

from __future__ import annotations

from typing import Any

import ray

from fullbore import _worker

# How long a worker that is done waits to be heard.
HEARD_S = 10.0


class Collector:
    """What workers tell, until the driver asks for it. An actor."""

    def __init__(self) -> None:
        # By part: the attempt, the host, and lines from the first that its driver may lack.
        self.told: dict[int, tuple[int, str, int, list[str]]] = {}
        # What the driver has heard, by part: lines of an attempt.
        self.heard: dict[int, tuple[int, int]] = {}
        self.stopped = False
        self.rate: int | None = None

    def take(
        self, part: int, attempt: int, host: str, first: int, lines: list[str]
    ) -> tuple[bool, int | None, int]:
        """Take what a worker tells, which is told again until the driver has heard it."""
        if part not in self.told or self.told[part][0] <= attempt:
            self.told[part] = (attempt, host, first, lines)
        of, heard = self.heard.get(part, (attempt, 0))
        return self.stopped, self.rate, heard if of == attempt else 0

    def drain(
        self, heard: dict[int, tuple[int, int]]
    ) -> dict[int, tuple[int, str, int, list[str]]]:
        self.heard = heard
        told, self.told = self.told, {}
        return told

    def stop(self) -> None:
        self.stopped = True

    def limit(self, rate: int | None) -> None:
        """What each part may send, in bytes a second."""
        self.rate = rate


def load_part(
    options: dict[str, Any], environment: dict[str, str], collector: Any, part: int, attempt: int
) -> dict[str, Any]:
    """Load a part and tell the collector of it. A task."""
    asked: Any = None
    stopped = False
    rate: int | None = options["job"].get("max_rate")
    # Lines that the driver may not have heard, and the number of their first.
    kept: list[str] = []
    first = 0

    def tell(host: str, lines: list[str]) -> tuple[bool, int | None]:
        nonlocal asked, stopped, rate, first
        kept.extend(lines)
        if asked is not None:
            if not ray.wait([asked], timeout=0)[0]:
                return stopped, rate
            try:
                stopped, rate, heard = ray.get(asked)
                del kept[: max(0, heard - first)]
                first = max(first, heard)
            except ray.exceptions.ActorUnavailableError:
                pass
            except ray.exceptions.RayActorError:
                # The driver is gone: whoever resumes the load must not find us at work.
                stopped = True
        asked = collector.take.remote(part, attempt, host, first, kept)
        return stopped, rate

    answer = _worker.load_part(options, environment, tell)
    # Parts that run side by side have begun, by what the driver hears, before one of them ends.
    if asked is not None:
        ray.wait([asked], timeout=HEARD_S)
    return {**answer, "first": first, "lines": kept}
