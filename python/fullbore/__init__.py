"""Load flat files into PostgreSQL, from Python.

A thin, typed layer over the ``fullbore`` command: the same job, the same record.

>>> import fullbore
>>> result = fullbore.load("orders.csv", table="orders", create=True)  # doctest: +SKIP
>>> result.rows  # doctest: +SKIP
1234567
"""

from fullbore._load import LoadError, LoadResult, find_command, load

__all__ = ["LoadError", "LoadResult", "find_command", "load"]
