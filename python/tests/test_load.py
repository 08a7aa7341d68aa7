"""The Python layer over the command, on a destination that needs no server."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from pathlib import Path

import fullbore
import pytest

pytestmark = pytest.mark.usefixtures("own_state")


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
    # No run was begun.
    assert raised.value.run_id is None


def test_a_failed_run_is_named_by_its_error(tmp_path: Path) -> None:
    source = tmp_path / "bad.csv"
    source.write_text("n,m\n1,2\n3\n")
    with pytest.raises(fullbore.LoadError) as raised:
        fullbore.load(source, to="null:", header="true", format="csv")
    assert raised.value.exit_code == 1
    assert len(raised.value.run_id or "") == 20
    assert raised.value.raw["rejected"] == 1
    assert not raised.value.resumable


def test_lists_are_given_as_options_of_their_own(tmp_path: Path) -> None:
    source = tmp_path / "nulls.csv"
    source.write_text("n,m\n1,NA\nn/a,2\n3,a,b\n")
    nulls = ["NA", "n/a", "a;b"]
    result = fullbore.load(
        source, to="null:", header="true", null=nulls, types={"n": "int", "m": "int"}, max_rejects=1
    )
    # The row with one field more is rejected; of the others all values are of their types.
    assert (result.rows, result.rejected) == (2, 1)


def test_the_destination_that_is_named_is_the_one(tmp_path: Path) -> None:
    (tmp_path / "numbers.csv").write_text("n\n1\n")
    job = tmp_path / "job.toml"
    job.write_text(
        'to = "postgresql://127.0.0.1:1/nothing"\n'
        '[[table]]\nname = "t"\nsources = ["numbers.csv"]\n'
    )
    result = fullbore.load(job, to=f"parquet:{tmp_path / 'out'}")
    assert result.rows == 1
    assert list((tmp_path / "out").rglob("*.parquet"))


def test_a_job_file_is_changed_by_settings(tmp_path: Path) -> None:
    (tmp_path / "numbers.csv").write_text("n;m\n1;2\n")
    job = tmp_path / "job.toml"
    job.write_text('to = "null:"\n[[table]]\nname = "t"\nsources = ["missing.csv"]\n')
    settings = ['table.t.sources=["numbers.csv"]', "streams=3"]
    result = fullbore.load(job, set=settings, max_rejects=1)
    assert (result.rows, result.raw["streams"]) == (1, 3)
    with pytest.raises(fullbore.UsageError, match="can't be combined with a job file"):
        fullbore.load(job, delimiter=";")
    with pytest.raises(fullbore.UsageError, match="--set changes a job file"):
        fullbore.load("numbers.csv", to="null:", set=settings)


def test_a_dry_run_is_no_load(tmp_path: Path) -> None:
    with pytest.raises(fullbore.UsageError, match="dry_run"):
        fullbore.load(tmp_path / "numbers.csv", to="null:", dry_run=True)


class Given(Exception):
    """What a handler of the caller's own raises."""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_reaches_the_command(
    tmp_path: Path, sent: signal.Signals, request: pytest.FixtureRequest
) -> None:
    def give(*_: object) -> None:
        raise Given

    # Python's own handler for interrupts: what a shell starts in the background ignores them.
    for number, handler in (
        (signal.SIGTERM, give),
        (signal.SIGINT, signal.default_int_handler),
    ):
        before = signal.signal(number, handler)
        request.addfinalizer(functools.partial(signal.signal, number, before))
    pipe = tmp_path / "rows.pipe"
    os.mkfifo(pipe)
    # More than is looked at beforehand, and then silence.
    rows = "n\n" + "".join(f"{n}\n" for n in range(200_000))
    ended = threading.Event()

    def write() -> None:
        with pipe.open("w") as out:
            out.write(rows)
            out.flush()
            time.sleep(1)
            os.kill(os.getpid(), sent)
            ended.wait(60)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        # Either way the load has ended: a pipe that nobody reads any more says so to its writer.
        if sent == signal.SIGINT:
            with pytest.raises(KeyboardInterrupt, match="stopped by a signal"):
                fullbore.load(pipe, to="null:")
        else:
            with pytest.raises(Given):
                fullbore.load(pipe, to="null:")
        (run,) = (tmp_path / "state" / "runs").iterdir()
        assert "stopped by a signal" in (run / "record.jsonl").read_text()
    finally:
        ended.set()
        writer.join()
