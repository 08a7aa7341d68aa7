"""A data source of Spark whose workers are killed, each once."""

from __future__ import annotations

import os
import signal
from typing import Any

import faulty
from fullbore.spark import Sink, _StreamWriter, _task, _write_of, _Writer


def broken(writer: type, moment: str, folder: str) -> type:
    class Faulty(writer):  # type: ignore[misc]
        def write(self, iterator: Any) -> Any:
            breaks = faulty.breaks_here(folder, _task().partitionId())
            if breaks and moment == faulty.MOMENTS[0]:
                iterator = faulty.killed_after(iterator, 2)
            told = super().write(iterator)
            if breaks:
                os.kill(os.getpid(), signal.SIGKILL)
            return told

    return Faulty


class FaultySource(Sink):
    @classmethod
    def name(cls) -> str:
        return "faulty"

    def _parts(self) -> tuple[dict[str, str], str, str]:
        options = dict(self.options)
        return options, options.pop("moment"), options.pop("folder")

    def writer(self, schema: Any, overwrite: bool) -> Any:
        options, moment, folder = self._parts()
        mode = "overwrite" if overwrite else "append"
        return broken(_Writer, moment, folder)(_write_of(options, mode), schema)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        options, moment, folder = self._parts()
        return broken(_StreamWriter, moment, folder)(_write_of(options, "append"), schema)
