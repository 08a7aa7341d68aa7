"""Runs the command and reads the one object that it prints."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LOADED = 0
LOADED_WITH_REJECTS = 3


class LoadError(RuntimeError):
    """A load that did not end well.

    ``exit_code`` is the command's: 1 failed and nothing kept, 2 wrong usage and nothing touched,
    4 stopped with committed pieces kept. ``run_id`` names the run for ``fullbore runs``, None where
    none was begun; ``raw`` is the object that ``--json`` prints, empty where there is none.
    """

    def __init__(
        self,
        message: str,
        exit_code: int,
        run_id: str | None = None,
        raw: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.run_id = run_id
        self.raw = raw or {}

    @property
    def resumable(self) -> bool:
        """Whether ``fullbore runs resume`` goes on with it."""
        return bool(self.raw.get("resumable"))


@dataclass(frozen=True)
class LoadResult:
    """What a load came to; ``raw`` is the whole object that ``--json`` prints."""

    run_id: str
    rows: int
    rejected: int
    bytes: int
    seconds: float
    raw: dict[str, Any] = field(repr=False)

    @property
    def bytes_per_second(self) -> float:
        """Source bytes per second, over all phases."""
        return self.bytes / self.seconds if self.seconds else 0.0

    @property
    def achieved_over_ceiling(self) -> float | None:
        """The rate while rows moved, as a share of the ceiling; None where none is known."""
        return self.raw.get("achieved_over_ceiling")


def find_command() -> Path:
    """The installed ``fullbore`` command.

    Raises FileNotFoundError where it can't be found.
    """
    name = "fullbore" + (sysconfig.get_config_var("EXE") or "")
    beside = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    for folder in beside:
        if (folder / name).is_file():
            return folder / name
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError("the fullbore command is not installed with this Python")
    return Path(found)


def load(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    to: str | None = None,
    table: str | None = None,
    **options: Any,
) -> LoadResult:
    """Load files into a table.

    ``options`` are the command's own, with underscores: ``max_rejects="1%"``, ``create=True``,
    ``columns=["a", "-", "b"]``, ``type=["id=bigint", "total=numeric(10,2)"]``,
    ``null=["NA", "-"]``. Raises LoadError where the load did not end well.
    """
    if options.get("dry_run"):
        raise ValueError("a dry run loads nothing: see `fullbore plan`")
    if isinstance(sources, str | os.PathLike):
        sources = [sources]
    # A database URL may hold a password: it goes through the environment, not the command line.
    environment = dict(os.environ)
    command = [str(find_command()), "load", "--json", "--quiet"]
    if to is not None:
        environment["FULLBORE_TO"] = to
    if table is not None:
        command += ["--table", table]
    for name, value in options.items():
        command += _flag(name, value)
    command += ["--", *(os.fspath(source) for source in sources)]
    code, said, text = _run(command, environment)
    if code not in (LOADED, LOADED_WITH_REJECTS):
        raw = _object(said)
        raise LoadError(text.strip(), code, raw.get("run_id"), raw)
    raw = json.loads(said)
    return LoadResult(
        run_id=raw["run_id"],
        rows=raw["rows"],
        rejected=raw["rejected"],
        bytes=raw["bytes"],
        seconds=raw["seconds"],
        raw=raw,
    )


def _object(said: str) -> dict[str, Any]:
    """The object that was printed; an empty one where the command ended before that."""
    try:
        value = json.loads(said)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _run(command: list[str], environment: dict[str, str]) -> tuple[int, str, str]:
    """Runs to the end: the exit code and what was printed.

    Whatever ends the wait early (an interrupt, an exception out of a signal's handler) interrupts
    the command and waits on, so that pieces under way end and what is there can be resumed; the
    second time it is ended at once. Nothing is raised while it goes on.
    """
    # In a session of its own: a terminal would interrupt it too, and two interrupts end it at once.
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        env=environment,
        start_new_session=True,
    )
    reason: BaseException | None = None
    while True:
        try:
            said, text = process.communicate()
        except BaseException as raised:
            if process.poll() is not None:
                raise
            process.send_signal(signal.SIGINT if reason is None else signal.SIGKILL)
            reason = reason or raised
            continue
        if isinstance(reason, KeyboardInterrupt):
            raise KeyboardInterrupt(text.strip())
        if reason is not None:
            raise reason
        return process.returncode, said, text


# Whose values may hold a comma, as numeric(10,2) does: each has an option of its own.
_ONE_EACH = {"type", "set", "null"}


def _flag(name: str, value: Any) -> list[str]:
    flag = "--" + name.replace("_", "-")
    if value is None or value is False:
        return []
    if value is True:
        return [flag]
    if isinstance(value, list | tuple) and name in _ONE_EACH:
        return [f"{flag}={one}" for one in value]
    if isinstance(value, list | tuple):
        return [f"{flag}={','.join(map(str, value))}"]
    return [f"{flag}={value}"]
