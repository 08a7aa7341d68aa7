"""Run the command and parse its JSON output."""

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
    """A load that failed or was stopped.

    ``exit_code`` is the command's: 1 failed, nothing kept; 2 wrong usage, nothing changed;
    4 stopped, committed rows kept. ``run_id`` names the run for ``fullbore runs``, or is None if
    none began. ``raw`` is the object that ``--json`` prints, or empty if none was printed.
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
        """Whether ``fullbore runs resume`` can resume the run."""
        return bool(self.raw.get("resumable"))


@dataclass(frozen=True)
class LoadResult:
    """The result of a load; ``raw`` is the whole object that ``--json`` prints."""

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
        """The load rate as a share of the ceiling, or None if the ceiling is unknown."""
        return self.raw.get("achieved_over_ceiling")


def find_command() -> Path:
    """The path of the installed ``fullbore`` command.

    Raises FileNotFoundError if it cannot be found.
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

    ``options`` are those of the command, with underscores: ``max_rejects="1%"``, ``create=True``,
    ``columns=["a", "-", "b"]``, ``type=["id=bigint", "total=numeric(10,2)"]``,
    ``null=["NA", "-"]``. Raises LoadError if the load fails or is stopped.
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
    """The printed object, or an empty one if the command printed none."""
    try:
        value = json.loads(said)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _run(command: list[str], environment: dict[str, str]) -> tuple[int, str, str]:
    """Run the command to its end; return the exit code, stdout and stderr.

    An exception during the wait (an interrupt, or one from a signal handler) interrupts the
    command and waits for it to stop, so that the run can be resumed. A second one kills the
    command. The exception is raised only after the command has ended.
    """
    # Own session: otherwise a terminal interrupts it too, and a second interrupt ends it at once.
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


# Values that can contain a comma, such as numeric(10,2): one option per value.
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
