"""A sink of Ray Data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ray.data import Datasink
from ray.data.block import Block, BlockAccessor

from fullbore._load import LoadResult
from fullbore._write import Message, Write

if TYPE_CHECKING:
    from ray.data._internal.execution.interfaces import TaskContext
    from ray.data.datasource import WriteResult
    from typing_extensions import Unpack

    from fullbore._options import Options


class Sink(Datasink[Message | None]):
    """Writes a dataset into a table: all of its rows, each once, or none.

    ``mode`` is append or overwrite. ``to`` and ``options`` are those of :func:`fullbore.load`.
    Tasks stage their rows in tables of their own; once all have ended, those of the attempts that
    Ray counts on are published in one transaction. A task may be lost seven times.

    ``result`` is the result of the write once it has ended.
    """

    def __init__(
        self,
        table: str,
        to: str | os.PathLike[str] | None = None,
        *,
        mode: str = "append",
        min_rows_per_write: int | None = None,
        **options: Unpack[Options],
    ) -> None:
        if mode not in ("append", "overwrite"):
            raise ValueError(f"mode is append or overwrite, not {mode!r}")
        self._write = Write.of(table, None if to is None else os.fspath(to), options, mode)
        self._min_rows_per_write = min_rows_per_write
        self._schema: Any = None
        self.result: LoadResult | None = None

    def on_write_start(self, schema: Any = None) -> None:
        self._schema = schema
        self._write.begin(schema)

    def write(self, blocks: Iterable[Block], ctx: TaskContext) -> Message | None:
        return self._write.stage(_tables(blocks), ctx.task_idx)

    def on_write_complete(self, write_result: WriteResult[Message | None]) -> None:
        self.result = self._write.publish(write_result.write_returns, self._schema)

    def on_write_failed(self, error: Exception) -> None:
        self._write.roll_back()

    def get_name(self) -> str:
        return "Fullbore"

    @property
    def min_rows_per_write(self) -> int | None:
        return self._min_rows_per_write


def _tables(blocks: Iterable[Block]) -> Iterator[Any]:
    for block in blocks:
        yield BlockAccessor.for_block(block).to_arrow()
