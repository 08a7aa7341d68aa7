"""The Python layer over the command, on a destination that needs no server."""

from __future__ import annotations

from pathlib import Path

import fullbore
import pytest


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FULLBORE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def test_a_load_says_what_it_came_to(tmp_path: Path) -> None:
    source = tmp_path / "numbers.csv"
    source.write_text("n,name\n" + "".join(f"{n},name {n}\n" for n in range(1000)))
    result = fullbore.load(source, to="null:")
    assert result.rows == 1000
    assert result.rejected == 0
    assert result.bytes == source.stat().st_size - len("n,name\n")
    assert result.bytes_per_second > 0
    assert result.run_id


def test_options_reach_the_command(tmp_path: Path) -> None:
    source = tmp_path / "plain.txt"
    source.write_text("1;2\n3;4\n")
    result = fullbore.load([source], to="null:", format="csv", delimiter=";", columns=["a", "-"])
    assert result.rows == 2


def test_a_failed_load_raises_with_the_exit_code(tmp_path: Path) -> None:
    with pytest.raises(fullbore.LoadError) as raised:
        fullbore.load(tmp_path / "missing.csv", to="null:")
    assert raised.value.exit_code == 2
    assert "missing.csv" in str(raised.value)
