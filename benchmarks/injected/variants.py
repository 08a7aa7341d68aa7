"""Loads whose limits can be set: to see what becomes of the rate when advice is followed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kinds.disks import MEGABYTE, limit
from kinds.locks import held, write_long_rows
from kinds.processors import busy_programs, quota
from lab import SCHEMA, SCRATCH, run
from links import Hosts
from run import loaded
from servers import MINIMAL, REPLICA, Server
from trial import PARTITIONS, Load, Stage, table


def with_streams(count: int, *more: str) -> list[str]:
    """Options."""
    return ["--streams", str(count), *more]


def _ready(server: Server, options: Sequence[str]) -> None:
    """Whatever a load with these options finds: the extension, or the table."""
    if "--create" in options:
        server.sql("CREATE EXTENSION IF NOT EXISTS fullbore")
    else:
        table(server)


@contextmanager
def cores(
    stage: Stage, server_cores: float | None, client_cores: float | None, *options: str
) -> Iterator[Load]:
    """Server and client with so many cores each."""
    server, client = stage.server(), stage.client()
    _ready(server, options)
    files = stage.files(300 if "partitions" in options else 500)
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
        files = [_packed(f"{path.name}.zst", [path], "zstd", "-3") for path in files]
    files = disk.take(files)
    client = stage.client()
    during = limit(client, disk, "read_bps", round(rate * MEGABYTE))
    yield Load(server, files, with_streams(streams), {}, client.prefix(), during)


def _packed(name: str, paths: list[Path], *by: str) -> Path:
    """These files in one compressed file, made once."""
    packed = SCRATCH / name
    if not packed.exists():
        SCRATCH.mkdir(mode=0o755, exist_ok=True)
        with packed.open("wb") as out:
            subprocess.run([*by, "-q", "-c", *map(str, paths)], stdout=out, check=True)
    return packed


@dataclass
class Nowhere:
    """A destination that takes what is encoded, and keeps nothing."""

    url: str = "null:"


@contextmanager
def discarded(stage: Stage, options: list[str], packed: int = 0) -> Iterator[Load]:
    """Encoded only: the files as they are, or in so many compressed ones."""
    files = stage.files(760)
    if packed:
        parts = [(f"lineitem.tbl.{packed}-{n}.gz", files[n::packed]) for n in range(packed)]
        files = [_packed(name, part, "gzip") for name, part in parts]
    columns = re.findall(r"^\s+(\w+) ([a-z]+(?:\([\d,]+\))?)", SCHEMA.read_text(), re.MULTILINE)
    typed = ["--columns", ",".join(name for name, _ in columns)]
    typed += [f"--type={name}={kind}" for name, kind in columns]
    yield Load(Nowhere(), files, [*typed, *options], {})


@contextmanager
def bounded(stage: Stage, bounds: list[int], streams: int = 4) -> Iterator[Load]:
    """Partitions of these ranges."""
    ranges = ["--partition-bounds", ",".join(map(str, bounds))]
    options = with_streams(streams, "--parsers", "2", *PARTITIONS, *ranges)
    yield Load(stage.server(), stage.files(600), options, {})


@contextmanager
def logged(
    stage: Stage,
    settings: dict[str, str],
    options: list[str],
    slow: tuple[str, ...] = ("data", "log"),
) -> Iterator[Load]:
    """Data, log or both on a slow disk."""
    name = f"logged-{settings['wal_level']}-{'-'.join(slow)}"
    disk = stage.disk("logged", 6144)
    data, log = (disk.path if what in slow else SCRATCH for what in ("data", "log"))
    server = stage.server(name, settings=settings, data=data, wal=log)
    keep_log(server)
    if "--create" not in options:
        table(server)
    during = limit(server.group, disk, "write_bps", 25 * MEGABYTE)
    yield Load(server, stage.files(200), options, {}, during=during)


@contextmanager
def checkpointed(stage: Stage, max_wal_size: str, streams: int = 3) -> Iterator[Load]:
    """Data and log on a slow disk, indexes in no order, and so much log between checkpoints."""
    disk = stage.disk("logged", 6144)
    server = stage.server("checkpointed", settings=REPLICA, data=disk.path)
    keep_log(server, "max_wal_size", max_wal_size)
    columns = ("l_partkey", "l_suppkey")
    table(server, "; ".join(f"CREATE INDEX ON lineitem ({column})" for column in columns))
    during = limit(server.group, disk, "write_bps", 25 * MEGABYTE)
    yield Load(server, stage.files(60), with_streams(streams), {}, during=during)


@contextmanager
def after_a_lull(stage: Stage, min_wal_size: str, streams: int = 3) -> Iterator[Load]:
    """The log on a slow disk, and many checkpoints of little since anything large was loaded."""
    disk = stage.disk("logged", 6144)
    server = stage.server("lull", settings=REPLICA, wal=disk.path)
    keep_log(server, "min_wal_size", min_wal_size)
    for _ in range(40):
        server.sql("SELECT pg_switch_wal()")
        server.sql("CHECKPOINT")
    table(server)
    during = limit(server.group, disk, "write_bps", 40 * MEGABYTE)
    yield Load(server, stage.files(200), with_streams(streams), {}, during=during)


def keep_log(server: Server, *setting: str) -> None:
    """Writes as much log as a load will, and has it recycled: new segments are written twice.

    A setting, name and value, is in effect by then.
    """
    if setting:
        server.sql("ALTER SYSTEM SET {} = '{}'".format(*setting))
        server.sql("SELECT pg_reload_conf()")
    server.sql("CREATE TABLE filler AS SELECT repeat('x', 500) FROM generate_series(1, 900000)")
    server.sql("DROP TABLE filler")
    server.sql("CHECKPOINT")


@contextmanager
def long_rows(
    stage: Stage, version: int, streams: int = 12, is_partitions: bool = False
) -> Iterator[Load]:
    """Long rows from many sessions into one table, or a partition for each piece; not logged."""
    # Partitions that are not logged would be synced where an unlogged table is not.
    server = stage.server(f"long-{version}", version=version, settings={"fsync": "off"})
    columns = ", ".join(f"c{number} text" for number in range(4))
    made, by = ("TABLE", " PARTITION BY RANGE (id)") if is_partitions else ("UNLOGGED TABLE", "")
    create = f"CREATE {made} long (id bigint, {columns}){by}"
    server.sql(create)
    options = with_streams(streams, "--table", "long", "--format", "csv", "--header", "none")
    if is_partitions:
        options += ["--publish", "partitions"]
    load = Load(server, write_long_rows(1860, 60_000), options, {})
    # So many rows are loaded in three seconds: memory that was never touched would decide.
    loaded(load)
    server.sql("DROP TABLE long")
    server.sql(create)
    server.sql("CHECKPOINT")
    yield load


@contextmanager
def far(
    stage: Stage,
    hosts: AbstractContextManager[Hosts],
    megabytes: float,
    options: list[str],
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
            _ready(server, options)
            prefix = ["ip", "netns", "exec", ends.client]
            run([*prefix, *server.psql("-c", "SELECT 1")[:-1], server.url])
            yield Load(server, stage.files(megabytes), options, {}, prefix=prefix)
        finally:
            server.remove()
