"""A write by tasks of an engine: each stages its rows, the driver publishes what the engine names.

docs/decisions/sinks.md says what is promised, and why it holds.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fullbore import _native
from fullbore._errors import LoadError, RejectsError, UsageError, result_of_answer
from fullbore._load import LoadResult, given_options, result_of

# Rejects of a task that are handed over to the driver.
REJECTS_BYTES_MAX = 4 << 20

# What makes the table, and how it is locked in the end: not for the tables of tasks.
_OF_TABLE = ("create", "types", "schema_file", "partition_by", "partition_bounds")
_OF_PUBLISHING = ("lock_timeout", "lock_writers", "replace_anyway")

# What is counted of each task.
_COUNTS = ("rows", "rejected", "bytes")


@dataclass(frozen=True)
class Message:
    """What a task that has ended tells the driver. Tasks without rows stage nothing."""

    table: str | None = None
    rows: int = 0
    rejected: int = 0
    bytes: int = 0
    # Contents of reject files by name.
    rejects: Mapping[str, bytes] | None = None
    # The columns, as a pyarrow schema.
    schema: Any = None


@dataclass
class Write:
    """One write. It is sent to tasks; nothing of it is open between its steps."""

    job: dict[str, Any]
    id: str
    reject_dir: str

    @classmethod
    def of(
        cls, table: str, to: str | None, options: Mapping[str, Any], mode: str = "append"
    ) -> Write:
        """A new write; ``mode`` is append or overwrite. Raises for what a sink can't take."""
        if "publish" in options:
            raise UsageError(
                "publish can't be used by a sink of an engine, which has a mode: append, or"
                " overwrite, which replaces the table",
                exit_code=2,
            )
        given = {**options, "publish": "append" if mode == "append" else "replace"}
        reject_dir = os.fspath(given.pop("reject_dir", Path.cwd()))
        job = result_of_answer(_native.job(given_options(["-"], to, table, given)))
        if job.get("to") is None:
            job["to"] = os.environ.get("DATABASE_URL")
        job["table"][0]["sources"] = []
        return cls(job, result_of_answer(_native.write_id(json.dumps(job))), reject_dir)

    def of_batch(self, query: str, batch: int) -> Write:
        """The write of a batch of a stream: the same one whenever the batch is written."""
        write = _native.write_id(json.dumps(self.job), query, batch)
        return Write(self.job, result_of_answer(write), self.reject_dir)

    def begin(self, schema: Any) -> None:
        """Make the table, if that is asked for. ``schema`` is a pyarrow schema."""
        if self.job["table"][0].get("create"):
            table = {**self.job["table"][0], "publish": "append"}
            table.pop("keep_old", None)
            alone = dict.fromkeys(_OF_PUBLISHING)
            self._load(table, schema, [], no_ledger=True, statistics="none", method="copy", **alone)

    def stage(self, batches: Iterable[Any], task: int) -> Message | None:
        """Stage a task's rows; ``batches`` are pyarrow record batches or tables.

        Returns what the driver is to be told; None if the write was published before, so that
        nothing is left to do. Raises if it was rolled back.
        """
        iterator = iter(batches)
        first = next((batch for batch in iterator if batch.num_rows), None)
        if first is None:
            return Message()
        step = result_of_answer(_native.write_stage(json.dumps(self.job), self.id, task))
        if step["standing"] == "published":
            return None
        if step["table"] is None:
            raise RuntimeError(f"write {self.id} was rolled back: the driver has given it up")
        folder = Path(tempfile.mkdtemp(prefix="fullbore-rejects-"))
        try:
            table = {**self.job["table"][0], "name": step["table"], "publish": "append"}
            table["fresh"] = True
            for option in (*_OF_TABLE, "atomic", "keep_old"):
                table.pop(option, None)
            rows = itertools.chain([first], iterator)
            options = {**dict.fromkeys(_OF_PUBLISHING), "reject_dir": str(folder)}
            result = self._load(
                table, first.schema, rows, no_ledger=True, statistics="none", **options
            )
            _native.forget(result.run_id)
            return Message(
                table=step["table"],
                rows=result.rows,
                rejected=result.rejected,
                bytes=result.bytes,
                rejects=dict(_rejects(folder)),
                schema=first.schema,
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, messages: Iterable[Message | None], schema: Any = None) -> LoadResult | None:
        """Publish what these tasks have staged, at once, and drop what others have.

        Published before, it only drops. ``schema`` is that of the rows, if it is known. Returns the
        result of the load, or None if there was nothing to publish.
        """
        told = [message for message in messages if message is not None and message.table]
        self._check_rejects(told)
        schemas = [message.schema for message in told if message.schema is not None]
        # What the engine says of the rows may be from before they were changed on their way.
        schema = schemas[0] if schemas else schema
        odd = next((one for one in schemas if sorted(one.names) != sorted(schema.names)), None)
        if odd is not None:
            raise RuntimeError(
                f"tasks wrote different columns: {', '.join(schema.names)}, and"
                f" {', '.join(odd.names)}; give all rows the same ones"
            )
        if schema is None:
            # Not one row was written, of columns that nobody knows.
            self.roll_back()
            return None
        staged = [
            {name: getattr(message, name) for name in ("table", *_COUNTS)} for message in told
        ]
        is_appended = self.job["table"][0]["publish"] == "append"
        table = {**self.job["table"][0], "atomic": is_appended}
        for option in _OF_TABLE:
            table.pop(option, None)
        options: dict[str, Any] = {"write": {"id": self.id, "staged": staged}}
        if is_appended:
            # Rows are inserted; they were sent by the method that was asked for.
            options["method"] = "copy"
        result = self._load(table, schema, [], **options)
        if not result.raw.get("finished_before"):
            counts = {name: sum(one[name] for one in staged) for name in _COUNTS}
            result = replace(result, raw={**result.raw, **counts}, **counts)
        try:
            self._drop(_native.write_close(json.dumps(self.job), self.id, False))
        except (LoadError, RuntimeError) as error:
            # The rows are published: whoever heard of an error would write them again.
            warnings.warn(f"{self.id}: tables of tasks were left: {error}", stacklevel=2)
        return result

    def unstage(self, messages: Iterable[Message | None]) -> None:
        """Drop what these tasks have staged; others may write again."""
        tables = [message.table for message in messages if message and message.table]
        if tables:
            self._drop(_native.write_unstage(json.dumps(self.job), self.id, tables))

    def roll_back(self) -> None:
        """Drop what was staged: nothing of it is published. Published before, it stays so."""
        self._drop(_native.write_close(json.dumps(self.job), self.id, True))

    def _drop(self, answer: str) -> None:
        left = result_of_answer(answer)["left_behind"]
        if left:
            raise RuntimeError("; ".join(left))

    def _load(
        self, table: dict[str, Any], schema: Any, batches: Iterable[Any], **options: Any
    ) -> LoadResult:
        """Load batches, or none of a schema."""
        import pyarrow

        if batches == []:
            empty = pyarrow.Table.from_batches([], schema)
            source = _native.Source("staged", empty, True)
        else:
            source = _native.Source("task", _batches_of(batches), False)
        reject_dir = options.pop("reject_dir", self.reject_dir)
        # Columns that the rows don't have take their defaults.
        if table.get("columns") is None and not table.get("create"):
            table = {**table, "columns": list(schema.names)}
        given = {**self.job, **options}
        given = {name: value for name, value in given.items() if value is not None}
        job = {**given, "table": [{**table, "sources": [source.uri]}]}
        job.setdefault("streams", "1")
        asked = {"job": job, "reject_dir": reject_dir}
        result = result_of(json.loads(_native.load(json.dumps(asked))))
        del source
        return result

    def _check_rejects(self, told: list[Message]) -> None:
        """Write the rejects of all tasks; raise if there are more than are allowed."""
        rejected = sum(message.rejected for message in told)
        for message in told:
            for name, content in (message.rejects or {}).items():
                (Path(self.reject_dir) / name).write_bytes(content)
        limit = str(self.job.get("max_rejects", 0))
        rows = rejected + sum(message.rows for message in told)
        share = float(limit[:-1]) / 100 * rows if limit.endswith("%") else float(limit)
        if rejected > share:
            message = f"{rejected:,} rows were rejected by all tasks, {limit} allowed"
            raise RejectsError(message, 1, {"error": message, "rejected": rejected})


def _batches_of(batches: Iterable[Any]) -> Iterator[Any]:
    """Record batches, whatever a table is made of."""
    for batch in batches:
        yield from batch.to_batches() if hasattr(batch, "to_batches") else [batch]


def _rejects(folder: Path) -> Iterator[tuple[str, bytes]]:
    left = REJECTS_BYTES_MAX
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        left -= len(content)
        if left < 0:
            raise RuntimeError(f"a task has more than {REJECTS_BYTES_MAX >> 20} MiB of rejects")
        yield path.name, content
