"""Loads in threads, interrupted at any moment, again and again: nothing leaks and nothing hangs."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
from pathlib import Path

import fullbore
import pyarrow as pa
import pytest

pytestmark = pytest.mark.usefixtures("own_state")

# `make test-all` sets this.
ROUNDS = 10_000 if os.environ.get("FULLBORE_TEST_ALL") == "1" else 300
# What the allocators and the interpreter may still grow by, once they are warm.
GROWTH_BYTES_MAX = 48 << 20


def resident() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


def counts() -> tuple[int, int]:
    """Threads and open files of this process."""
    tasks, files = (sum(1 for _ in Path("/proc/self", of).iterdir()) for of in ("task", "fd"))
    return tasks, files


def test_rounds_of_threads_and_interrupts(tmp_path: Path) -> None:
    drawn = random.Random(22)
    table = pa.table({"n": range(20_000), "name": [f"name {n}" for n in range(20_000)]})
    file = tmp_path / "rows.csv"
    file.write_text("n,name\n" + "".join(f"{n},name {n}\n" for n in range(20_000)))
    loaded = interrupted = 0

    def beside() -> None:
        """A load in a thread, which no signal reaches."""
        assert fullbore.load(table, to="null:", table="t").rows == 20_000

    def interrupt(after: float) -> threading.Timer:
        """Interrupts the main thread in a moment."""
        main = threading.main_thread().ident
        assert main is not None
        timer = threading.Timer(after, signal.pthread_kill, (main, signal.SIGINT))
        timer.start()
        return timer

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        base = (0, (0, 0))
        for number in range(ROUNDS):
            if number == ROUNDS // 10:
                gc.collect()
                base = (resident(), counts())
            thread = threading.Thread(target=beside) if number % 4 == 0 else None
            if thread is not None:
                thread.start()
            source = table.to_reader(500) if number % 3 == 0 else (table, file)[number % 2]
            timer = None
            try:
                if number % 2:
                    timer = interrupt(drawn.uniform(0, 0.02))
                result = fullbore.load(source, to="null:", table="t")
                assert result.rows == 20_000
                loaded += 1
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                # One that comes late must not end the test.
                while timer is not None or thread is not None:
                    try:
                        if timer is not None:
                            timer.join()
                        if thread is not None:
                            thread.join(60)
                            assert not thread.is_alive(), f"round {number} hangs"
                        timer = thread = None
                    except KeyboardInterrupt:
                        pass
    finally:
        signal.signal(signal.SIGINT, before)
    gc.collect()
    assert loaded + interrupted == ROUNDS
    assert interrupted > ROUNDS // 20, "hardly any load was interrupted"
    assert counts() == base[1]
    assert resident() - base[0] < GROWTH_BYTES_MAX


def test_a_child_that_was_forked_can_load(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("n\n1\n2\n")
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if fullbore.load(file, to="null:").rows == 2 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_what_a_callback_raises_stops_the_load(tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    heard: list[fullbore.Progress] = []
    pipe = tmp_path / "rows.pipe"
    os.mkfifo(pipe)
    silent = threading.Event()

    def write() -> None:
        with pipe.open("w") as out:
            out.write("n\n" + "".join(f"{n}\n" for n in range(200_000)))
            out.flush()
            silent.wait(60)

    def hear(progress: fullbore.Progress) -> None:
        heard.append(progress)
        if len(heard) == 3:
            raise Enough

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pytest.raises(Enough) as raised:
            fullbore.load(pipe, to="null:", on_progress=hear)
    finally:
        silent.set()
        writer.join()
    assert len(heard) == 3 and heard[-1].rows > 0 and heard[-1].run_id
    assert any("stopped" in note for note in getattr(raised.value, "__notes__", ["stopped"]))
