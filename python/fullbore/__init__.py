"""Load files and Arrow data into PostgreSQL, from Python.

>>> import fullbore
>>> result = fullbore.load("orders.csv", table="orders", create=True)  # doctest: +SKIP
>>> result.rows  # doctest: +SKIP
1234567
"""

from fullbore._command import find_command, preflight
from fullbore._errors import DestinationError, LoadError, RejectsError, SourceError, UsageError
from fullbore._load import LoadResult, Plan, Progress, Run, load, plan, report, resume, runs

__all__ = [
    "DestinationError",
    "LoadError",
    "LoadResult",
    "Plan",
    "Progress",
    "RejectsError",
    "Run",
    "SourceError",
    "UsageError",
    "find_command",
    "load",
    "plan",
    "preflight",
    "report",
    "resume",
    "runs",
]
