"""Peers from wheels, each set in a virtual environment of its own under `benchmarks/data`.

They are kept apart from `.venv` and from one another where they want other versions of the same
thing (DuckDB's PostgreSQL writer lags behind DuckDB).
"""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path

from lab import DATA, HERE, Failed, Missing, run_text


def python_with(module: str, requirements: str = "requirements.txt") -> str:
    """A Python that can import the module; Missing says why there is none."""
    python, problems = _environment(requirements)
    try:
        run_text([python, "-c", f"import {module}"])
    except Failed as error:
        why = problems or [str(error).splitlines()[-1]]
        raise Missing(f"its wheel could not be installed: {'; '.join(why)}") from error
    return python


@cache
def _environment(requirements: str) -> tuple[str, list[str]]:
    """The environment's Python, and what could not be installed."""
    wanted = (HERE / requirements).read_text()
    folder = DATA / Path(requirements).stem.replace("requirements", "venv")
    python = folder / "bin" / "python"
    stamp = folder / ".installed"
    print_of_it = hashlib.sha256((wanted + sys.version).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == print_of_it:
        return str(python), []
    print(f"installing {requirements} into {folder}", file=sys.stderr, flush=True)
    run_text([sys.executable, "-m", "venv", "--clear", str(folder)])
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        run_text([*install, "-r", str(HERE / requirements)])
        stamp.write_text(print_of_it)
        return str(python), []
    except Failed:
        # One that can't be had must not take the others with it.
        problems = []
        for line in wanted.splitlines():
            if line and not line.startswith("#"):
                try:
                    run_text([*install, line])
                except Failed as error:
                    problems.append(f"{line}: {str(error).splitlines()[-1]}")
        return str(python), problems
