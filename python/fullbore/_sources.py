"""What can be loaded: paths, and whatever gives Arrow data."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from fullbore import _native


class ArrowStream(Protocol):
    """An object of the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


class ArrowBatch(Protocol):
    """A record batch of the Arrow PyCapsule interface."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...


Source = (
    str
    | os.PathLike[str]
    | ArrowStream
    | ArrowBatch
    | Iterable[str | os.PathLike[str]]
    | Iterable[ArrowBatch | ArrowStream]
)

# All of their data is in memory: it can be read in parallel, and again after a lost connection.
_TABLES = {
    ("pyarrow", "Table"),
    ("pyarrow", "RecordBatch"),
    ("polars", "DataFrame"),
    ("pandas", "DataFrame"),
}


def named(source: Source) -> tuple[list[str], object]:
    """What names a source in a job, and what has to live as long as it is loaded."""
    if isinstance(source, str | os.PathLike):
        return [os.fspath(source)], None
    kind = type(source)
    if hasattr(source, "__arrow_c_stream__"):
        known = (kind.__module__.partition(".")[0], kind.__name__)
        data = _chunks(source) if known == ("polars", "DataFrame") else source
        return _registered(kind.__name__, data, known in _TABLES)
    if hasattr(source, "__arrow_c_array__"):
        return _registered(kind.__name__, iter([source]), True)
    if not isinstance(source, Iterable):
        # Says what a source may be.
        return _registered(kind.__name__, source, False)
    iterator: Iterator[Any] = iter(source)
    first = next(iterator, None)
    if first is None or isinstance(first, str | os.PathLike):
        paths = itertools.chain([] if first is None else [first], iterator)
        return [os.fspath(path) for path in paths], None
    batches = itertools.chain([first], iterator)
    return _registered("batches", batches, isinstance(source, list | tuple))


def _chunks(frame: Any) -> Iterator[Any]:
    """The parts of a polars frame that lie in one piece: polars copies what it must join."""
    ends = {
        end
        for column in frame.get_columns()
        for end in itertools.accumulate(column.chunk_lengths())
    }
    start = 0
    for end in sorted(ends) or [0]:
        yield frame.slice(start, end - start)
        start = end


def _registered(name: str, source: object, is_table: bool) -> tuple[list[str], object]:
    registered = _native.Source(name, source, is_table)
    return [registered.uri], registered
