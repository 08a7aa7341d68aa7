"""The hostile client's short form: ``python -m hostile`` sends a hundred thousand."""

from __future__ import annotations

import pytest
from conftest import fresh
from hostile.run import attack
from server import Server

SEED = 20240229
MUTANTS = 600


def test_mutants_are_refused_or_sound(any_server: Server) -> None:
    """Three thousand over all versions; what each is held to is told in ``hostile.judge``."""
    session = fresh(any_server)
    run = attack(any_server, MUTANTS, SEED, database=session.database)
    session.close()
    assert run.tally.findings == [], f"seed {SEED}: {run.tally.findings}"
    # Both ways out were taken, or nothing was tested.
    if sum(run.tally.accepted.values()) < 50 or run.tally.refused.total() < 300:
        pytest.fail(f"seed {SEED}: {run.tally.accepted}, {run.tally.refused}")
