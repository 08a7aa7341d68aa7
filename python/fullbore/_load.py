"""Load, plan and resume, in this process."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fullbore import _native
from fullbore._errors import error_of, result_of_answer
from fullbore._sources import Source, named

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fullbore._options import Options

LOADED = 0
LOADED_WITH_REJECTS = 3


@dataclass(frozen=True)
class LoadResult:
    """The result of a load; ``raw`` is the whole object that ``fullbore load --json`` prints."""

    run_id: str
    rows: int
    rejected: int
    bytes: int
    seconds: float
    notes: list[str] = field(repr=False)
    raw: dict[str, Any] = field(repr=False)

    @property
    def bytes_per_second(self) -> float:
        """Source bytes per second, over all phases."""
        return self.bytes / self.seconds if self.seconds else 0.0

    @property
    def achieved_over_ceiling(self) -> float | None:
        """The load rate as a share of the ceiling, or None if the ceiling is unknown."""
        return self.raw.get("achieved_over_ceiling")

    @property
    def bottleneck(self) -> str | None:
        """The identifier of what limited the load, or None if that is unknown."""
        return (self.raw.get("verdict") or {}).get("limit")

    def report(self) -> str:
        """The run's report: one page of HTML."""
        return report(self.run_id)

    def _repr_html_(self) -> str:
        page = html.escape(self.report(), quote=True)
        return (
            f'<iframe srcdoc="{page}" title="Report of run {html.escape(self.run_id)}" '
            'sandbox="allow-scripts" style="width: 100%; height: 40em; border: 0"></iframe>'
        )


@dataclass(frozen=True)
class Progress:
    """How far a load has come. Rows and bytes are those sent, committed or not."""

    run_id: str
    seconds: float
    rows: int
    bytes: int
    bytes_expected: int | None
    rejected: int
    streams: int


@dataclass(frozen=True)
class Plan:
    """What a load would do; ``raw`` is the object that ``fullbore plan --json`` prints."""

    text: str
    raw: dict[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Run:
    """A run of this machine; ``raw`` is the object that ``fullbore runs list --json`` prints."""

    run_id: str
    state: str
    tables: list[str]
    rows: int
    rejected: int
    bytes: int
    seconds: float
    error: str | None
    raw: dict[str, Any] = field(repr=False)

    def report(self) -> str:
        """The run's report: one page of HTML."""
        return report(self.run_id)


def load(
    source: Source,
    *,
    to: str | None = None,
    table: str | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    **options: Unpack[Options],
) -> LoadResult:
    """Load files or Arrow data into a table.

    ``source`` is a path or several (files, globs, directories, or one job file), an object with
    ``__arrow_c_stream__`` (a pyarrow Table, a polars or pandas DataFrame, a DuckDB relation), or an
    iterator of record batches, tables or frames. Arrow data needs ``table``. ``to`` is a
    PostgreSQL URL or another destination of ``fullbore load --to``. ``options`` are the keys of a
    job file: ``max_rejects="1%"``, ``create=True``, ``columns=["a", "-", "b"]``,
    ``types={"total": "numeric(10,2)"}``.

    ``on_progress`` is called in this thread, at most ten times a second. What it raises, and an
    interrupt, stop the load as one Ctrl-C stops the command: once pieces in progress have ended,
    the exception is raised, and its note says what is kept. A second interrupt is raised at
    once.

    Raises a :class:`fullbore.LoadError` if the load fails, and TypeError or ValueError for a source
    that gives no rows with columns.
    """
    paths, alive = named(source)
    options_given = given_options(paths, to, table, options)
    answer = json.loads(_native.load(options_given, _listener(on_progress)))
    del alive
    return result_of(answer)


def resume(
    run: str,
    *,
    to: str | None = None,
    on_progress: Callable[[Progress], object] | None = None,
) -> LoadResult:
    """Resume a run of this machine by its id; ``"last"`` is the newest.

    ``to`` names its server, if its URL held a password. Raises as :func:`load` does.
    """
    return result_of(json.loads(_native.resume(run, to, _listener(on_progress))))


def plan(
    source: Source,
    *,
    to: str | None = None,
    table: str | None = None,
    **options: Unpack[Options],
) -> Plan:
    """Plan a load; nothing is changed. Takes what :func:`load` takes, and raises as it does."""
    paths, alive = named(source)
    raw = result_of_answer(_native.plan(given_options(paths, to, table, options)))
    del alive
    return Plan(text=raw["text"], raw=raw)


def runs() -> list[Run]:
    """The runs of this machine, newest first."""
    found = result_of_answer(_native.runs())
    names = [name for name in Run.__dataclass_fields__ if name != "raw"]
    return [Run(**{name: run[name] for name in names}, raw=run) for run in found]


def report(run: str) -> str:
    """The report of a run of this machine: one page of HTML. ``"last"`` is the newest run."""
    return result_of_answer(_native.report(run))


def result_of(answer: dict[str, Any]) -> LoadResult:
    if answer["exit_code"] not in (LOADED, LOADED_WITH_REJECTS):
        raise error_of(answer)
    raw = answer["result"]
    return LoadResult(
        run_id=raw["run_id"],
        rows=raw["rows"],
        rejected=raw["rejected"],
        bytes=raw["bytes"],
        seconds=raw["seconds"],
        notes=answer["notes"],
        raw=raw,
    )


def given_options(
    paths: list[str], to: str | None, table: str | None, options: Mapping[str, Any]
) -> str:
    """The options of a load as the native module takes them."""
    given: dict[str, Any] = {"sources": paths, **options}
    if to is not None:
        given["to"] = to
    if table is not None:
        given["name"] = table
    types = given.get("types")
    if isinstance(types, Mapping):
        given["types"] = [f"{column}={kind}" for column, kind in types.items()]
    given = {name: value for name, value in given.items() if value is not None}
    return json.dumps(given, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{value!r} can't be the value of an option")


def _listener(on_progress: Callable[[Progress], object] | None) -> Callable[[str], object] | None:
    if on_progress is None:
        return None
    return lambda said: on_progress(Progress(**json.loads(said)))
