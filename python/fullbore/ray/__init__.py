"""Load on the hosts of a Ray cluster, and from Ray Data.

>>> import fullbore.ray
>>> fullbore.ray.load("lineitem.*", table="lineitem", hosts={"src1": "/data"})  # doctest: +SKIP

:func:`load` loads files by tasks where the files are; :class:`Sink` takes a dataset:
``ds.write_datasink(fullbore.ray.Sink("orders", to))``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fullbore import _native
from fullbore._errors import result_of_answer
from fullbore._load import LoadResult, Progress, given_options, result_of
from fullbore._sources import named
from fullbore.ray._connection import Connection, runtime_env
from fullbore.ray._driver import Driver

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fullbore._options import Options
    from fullbore.ray._sink import Sink

__all__ = ["Sink", "load", "runtime_env"]


def __getattr__(name: str) -> Any:
    # Ray Data is large, and not needed for files.
    if name == "Sink":
        from fullbore.ray._sink import Sink

        return Sink
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    to: str | None = None,
    table: str | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    **options: Unpack[Options],
) -> LoadResult:
    """Load files into a table by tasks on the hosts of a Ray cluster.

    Takes what :func:`fullbore.load` takes, paths or a job file as ``source``. ``hosts`` maps a
    label (``"key=value"``) or a custom resource of Ray to the directories of the host that has it;
    sources are relative to them. Without ``hosts`` every node must be able to read every source.
    ``streams`` is the number of sessions of all hosts together.

    Connects to ``on`` (the cluster of this machine, or ``"ray://HOST:PORT"``) unless Ray is
    connected already. An interrupt stops all parts once their pieces have ended, as does an
    exception of ``on_progress``; with ``resume=True`` the same call resumes the load, on any
    machine. Raises as :func:`fullbore.load` does.
    """
    paths, _ = named(source)
    described = {"on": "ray", **options}
    resume, reject_dir = described.pop("resume", False), described.pop("reject_dir", ".")
    job = result_of_answer(_native.job(given_options(paths, to, table, described)))

    def hear(line: dict[str, Any]) -> None:
        entry = line.get("entry", {})
        if on_progress is None or driver.interrupt is not None or entry.get("event") != "sample":
            return
        on_progress(_progress(driver.whole_id, entry))

    driver = Driver(job, resume, Path(reject_dir), hear)
    with Connection(job["on"]):
        answer = driver.run()
    if isinstance(driver.interrupt, KeyboardInterrupt):
        raise KeyboardInterrupt(answer["message"])
    if driver.interrupt is not None:
        # Before Python 3.11 an exception takes no notes.
        getattr(driver.interrupt, "add_note", lambda _: None)(answer["message"])
        raise driver.interrupt
    return result_of(answer)


def _progress(run_id: str, entry: Mapping[str, Any]) -> Progress:
    tables = entry["tables"]
    expected = [table["bytes_expected"] for table in tables]
    return Progress(
        run_id=run_id,
        seconds=entry["at"],
        rows=sum(table["rows_sent"] for table in tables),
        bytes=sum(table["bytes_sent"] for table in tables),
        bytes_expected=None if None in expected else sum(expected),
        rejected=sum(table["rejected"] for table in tables),
        streams=entry["streams_active"],
    )
