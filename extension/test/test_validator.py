"""The validator alone, under valgrind: on bodies of many shapes, no byte of others is read."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from server import EXTENSION


def test_valgrind_finds_nothing() -> None:
    missing = [name for name in ("cc", "make", "valgrind") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"VALGRIND IS NOT RUN: {', '.join(missing)} is missing")
    command = ["make", "-C", str(EXTENSION / "fuzz"), "valgrind", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "500 inputs" in done.stdout
