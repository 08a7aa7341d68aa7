"""`make installcheck`: the golden pairs in sql/ and expected/, where the server has pg_regress."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from server import EXTENSION, Server


def test_installcheck(any_server: Server) -> None:
    pgxs = Path(any_server.program("pg_config", "--pgxs").strip())
    if not (pgxs.parent.parent / "test/regress/pg_regress").exists():
        pytest.skip("this server has no pg_regress")
    copied = any_server.built / "test"
    for folder in ("sql", "expected"):
        shutil.copytree(EXTENSION / "test" / folder, copied / folder, dirs_exist_ok=True)
    command = ["make", "-s", f"PG_CONFIG={any_server.bin_dir / 'pg_config'}", "installcheck"]
    where = {"PGHOST": str(any_server.socket_dir), "PGUSER": "postgres"}
    done = subprocess.run(
        command,
        cwd=any_server.built,
        env={**any_server.environment, **where},
        capture_output=True,
        text=True,
    )
    differences = copied / "results" / "regression.diffs"
    shown = differences.read_text() if differences.exists() else ""
    assert done.returncode == 0, done.stdout + done.stderr + shown
