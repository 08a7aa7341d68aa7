"""The README's figures are those of the newest runs that are kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_readme_has_the_figures_of_the_newest_runs() -> None:
    script = ROOT / "benchmarks" / "figures.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
