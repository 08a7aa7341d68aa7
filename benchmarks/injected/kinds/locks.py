"""Locks: of others, of each other, and the one to make a table longer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from random import Random

from lab import SCRATCH, beside, environment, run
from servers import Server
from trial import Load, Stage, drawn, kind, table


@kind
def held_lock(stage: Stage, draw: Random) -> Iterator[Load]:
    """Somebody else holds a lock on the table while the load begins."""
    server = stage.server()
    table(server)
    seconds = draw.uniform(6, 10)
    mode = draw.choice(("SHARE", "SHARE ROW EXCLUSIVE", "ACCESS EXCLUSIVE"))
    load = Load(server, stage.files(150), drawn(draw), {"seconds": seconds, "mode": mode})
    load.during = held(server, mode, seconds)
    yield load


def held(server: Server, mode: str, seconds: float) -> AbstractContextManager[None]:
    # The load reads the catalog first, and an exclusive lock would stop it there already.
    text = (
        "DO $$ BEGIN FOR i IN 1..400 LOOP PERFORM pg_sleep(0.02);"
        " EXIT WHEN EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%COPY%lineitem%'"
        " AND pid <> pg_backend_pid()); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$;"
        f" BEGIN; LOCK TABLE lineitem IN {mode} MODE; SELECT pg_sleep({seconds}); COMMIT"
    )
    return beside(server.psql("-c", text), env=environment())


@kind
def trigger_lock(stage: Stage, draw: Random) -> Iterator[Load]:
    """A trigger takes the same advisory lock for every COPY: the streams go one after the other."""
    server = stage.server()
    key = draw.randrange(1 << 30)
    table(
        server,
        "CREATE FUNCTION alone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" PERFORM pg_advisory_xact_lock({key}); RETURN NULL; END $$;"
        " CREATE TRIGGER alone BEFORE INSERT ON lineitem EXECUTE FUNCTION alone()",
    )
    streams = draw.choice((3, 4, 6))
    options = ["--streams", str(streams), "--parsers", str(draw.choice((1, 2)))]
    yield Load(server, stage.files(600), options, {"streams": streams})


@kind
def extension_lock(stage: Stage, draw: Random) -> Iterator[Load]:
    """Long rows from many sessions into one table of a server before 16, without a log."""
    server = stage.server("before16", version=14)
    columns = ", ".join(f"c{number} text" for number in range(4))
    server.sql(f"CREATE UNLOGGED TABLE long (id bigint, {columns})")
    length = draw.randint(450, 480) * 4
    streams = draw.choice((8, 12, 16))
    files = write_long_rows(length)
    options = ["--streams", str(streams), "--table", "long", "--format", "csv", "--header", "none"]
    yield Load(server, files, options, {"streams": streams, "length": length})


def write_long_rows(length: int, rows: int = 20_000) -> list:
    """Files of so many rows, of which four fill a page."""
    files = []
    for number in range(16):
        path = SCRATCH / f"long-{number}.csv"
        field = "x" * (length // 4)
        line = ",".join([field] * 4)
        run(
            [
                "sh",
                "-c",
                f"seq {number}000000 {number * 1_000_000 + rows} | sed 's/$/,{line}/' > {path}",
            ]
        )
        files.append(path)
    return files
