"""Sinks that break on purpose, once: imported by the engines' workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

MOMENTS = ("while it writes", "after it has written")


def breaks_here(folder: str, task: int) -> bool:
    """Whether the first attempt of this task is to be killed; true once."""
    try:
        (Path(folder) / f"task-{task}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def killed_after(batches: Iterable[Any], first: int) -> Iterator[Any]:
    for number, batch in enumerate(batches):
        if number == first:
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch
