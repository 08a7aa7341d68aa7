"""Load files from Airflow: an operator, and a hook for its own bulk loads.

>>> LoadFiles(task_id="orders", source="/data/orders/*.csv", table="orders")  # doctest: +SKIP

The operator runs the command in a process of its own. A retry of the task resumes the run that was
interrupted; clearing or marking the task stops it as Ctrl-C does: committed pieces stay, and the
next try resumes.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.sdk import BaseHook, BaseOperator

import fullbore
from fullbore._command import find_command

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["FullboreHook", "LoadFiles"]

# Exit codes of the command: loaded, and loaded with rejects within the limit.
_LOADED = (0, 3)


class FullboreHook(BaseHook):
    """Loads by a connection of Airflow, of type Postgres or whatever has a URL."""

    conn_name_attr = "fullbore_conn_id"
    default_conn_name = "postgres_default"
    hook_name = "Fullbore"

    def __init__(self, fullbore_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.fullbore_conn_id = fullbore_conn_id

    def url(self) -> str:
        """Where rows go, its password included."""
        url = self.get_connection(self.fullbore_conn_id).get_uri()
        # Airflow's own word for it is an older one.
        is_postgres = urlsplit(url).scheme == "postgres"
        return url.replace("postgres:", "postgresql:", 1) if is_postgres else url

    def bulk_load(self, table: str, tmp_file: str, **options: Any) -> fullbore.LoadResult:
        """Load a file into a table; what Airflow's ``SQLBulkLoadOperator`` calls.

        ``options`` are those of :func:`fullbore.load`, which says what is raised.
        """
        return fullbore.load(tmp_file, to=self.url(), table=table, **options)


class LoadFiles(BaseOperator):
    """Loads files, globs, folders or one job file.

    ``options`` are those of the command by their names: ``{"publish": "replace", "create": True}``;
    a list gives an option several times: ``{"null": ["NA", "-"]}``. Returns what ``fullbore load
    --json`` prints. Fails as the command does, with its message.
    """

    template_fields: Sequence[str] = ("source", "table", "options")

    def __init__(
        self,
        *,
        source: str | list[str],
        table: str | None = None,
        fullbore_conn_id: str = FullboreHook.default_conn_name,
        options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.table = table
        self.fullbore_conn_id = fullbore_conn_id
        self.options = options or {}
        self._process: subprocess.Popen[str] | None = None

    def command(self, try_number: int) -> list[str]:
        """The command line, without its URL; of a later try, one that resumes."""
        sources = [self.source] if isinstance(self.source, str) else list(self.source)
        line = [str(find_command()), "load", *sources, "--json", "--quiet"]
        if self.table is not None:
            line += ["--table", self.table]
        for name, given in self.options.items():
            for value in given if isinstance(given, (list, tuple)) else [given]:
                if value is True:
                    line.append(f"--{name}")
                elif value is not False and value is not None:
                    line.append(f"--{name}={value}")
        return line + ["--resume"] * (try_number > 1 and not self._begins_anew())

    def _begins_anew(self) -> bool:
        """Whether a try that failed left nothing: no row was visible, no run can be resumed."""
        given = self.options.get
        has_none = given("order-by") or given("no-ledger")
        is_whole = given("atomic") or given("publish") in ("replace", "partitions")
        return bool(has_none and is_whole)

    def execute(self, context: Context) -> dict[str, Any]:
        """Load, and give back what came of it."""
        # A password among arguments could be seen by other users of the machine.
        environment = {**os.environ, "FULLBORE_TO": FullboreHook(self.fullbore_conn_id).url()}
        self._process = subprocess.Popen(
            self.command(context["ti"].try_number),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=environment,
        )
        answer, said = self._process.communicate()
        for line in said.splitlines():
            self.log.info(line)
        if self._process.returncode not in _LOADED:
            raise RuntimeError(said.strip() or f"the load ended with {self._process.returncode}")
        return json.loads(answer)

    def on_kill(self) -> None:
        """Stop the load; what is committed is kept for the next try."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(60)
