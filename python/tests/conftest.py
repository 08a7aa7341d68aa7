"""Servers for tests of the Python package."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from database_places import DRIVERS, MariaDb
from embedded import Server
from ingests import clean

# Without it, on Python 3.10, Arrow data is not tested.
HAS_ARROW = importlib.util.find_spec("pyarrow") is not None
collect_ignore = [] if HAS_ARROW else ["test_arrow.py", "test_rounds.py", "test_write.py"]


def pytest_report_header() -> list[str]:
    """Says what is left out."""
    return [] if HAS_ARROW else ["ARROW DATA IS NOT TESTED: it needs Python 3.11 and pyarrow"]


@contextmanager
def a_home() -> Iterator[Path]:
    """A folder for a server, which root hands over to an ordinary user."""
    base = Path(os.environ.get("FULLBORE_TEST_DIR", tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(dir=base, ignore_cleanup_errors=True) as home:
        Path(home).chmod(0o755)
        yield Path(home)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with a_home() as home:
        started = Server(home)
        yield started
        started.run("server", "stop")


@pytest.fixture(scope="session")
def maria() -> Iterator[MariaDb]:
    with a_home() as home:
        started = MariaDb(home)
        yield started
        started.stop()


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers of other databases are found."""
    monkeypatch.setenv("ADBC_DRIVER_PATH", str(DRIVERS))
    monkeypatch.delenv("FULLBORE_TO", raising=False)


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are kept in a folder of the test's own, which is the current one."""
    monkeypatch.setenv("FULLBORE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where files to ingest appear."""
    made = tmp_path / "incoming"
    made.mkdir()
    return made


@pytest.fixture
def table(server: Server) -> Server:
    """A server without the table that is ingested into."""
    return clean(server)
