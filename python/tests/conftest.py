"""Servers for tests of the Python package."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from embedded import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    base = Path(os.environ.get("FULLBORE_TEST_DIR", tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(dir=base, ignore_cleanup_errors=True) as home:
        # Root hands the server over to an ordinary user.
        Path(home).chmod(0o755)
        started = Server(Path(home))
        yield started
        started.run("server", "stop")


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are kept in a folder of the test's own, which is the current one."""
    monkeypatch.setenv("FULLBORE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
