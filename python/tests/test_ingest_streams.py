"""`fullbore ingest` of streams: standard input, pipes and sockets, each record once."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from embedded import Server
from ingests import NOTE, ROWS, command, events, expected, held, ingest, made, running, until

pytestmark = pytest.mark.usefixtures("own_state")


def lines(first: int, count: int) -> str:
    return "".join(f"{row},{row % 97},{NOTE}\n" for row in range(first, first + count))


def test_a_stream_is_cut_into_batches(table: Server) -> None:
    made(table)
    run = command(table, "-", "--adopt", "--format", "csv", "--batch-bytes", "100kB")
    text = "id,key,note\n" + lines(0, 5 * ROWS)
    ended = subprocess.run(
        [*run, "--header", "true", "--json"],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    assert [event["event"] for event in events(ended.stdout)].count("loaded") >= 5
    assert held(table) == expected(5)


def test_a_pipe_that_is_sent_again_is_loaded_once(table: Server, tmp_path: Path) -> None:
    made(table)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = lines(0, 6 * ROWS).encode()
    options = ("--adopt", "--format", "csv", "--batch-bytes", "100kB", "--replay")
    draw = random.Random(3)
    for attempt in range(4):
        with running(table, pipe, *options) as process:
            begun = threading.Event()
            sent = threading.Thread(target=send, args=(pipe, text, attempt < 3, begun), daemon=True)
            sent.start()
            # One that is not heard would send with the next.
            assert begun.wait(60)
            if attempt < 3:
                time.sleep(draw.uniform(0.3, 1.5))
                process.send_signal(signal.SIGKILL)
            else:
                until(lambda: held(table) == expected(6))
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            sent.join(10)
    assert held(table) == expected(6)


def send(pipe: Path, text: bytes, slowly: bool, begun: threading.Event) -> None:
    """Sends all of it from the beginning; whoever reads may go away."""
    try:
        with pipe.open("wb", buffering=0) as out:
            begun.set()
            for start in range(0, len(text), 65536):
                out.write(text[start : start + 65536])
                if slowly:
                    time.sleep(0.05)
    except BrokenPipeError:
        return


def test_senders_come_by_a_socket_one_after_another(table: Server, tmp_path: Path) -> None:
    made(table)
    path = tmp_path / "socket"
    options = ("--adopt", "--format", "csv", "--header", "true", "--batch-rows", "1000", "--json")
    with running(table, f"unix:{path}", *options) as process:
        until(path.exists)
        for number in range(3):
            with socket.socket(socket.AF_UNIX) as sender:
                sender.connect(str(path))
                rows = lines(number * ROWS, ROWS)
                # The last one is interrupted within a record, which another sender has again.
                rest = "" if number == 2 else f"{(number + 1) * ROWS},77"
                sender.sendall(f"id,key,note\n{rows}{rest}".encode())
        until(lambda: held(table) == expected(3))
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
    assert said.count("bytes are left out") == 2, said
    assert not path.exists()
    loaded = [event["rows"] for event in events(said) if event["event"] == "loaded"]
    assert sum(loaded) == 3 * ROWS


def test_two_do_not_write_to_one_folder(table: Server) -> None:
    made(table)
    run = command(table, "-", "--adopt", "--format", "csv")
    first = subprocess.Popen(run, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert first.stdin is not None
    first.stdin.write(lines(0, 10))
    first.stdin.flush()
    until(lambda: table.sql("SELECT to_regclass('fullbore_ledger.batches')") != [])
    second = subprocess.run(run, input=lines(10, 10), capture_output=True, text=True, timeout=60)
    assert second.returncode == 2
    assert "another process on this host ingests - into this table" in second.stderr
    first.communicate(timeout=60)
    assert first.returncode == 0
    assert held(table) == (10, 45)


def test_a_stream_needs_its_format(table: Server) -> None:
    made(table)
    assert "name it: --format" in ingest(table, "-", code=2)
