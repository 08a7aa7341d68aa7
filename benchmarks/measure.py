"""Runs clients and accounts for their time, CPU and memory."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from lab import SCRATCH, Failed, Measured
from server import Server

Command = tuple[list[str], Path | None]


def run_measured(
    server: Server,
    commands: list[Command],
    feed: list[str] | None = None,
    env: dict[str, str] | None = None,
    then: Sequence[list[Command]] = (),
) -> Measured:
    """Runs commands side by side to their end, then CHECKPOINT.

    Each command comes with the file that is its standard input, if any. ``feed`` is a command
    whose output is piped into the first one; it is no client, so its CPU is only noted. ``then``
    are commands that begin once all those before have ended.
    """
    SCRATCH.mkdir(parents=True, exist_ok=True)
    server_before = server.cpu_seconds()
    began = time.monotonic()
    started: list[subprocess.Popen[bytes]] = []
    try:
        cpu, memory, notes = _run(server, commands, feed, server.env | (env or {}), started)
        for number, later in enumerate(then):
            notes[f"seconds_before_{number + 1}"] = time.monotonic() - began
            more, peak, _ = _run(server, later, None, server.env | (env or {}), started)
            cpu, memory = cpu + more, max(memory, peak)
    finally:
        for process in started:
            if process.returncode is None:
                process.kill()
                process.wait()
    notes["seconds_before_checkpoint"] = time.monotonic() - began
    server.sql("CHECKPOINT")
    seconds = time.monotonic() - began
    return Measured(seconds, server.cpu_seconds() - server_before, cpu, memory, notes)


def _run(
    server: Server,
    commands: list[Command],
    feed: list[str] | None,
    env: dict[str, str],
    started: list[subprocess.Popen[bytes]],
) -> tuple[float, int, dict[str, object]]:
    """CPU seconds and the peaks of memory of all commands, and notes."""
    feeder = None
    if feed is not None:
        with (SCRATCH / "feed.log").open("wb") as errors:
            feeder = subprocess.Popen(feed, stdout=subprocess.PIPE, stderr=errors, env=env)
        started.append(feeder)
    clients = []
    for number, (command, stdin) in enumerate(commands):
        log = SCRATCH / f"client-{number}.log"
        with log.open("wb") as out, Path(stdin or os.devnull).open("rb") as source:
            process = subprocess.Popen(
                [*server.client_prefix, *command],
                stdin=feeder.stdout if feeder and number == 0 else source,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=env,
            )
        started.append(process)
        clients.append((process, log))
    if feeder is not None and feeder.stdout is not None:
        feeder.stdout.close()
    cpu, memory, problems = 0.0, 0, []
    notes: dict[str, object] = {}
    for process, log in clients:
        spent, peak = _wait(process)
        cpu += spent
        memory += peak
        if process.returncode != 0:
            problems.append(log.read_text(errors="replace").strip()[-2000:] or "it said nothing")
    if feeder is not None:
        notes["feed_cpu"] = _wait(feeder)[0]
        if feeder.returncode != 0:
            problems.append(f"what fed it: {(SCRATCH / 'feed.log').read_text()[-500:]}")
    if problems:
        raise Failed("\n".join(problems))
    return cpu, memory, notes


def said() -> str:
    """What the first client of the last run printed."""
    return (SCRATCH / "client-0.log").read_text(errors="replace")


def _wait(process: subprocess.Popen[bytes]) -> tuple[float, int]:
    """CPU seconds, and peak memory in bytes, of a process and of the children it waited for."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
