"""A sink of Ray Data whose workers are killed, each once."""

from __future__ import annotations

import os
import signal
from typing import Any

import faulty
from fullbore.ray import Sink


class FaultySink(Sink):
    def __init__(self, *arguments: Any, moment: str, folder: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.moment, self.folder = moment, folder

    def write(self, blocks: Any, ctx: Any) -> Any:
        breaks = faulty.breaks_here(self.folder, ctx.task_idx)
        if breaks and self.moment == faulty.MOMENTS[0]:
            blocks = faulty.killed_after(blocks, 0)
        told = super().write(blocks, ctx)
        if breaks:
            os.kill(os.getpid(), signal.SIGKILL)
        return told


class RefusedSink(Sink):
    """One of whose tasks raises."""

    def write(self, blocks: Any, ctx: Any) -> Any:
        if ctx.task_idx == 1:
            raise ValueError("this task does not like its rows")
        return super().write(blocks, ctx)
