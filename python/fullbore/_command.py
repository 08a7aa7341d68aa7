"""The ``fullbore`` command, for what runs as a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fullbore._errors import error_of


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


def preflight(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    to: str | None = None,
    table: str | None = None,
    arguments: Iterable[str] = (),
) -> dict[str, Any]:
    """Measure disk, network, server and job before a load, by ``fullbore preflight all``.

    It runs as a process of its own, so that what it measures is not shared with this one.
    ``arguments`` are further options of the command. Returns the object that ``--json`` prints;
    raises a :class:`fullbore.LoadError` if it cannot measure.
    """
    paths = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    command = [str(find_command()), "preflight", "all", "--json", *arguments]
    if table is not None:
        command += ["--table", table]
    # A database URL may hold a password: it goes through the environment, not the command line.
    environment = {**os.environ, **({"FULLBORE_TO": to} if to is not None else {})}
    ended = subprocess.run(
        [*command, "--", *(os.fspath(path) for path in paths)],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env=environment,
        check=False,
    )
    if ended.returncode != 0:
        answer = {"exit_code": ended.returncode, "message": ended.stderr.strip(), "result": {}}
        raise error_of(answer)
    return json.loads(ended.stdout)
