"""lineitem from one PostgreSQL into another."""

from __future__ import annotations

import itertools
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from data import generated, tpch
from lab import DATA, Case, Measured, Way, run_text
from measure import run_measured
from peers import ours
from server import Server, program, psql_command

from cases.setting import Setting

SESSIONS = 4


@contextmanager
def copied(setting: Setting) -> Iterator[Case]:
    """Every row, by ranges of the key; a server of the same version on this machine has them."""
    source = Server(DATA / "home-source")
    source.start()
    try:
        schema = _fill(source, setting.scale)
        size = int(source.sql("SELECT pg_table_size('lineitem')"))
        server, url = setting.server, source.url
        separator = "&" if "?" in url else "?"
        table = f"{url}{separator}table=lineitem"
        ways = [
            Way(
                "fullbore direct, by key", lambda: _ours(server, schema, f"{table}&key=l_orderkey")
            ),
            Way("psql, COPY pipes", lambda: _pipes(server, source, schema, "")),
            Way(
                "psql, binary COPY pipes",
                lambda: _pipes(server, source, schema, " (FORMAT binary)"),
                once=True,
            ),
            Way("pg_dump | pg_restore", lambda: _dumped(server, source, schema), once=True),
            Way("fullbore direct, by pages", lambda: _ours(server, schema, table), once=True),
        ]
        yield Case(size, ways)
    finally:
        source.stop()
        shutil.rmtree(source.home, ignore_errors=True)


def _fill(source: Server, scale: str) -> str:
    """Loads the source; the statement that makes such a table. Its text is not kept."""
    folder = generated(scale, SESSIONS, ("lineitem",))
    # Without the files that others read.
    schema = tpch("0.01", 1).create()
    source.sql(f"DROP TABLE IF EXISTS lineitem; {schema}")
    loaded = ("load", "--quiet", "--to", source.url, "--table", "lineitem", "--format", "tbl")
    files = map(str, folder.glob("lineitem.tbl.*"))
    how = ("--publish", "replace", "--method", "direct")
    run_text([str(ours.COMMAND), *loaded, *how, *files], env=source.env)
    shutil.rmtree(folder)
    source.sql("SET maintenance_work_mem = '1GB'; CREATE INDEX ON lineitem (l_orderkey)")
    source.sql("VACUUM ANALYZE lineitem")
    source.sql("CHECKPOINT")
    return schema


def _ours(server: Server, schema: str, table: str) -> Measured:
    server.sql(schema)
    command = [str(ours.COMMAND), "load", "--quiet", "--statistics=none", "--to", server.url]
    command += ["--publish", "replace", "--method", "direct", "--table", "lineitem", table]
    return run_measured(server, [(command, None)])


def _pipes(server: Server, source: Server, schema: str, form: str) -> Measured:
    """A psql at each end, for each range of keys."""
    server.sql(schema)
    end = int(source.sql("SELECT max(l_orderkey) + 1 FROM lineitem"))
    bounds = [end * number // SESSIONS for number in range(SESSIONS + 1)]
    psql = [psql_command(), "-X", "-q", "-v", "ON_ERROR_STOP=1"]
    commands = []
    for first, after in itertools.pairwise(bounds):
        rows = f"SELECT * FROM lineitem WHERE l_orderkey >= {first} AND l_orderkey < {after}"
        out = [*psql, "-d", source.url, "-c", f"COPY ({rows}) TO STDOUT{form}"]
        into = [*psql, "-d", server.url, "-c", f"COPY lineitem FROM STDIN{form}"]
        commands.append((["sh", "-c", f"{shlex.join(out)} | {shlex.join(into)}"], None))
    return run_measured(server, commands)


def _dumped(server: Server, source: Server, schema: str) -> Measured:
    """One session: a table's rows are one item of an archive, however many sessions restore it."""
    server.sql(schema)
    dump = [program("pg_dump"), "--format=custom", "--compress=0", "--data-only"]
    dump += ["--table=lineitem", f"--dbname={source.url}"]
    restore = [program("pg_restore"), f"--dbname={server.url}"]
    return run_measured(
        server, [(["sh", "-c", f"{shlex.join(dump)} | {shlex.join(restore)}"], None)]
    )
