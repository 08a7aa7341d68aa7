"""The crash matrix's short form: ``python -m crash`` kills twenty times at each moment."""

from __future__ import annotations

import pytest
from conftest import WANTED
from crash.phases import PHASES
from crash.run import Orphans, run
from server import ROOT, installations

SEED = 20240229


@pytest.mark.parametrize(("version", "level"), [("15", "minimal"), ("18", "replica")])
def test_a_kill_at_every_moment(version: str, level: str) -> None:
    """Once each: the piece is absent or complete, as its moment demands, all else as it was."""
    installation = next(i for i in installations() if i.name == version)
    if version not in WANTED or not installation.pg_config.exists():
        pytest.skip(f"no PostgreSQL {version} at {installation.pg_config}")
    orphans = Orphans(ROOT / ".venv" / "bin" / "fullbore")
    account, _ = run(installation, [level], 1, SEED, orphans, short=True)
    wanted = {p.name for p in PHASES if level in p.levels and version in p.versions}
    # Every moment was reached, and every one by the death of client and backend.
    for victim in ("client", "backend"):
        reached = {key[1] for key in account.outcomes if key[2] == victim}
        assert reached == wanted
