"""What a load raises."""

from __future__ import annotations

import json
from typing import Any


class LoadError(RuntimeError):
    """A load that failed, was stopped, or was refused.

    ``exit_code`` is the command's: 1 failed, nothing kept; 2 refused, nothing changed; 4 stopped,
    committed rows kept. ``run_id`` names the run, or is None if none began. ``raw`` is the object
    that ``fullbore load --json`` prints.

    ``file``, ``line`` or ``row`` (both from 1), ``column``, ``value`` and ``reason`` describe the
    row that was one reject too many; ``file`` alone, the file that could not be read. ``hint`` says
    what to do. Each is None where it does not apply.
    """

    def __init__(self, message: str, exit_code: int, raw: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.raw = raw or {}
        self.run_id: str | None = self.raw.get("run_id")
        details = self.raw.get("error_details") or {}
        self.file: str | None = details.get("file")
        self.line: int | None = details.get("line")
        self.row: int | None = details.get("row")
        self.column: str | None = details.get("column")
        self.value: str | None = details.get("value")
        self.reason: str | None = details.get("reason")
        self.hint: str | None = details.get("hint")

    def __reduce__(self) -> tuple[Any, ...]:
        # Engines send exceptions from worker to driver.
        return type(self), (str(self), self.exit_code, self.raw)

    @property
    def resumable(self) -> bool:
        """Whether :func:`fullbore.resume` can resume the run."""
        return bool(self.raw.get("resumable"))


class UsageError(LoadError):
    """Options, a job or a table that contradict each other; nothing was changed."""


class SourceError(LoadError):
    """A source that could not be read, is damaged, or changed during the load."""


class RejectsError(LoadError):
    """More rows were rejected than ``max_rejects`` allows."""


class DestinationError(LoadError):
    """The destination refused or failed."""


_KINDS: dict[str, type[LoadError]] = {
    "usage": UsageError,
    "read": SourceError,
    "source": SourceError,
    "source-changed": SourceError,
    "rejects": RejectsError,
    "destination": DestinationError,
    "taken-over": DestinationError,
    "rolling-back": DestinationError,
}


def result_of_answer(answer: str) -> Any:
    """The result in an answer of the native module; raises what it refused."""
    parsed = json.loads(answer)
    if parsed["exit_code"] != 0:
        raise error_of(parsed)
    return parsed["result"]


def error_of(answer: dict[str, Any]) -> LoadError:
    """The exception for an answer of the native module."""
    error = _KINDS.get(kind_of(answer), LoadError)
    return error(answer["message"], answer["exit_code"], answer["result"])


def kind_of(answer: dict[str, Any]) -> str:
    """The kind of error in an answer, as the native module calls it; empty if there is none."""
    return (answer["result"].get("error_details") or {}).get("kind", "")
