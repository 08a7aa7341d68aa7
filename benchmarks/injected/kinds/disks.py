"""Disks that are slow: under the source, under the log, under the data."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from cgroups import Group
from disks import Disk
from lab import SCRATCH, beside
from servers import REPLICA
from trial import PARTITIONS, Load, Stage, drawn, kind, table

MEGABYTE = 1_000_000
TARGET_SECONDS = 9.0


@contextmanager
def limit(group: Group, disk: Disk, way: str, per_second: int) -> Iterator[None]:
    group.disk(disk.device, way, per_second)
    try:
        yield
    finally:
        group.disk(disk.device, way, 0)


@kind
def source_throttled(stage: Stage, draw: Random) -> Iterator[Load]:
    """All source files lie on a disk that reads slowly, and none is in memory."""
    server = stage.server()
    table(server)
    disk = stage.disk("source", 1200)
    rate = draw.uniform(15, 50)
    files = disk.take(stage.files(rate * TARGET_SECONDS))
    client = stage.client()
    load = Load(server, files, drawn(draw), {"megabytes_per_second": rate})
    load.prefix = client.prefix()
    load.during = limit(client, disk, "read_bps", round(rate * MEGABYTE))
    yield load


@kind
def one_slow_file(stage: Stage, draw: Random) -> Iterator[Load]:
    """One of the source files lies on a slow disk, the others are in memory."""
    server = stage.server()
    table(server)
    disk = stage.disk("source", 1200)
    files = stage.files(300)
    rate = draw.uniform(3, 5)
    at = draw.randrange(len(files))
    slow = disk.take([files[at]])
    client = stage.client()
    load = Load(server, [*files[:at], *slow, *files[at + 1 :]], drawn(draw), {})
    load.notes = {"megabytes_per_second": rate, "file": slow[0].name}
    load.prefix = client.prefix()
    load.during = limit(client, disk, "read_bps", round(rate * MEGABYTE))
    yield load


FEED = """
import sys, time
rate, paths = float(sys.argv[1]), sys.argv[3:]
with open(sys.argv[2], "wb", buffering=0) as out:
    began, sent = time.monotonic(), 0
    for path in paths:
        with open(path, "rb", buffering=0) as source:
            while block := source.read(1 << 16):
                out.write(block)
                sent += len(block)
                time.sleep(max(0.0, sent / rate - (time.monotonic() - began)))
"""


@kind
def slow_pipe(stage: Stage, draw: Random) -> Iterator[Load]:
    """A named pipe into which a program writes slowly."""
    server = stage.server()
    table(server)
    rate = draw.uniform(10, 40)
    pipe = SCRATCH / "pipe.tbl"
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    files = stage.files(rate * TARGET_SECONDS)
    command = [sys.executable, "-c", FEED, str(rate * MEGABYTE), str(pipe), *map(str, files)]
    load = Load(server, [pipe], drawn(draw), {"megabytes_per_second": rate})
    load.during = beside(command)
    yield load
    pipe.unlink()


@kind
def wal_throttled(stage: Stage, draw: Random) -> Iterator[Load]:
    """The log has a disk of its own, which writes slowly; every row is logged."""
    disk = stage.disk("wal", 4096)
    # New files of the log would be written twice, until there are old ones to be used again.
    settings = {**REPLICA, "wal_init_zero": "off"}
    server = stage.server("slowlog", settings=settings, wal=disk.path)
    table(server)
    rate = draw.uniform(15, 40)
    # The log of lineitem is about as long as its text.
    files = stage.files(rate * TARGET_SECONDS)
    load = Load(server, files, drawn(draw), {"megabytes_per_second": rate})
    load.during = limit(server.group, disk, "write_bps", round(rate * MEGABYTE))
    yield load


@kind
def data_throttled(stage: Stage, draw: Random) -> Iterator[Load]:
    """The data files lie on a slow disk, the log does not; rows need no log."""
    disk = stage.disk("data", 4096)
    server = stage.server("slowdata", data=disk.path, wal=SCRATCH)
    rate = draw.uniform(20, 50)
    files = stage.files(rate * TARGET_SECONDS)
    options = ["--streams", str(draw.choice((2, 3, 4))), "--parsers", str(draw.choice((1, 2)))]
    load = Load(server, files, [*options, *PARTITIONS], {"megabytes_per_second": rate})
    load.during = limit(server.group, disk, "write_bps", round(rate * MEGABYTE))
    yield load
