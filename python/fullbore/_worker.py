"""What an engine's worker does: list files, ask the ledger, load a part."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fullbore import _native

# How often a worker tells of its part.
TELL_EVERY_S = 0.5

# Rejects that are handed over to the driver; more stay on their host.
REJECTS_BYTES_MAX = 64 << 20

Answer = dict[str, Any]


def _with(environment: Mapping[str, str]) -> None:
    """Reach the server as the driver's machine does: the process is its driver's alone."""
    os.environ.update(environment)


def list_files(job: Mapping[str, Any], environment: Mapping[str, str]) -> Answer:
    """The job's files on this host, in ``result`` by table."""
    _with(environment)
    return json.loads(_native.job_files(json.dumps(job)))


def standing(
    job: Mapping[str, Any], parts: int, resume: bool, environment: Mapping[str, str]
) -> Answer:
    """Where the load stands by the ledger, in ``result``."""
    _with(environment)
    return json.loads(_native.whole_standing(json.dumps(job), parts, resume))


def load_part(
    options: Mapping[str, Any],
    environment: Mapping[str, str],
    tell: Callable[[str, list[str]], tuple[bool, int | None]],
) -> Answer:
    """Load a part. Returns the answer of the load, ``host``, and ``rejects`` by file name.

    ``tell(host, lines)`` is called with the latest lines of the record. It returns whether the load
    stops once pieces in progress have ended, and how many bytes a second the part may send.
    """
    _with(environment)
    host = socket.gethostname()
    kept: list[str] = []
    told = 0.0
    run = ""
    rate: int | None = options["job"].get("max_rate")

    def heard(lines: list[str]) -> bool:
        nonlocal kept, told, run, rate
        kept += lines
        run = run or _run_of(lines)
        if time.monotonic() - told < TELL_EVERY_S:
            return False
        told = time.monotonic()
        lines, kept = kept, []
        stopped, wanted = tell(host, lines)
        if wanted != rate and run:
            # The run may have ended since its last line, and has nothing to send then. Otherwise it
            # is told again with its next lines.
            with contextlib.suppress(RuntimeError):
                _native.throttle(run, wanted)
                rate = wanted
        return stopped

    folder = Path(tempfile.mkdtemp(prefix="fullbore-rejects-"))
    asked = json.dumps({**options, "reject_dir": os.fspath(folder)})
    answer = json.loads(_native.load(asked, None, heard))
    tell(host, kept)
    return {**answer, "host": host, "reject_dir": os.fspath(folder), **_rejects(folder)}


def _run_of(lines: list[str]) -> str:
    """The run that a record is of, by the lines that begin it or resume it."""
    for line in lines:
        if '"run_id"' in line and (run := json.loads(line).get("run_id")):
            return str(run)
    return ""


def _rejects(folder: Path) -> dict[str, Any]:
    """Files of rejects, and whether they are too large to be handed over."""
    files = sorted(folder.iterdir())
    if sum(path.stat().st_size for path in files) > REJECTS_BYTES_MAX:
        return {"rejects": {}, "has_more": True}
    rejects = {path.name: path.read_bytes() for path in files}
    shutil.rmtree(folder, ignore_errors=True)
    return {"rejects": rejects, "has_more": False}
