"""Too little CPU for the server, for the client, or taken by others."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from random import Random

from lab import beside
from servers import Server
from trial import DIRECT, PARTITIONS, Load, Stage, drawn, kind, table

# CPU seconds that a GB costs, roughly: so that a load takes some ten seconds whatever the limit.
SERVER_SECONDS, CLIENT_SECONDS = 11.0, 1.7
TARGET_SECONDS = 9.0


@contextmanager
def quota(group: object, cores: float) -> Iterator[None]:
    group.cores(cores)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        group.cores(None)  # type: ignore[attr-defined]


@kind
def server_quota(stage: Stage, draw: Random) -> Iterator[Load]:
    """All of the server's processes together get less than a core."""
    server = stage.server()
    table(server)
    cores = draw.uniform(0.4, 0.9)
    files = stage.files(cores / SERVER_SECONDS * TARGET_SECONDS * 1000)
    notes = {"server_cores": cores}
    yield Load(server, files, drawn(draw), notes, during=quota(server.group, cores))


@kind
def server_one_core(stage: Stage, draw: Random) -> Iterator[Load]:
    """All of the server's processes are bound to one of the two processors."""
    server = stage.server()
    table(server)
    core = draw.choice(sorted(os.sched_getaffinity(0)))
    files = stage.files(TARGET_SECONDS / SERVER_SECONDS * 1000)
    during = _bound(server, core)
    yield Load(server, files, drawn(draw, (3, 4, 6)), {"core": core}, during=during)


@contextmanager
def _bound(server: Server, core: int) -> Iterator[None]:
    everywhere = os.sched_getaffinity(0)
    _bind(server, {core})
    try:
        yield
    finally:
        _bind(server, everywhere)


def _bind(server: Server, cores: set[int]) -> None:
    for pid in server.pids():
        # Backends end while it is looked.
        with suppress(ProcessLookupError):
            os.sched_setaffinity(pid, cores)


@kind
def client_quota(stage: Stage, draw: Random) -> Iterator[Load]:
    """The client gets a small part of a core, of rows that cost the server little."""
    server = stage.server()
    server.sql("CREATE EXTENSION IF NOT EXISTS fullbore")
    client = stage.client()
    cores = draw.uniform(0.1, 0.25)
    files = stage.files(cores / CLIENT_SECONDS * TARGET_SECONDS * 1000)
    options = ["--streams", str(draw.choice((2, 3, 4))), "--parsers", str(draw.choice((1, 2)))]
    load = Load(server, files, [*options, *PARTITIONS, *DIRECT], {"client_cores": cores})
    load.prefix = client.prefix()
    load.during = quota(client, cores)
    yield load


@kind
def busy_neighbour(stage: Stage, draw: Random) -> Iterator[Load]:
    """Other programs want all processors, all of the time."""
    server = stage.server()
    table(server)
    count = draw.randint(6, 10)
    load = Load(server, stage.files(380), drawn(draw), {"programs": count})
    load.during = busy_programs(count)
    yield load


def busy_programs(count: int) -> AbstractContextManager[None]:
    # A session for each: the scheduler may share the processors out among sessions.
    return beside(*[["setsid", sys.executable, "-c", "while True: pass"]] * count)


@kind
def many_indexes(stage: Stage, draw: Random) -> Iterator[Load]:
    """A table whose indexes are kept up row by row."""
    server = stage.server()
    columns = ["l_orderkey", "l_partkey", "l_suppkey", "l_comment", "l_shipdate", "l_extendedprice"]
    chosen = draw.sample(columns, draw.randint(3, 5))
    table(server, "; ".join(f"CREATE INDEX ON lineitem ({column})" for column in chosen))
    files = stage.files(600 / len(chosen))
    yield Load(server, files, drawn(draw, (3, 4, 6)), {"indexes": chosen})


@kind
def slow_trigger(stage: Stage, draw: Random) -> Iterator[Load]:
    """A table with a trigger that computes a while for each row."""
    server = stage.server()
    rounds = draw.randint(20, 60)
    table(
        server,
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE n int := 0; BEGIN"
        f" FOR i IN 1..{rounds} LOOP n := n + i; END LOOP; RETURN new; END $$;"
        " CREATE TRIGGER slow BEFORE INSERT ON lineitem FOR EACH ROW EXECUTE FUNCTION slow()",
    )
    files = stage.files(300)
    yield Load(server, files, drawn(draw, (3, 4, 6)), {"rounds": rounds})
