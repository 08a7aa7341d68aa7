"""Write DataFrames of Spark into PostgreSQL.

>>> fullbore.spark.register(spark)  # doctest: +SKIP
>>> df.write.format("fullbore").option("to", url).option("table", "orders").mode("append").save()
... # doctest: +SKIP

Options are ``table``, ``to`` and those of :func:`fullbore.load`; lists are written with commas.
Each task stages its rows in a table of its own; once all have ended, those of the attempts that
Spark counts on are published in one transaction. A stream's batch is published once, however often
it is replayed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema

from fullbore._options import Options
from fullbore._write import Message, Write

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Sink", "register"]

# Properties by which Spark tells tasks of a stream what they are of.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


def register(spark: SparkSession) -> None:
    """Make the format ``fullbore`` known to a session. Its workers need this package too."""
    spark.dataSource.register(Sink)


class Sink(DataSource):
    """The data source ``fullbore``, which can only be written to."""

    @classmethod
    def name(cls) -> str:
        return "fullbore"

    def writer(self, schema: StructType, overwrite: bool) -> _Writer:
        mode = "overwrite" if overwrite else "append"
        return _Writer(_write_of(self.options, mode), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> _StreamWriter:
        if overwrite:
            raise ValueError("a stream is written with outputMode append")
        return _StreamWriter(_write_of(self.options, "append"), schema)


@dataclass
class _Told(WriterCommitMessage):
    """What a task tells; of a stream, with the query that it works for."""

    message: Message | None
    query: str | None = None


def _messages(told: Iterable[WriterCommitMessage | None]) -> list[Message | None]:
    return [one.message for one in told if isinstance(one, _Told)]


def _schema(told: Iterable[WriterCommitMessage | None], schema: StructType) -> Schema:
    """The columns as tasks have seen them; where there was no row, as they should have."""
    seen = (message.schema for message in _messages(told) if message is not None)
    return next((known for known in seen if known is not None), None) or _arrow(schema)


def _arrow(schema: StructType) -> Schema:
    # Arrow's timestamps are moments whatever zone they are shown in.
    return to_arrow_schema(schema, timezone="UTC")


class _Writer(DataSourceArrowWriter):
    def __init__(self, write: Write, schema: StructType) -> None:
        self.to, self.schema = write, schema
        write.begin(_arrow(schema))

    def write(self, iterator: Iterator[RecordBatch]) -> _Told:
        return _Told(self.to.stage(iterator, _task().partitionId()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.to.publish(_messages(messages), _schema(messages, self.schema))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.to.roll_back()


class _StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, write: Write, schema: StructType) -> None:
        self.to, self.schema = write, schema
        write.begin(_arrow(schema))

    def write(self, iterator: Iterator[RecordBatch]) -> _Told:
        task = _task()
        query, batch = task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH)
        if query is None or batch is None:
            raise RuntimeError("Spark does not say which batch of which query this task is of")
        write = self.to.of_batch(query, int(batch))
        return _Told(write.stage(iterator, task.partitionId()), query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        write = self._of_batch(messages, batchId)
        if write is not None:
            write.publish(_messages(messages), _schema(messages, self.schema))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        # The batch is written again once the query is started again.
        write = self._of_batch(messages, batchId)
        if write is not None:
            write.unstage(_messages(messages))

    def _of_batch(self, messages: Iterable[WriterCommitMessage | None], batch: int) -> Write | None:
        """The write of a batch; None if none of its tasks has told of it."""
        queries = (told.query for told in messages if isinstance(told, _Told))
        query = next(queries, None)
        return None if query is None else self.to.of_batch(query, batch)


def _task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("this runs in tasks of Spark only")
    return task


def _write_of(given: MutableMapping[str, str], mode: str) -> Write:
    """A write by options of Spark, which are text."""
    options = {name.lower(): value for name, value in given.items()}
    table = options.pop("table", None)
    if table is None:
        raise ValueError("name the table with option table")
    # Spark's own.
    options.pop("path", None)
    options.pop("checkpointlocation", None)
    to = options.pop("to", None)
    read = {name: _value(name, value) for name, value in options.items()}
    return Write.of(table, to, read, mode)


def _value(name: str, text: str) -> Any:
    """The value of an option by its type."""
    kind = str(Options.__annotations__.get(name))
    if "Mapping" in kind:
        return _pairs(text)
    if "Sequence" in kind:
        return text.split(",")
    if "'bool'" in kind or kind == "bool":
        if text.lower() not in ("true", "false"):
            raise ValueError(f"option {name} is true or false, not {text!r}")
        return text.lower() == "true"
    return int(text) if "'int'" in kind else text


def _pairs(text: str) -> Mapping[str, str]:
    # A type may have commas of its own: numeric(10,2).
    pairs = (pair.partition("=") for pair in re.split(r",(?![^(]*\))", text))
    return {key: value for key, _, value in pairs}
