"""Loads whose limits can be set: to see what becomes of the rate when advice is followed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from kinds.disks import MEGABYTE, limit
from kinds.locks import held
from kinds.processors import busy_programs, quota
from lab import run
from links import Hosts
from servers import MINIMAL, Server
from trial import PARTITIONS, Load, Stage, table


def with_streams(count: int, *more: str) -> list[str]:
    """Options."""
    return ["--streams", str(count), *more]


@contextmanager
def cores(
    stage: Stage, server_cores: float | None, client_cores: float | None, *options: str
) -> Iterator[Load]:
    """Server and client with so many cores each."""
    server, client = stage.server(), stage.client()
    is_partitions = "partitions" in options
    if is_partitions:
        server.sql("CREATE EXTENSION IF NOT EXISTS fullbore")
    else:
        table(server)
    files = stage.files(300 if is_partitions else 500)
    with ExitStack() as limits:
        load = Load(server, files, list(options), {}, prefix=client.prefix())
        if server_cores is not None:
            limits.enter_context(quota(server.group, server_cores))
        if client_cores is not None:
            limits.enter_context(quota(client, client_cores))
        yield load


@contextmanager
def indexed(stage: Stage, publish: str) -> Iterator[Load]:
    """A table with indexes, appended to or replaced."""
    server = stage.server()
    columns = ("l_orderkey", "l_partkey", "l_suppkey", "l_comment")
    table(server, "; ".join(f"CREATE INDEX ON lineitem ({column})" for column in columns))
    yield Load(server, stage.files(140), with_streams(3, "--publish", publish), {})


@contextmanager
def plain(stage: Stage, options: list[str], busy: int = 0, lock_s: float = 0) -> Iterator[Load]:
    """Into a table, beside so many busy programs, and a lock of somebody else."""
    server = stage.server()
    table(server)
    load = Load(server, stage.files(300), options, {})
    if busy:
        load.during = busy_programs(busy)
    if lock_s:
        load.during = held(server, "SHARE", lock_s)
    yield load


@contextmanager
def data(stage: Stage, spaces: int, streams: int = 4) -> Iterator[Load]:
    """Partitions over so many slow disks."""
    disks = [stage.disk(f"space{number}", 2048) for number in range(2)]
    server = stage.server("spaces", settings=MINIMAL)
    names = []
    with ExitStack() as limits:
        for number, disk in enumerate(disks):
            folder = disk.path / "space"
            if not folder.exists():
                folder.mkdir()
                run(["chown", "nobody:nogroup", str(folder)])
                server.sql(f"CREATE TABLESPACE slow{number} LOCATION '{folder}'")
            names.append(f"slow{number}")
            limits.enter_context(limit(server.group, disk, "write_bps", 25 * MEGABYTE))
        options = [*with_streams(streams), *PARTITIONS, "--tablespaces", ",".join(names[:spaces])]
        yield Load(server, stage.files(200), options, {})


@contextmanager
def source(stage: Stage, rate: float, streams: int = 3, compressed: bool = False) -> Iterator[Load]:
    """The files on a slow disk, as they are or compressed."""
    server = stage.server()
    table(server)
    disk = stage.disk("source", 1200)
    files = stage.files(160)
    if compressed:
        files = [_zstd(path) for path in files]
    files = disk.take(files)
    client = stage.client()
    load = Load(server, files, with_streams(streams), {}, prefix=client.prefix())
    load.during = limit(client, disk, "read_bps", round(rate * MEGABYTE))
    yield load


def _zstd(path: Path) -> Path:
    packed = path.with_name(f"{path.name}.zst")
    if not packed.exists():
        subprocess.run(["zstd", "-q", "-3", str(path), "-o", str(packed)], check=True)
    return packed


@contextmanager
def far(
    stage: Stage,
    hosts: AbstractContextManager[Hosts],
    megabytes: float,
    streams: int,
    **settings: object,
) -> Iterator[Load]:
    """A server on another host, with these kernel settings."""
    with hosts as ends:
        metrics = ["congctl", "cubic"]
        for name, value in settings.items():
            if name == "segments":
                metrics += ["cwnd", "lock", str(value)]
                ends.set(ends.client, "tcp_no_metrics_save", "0")
            else:
                host = ends.server if name == "tcp_rmem" else ends.client
                ends.set(host, name, f"4096 16384 {value}")
        route = ["ip", "-n", ends.client, "route", "replace", ends.server_address]
        run([*route, "dev", ends.device, *metrics])
        server = Server("advised", host=(ends.server, ends.server_address))
        try:
            table(server)
            prefix = ["ip", "netns", "exec", ends.client]
            run([*prefix, *server.psql("-c", "SELECT 1")[:-1], server.url])
            yield Load(server, stage.files(megabytes), with_streams(streams), {}, prefix=prefix)
        finally:
            server.remove()
