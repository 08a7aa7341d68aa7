"""Servers that the tests share: one of each version and WAL level, started when first asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from crash.matrix import FRAMES, ROWS, SETTINGS, SHAPE
from crash.shim import Shim, shimmed_server
from loads import copy_text, make_checkers
from server import Installation, Server, compiler, installations
from wire import Connection

WANTED = os.environ.get("FULLBORE_TEST_VERSIONS", "14,15,16,17,18").split(",")
COMPILER = compiler()
REQUIRED = os.environ.get("FULLBORE_TEST_REQUIRE_SERVERS") == "1"

_servers: dict[tuple[str, str], Server] = {}


def _check_there(installation: Installation) -> None:
    if installation.pg_config.exists():
        return
    message = f"no PostgreSQL {installation.name} at {installation.pg_config}"
    if REQUIRED:
        pytest.fail(message)
    pytest.skip(message)


def server_of(installation: Installation, wal_level: str) -> Server:
    key = (installation.name, wal_level)
    _check_there(installation)
    if installation.sanitized and "PYTEST_XDIST_WORKER" in os.environ:
        pytest.fail("what sanitizers report is told at the end of one process: run it without -n")
    if key not in _servers:
        # Up to twenty of them stand beside each other: a gigabyte of WAL each is too much.
        settings = {"wal_level": wal_level, "max_wal_size": "'128MB'"}
        _servers[key] = Server(installation, settings, COMPILER)
    return _servers[key]


@pytest.fixture(
    params=[
        pytest.param((installation, level), id=f"{installation.name}-{level}")
        for installation in installations()
        if installation.name in WANTED
        for level in ("minimal", "replica")
    ]
)
def server(request: pytest.FixtureRequest) -> Server:
    """Every version at every WAL level that matters."""
    return server_of(*request.param)


@pytest.fixture(
    params=[
        pytest.param(installation, id=installation.name)
        for installation in installations()
        if installation.name in WANTED
    ]
)
def any_server(request: pytest.FixtureRequest) -> Server:
    """Every version once."""
    return server_of(request.param, "minimal")


@pytest.fixture(
    scope="session",
    params=[
        pytest.param((installation, level), id=f"{installation.name}-{level}")
        for installation in installations()
        if installation.name in WANTED and installation.name in ("15", "18")
        for level in ("minimal", "replica")
    ],
)
def shimmed(request: pytest.FixtureRequest) -> Iterator[tuple[Server, Shim]]:
    """Servers whose calls can be made to fail, before and after 17 changed who syncs."""
    installation, level = request.param
    _check_there(installation)
    server, shim = shimmed_server(installation, {**SETTINGS, "wal_level": level}, logs=True)
    session = Connection(server.socket_dir)
    session.query(f"CREATE EXTENSION fullbore; CREATE TABLE copied {SHAPE}")
    for _ in range(FRAMES):
        copy_text(session, "copied", ROWS)
    session.close()
    yield server, shim
    shim.let_go()
    server.close()


_number = 0
# The database that a server's tests share, by the server's folder.
_shared: dict[Path, str] = {}


def _next(kind: str) -> str:
    global _number
    _number += 1
    return f"{kind}_{_number}"


def fresh(server: Server) -> Connection:
    """A session in a database of its own, with the extension in it: for what outlives a crash."""
    name = _next("database")
    first = Connection(server.socket_dir)
    first.query(f"CREATE DATABASE {name}")
    first.close()
    connection = Connection(server.socket_dir, name)
    connection.query("SET timezone = 'UTC'; CREATE EXTENSION fullbore")
    return connection


@contextmanager
def own_schema(server: Server) -> Iterator[Connection]:
    """A session in a schema of its own: a tenth of the time that a database takes. Other sessions
    of the same test, too, find its tables without naming it."""
    if server.folder not in _shared:
        first = fresh(server)
        make_checkers(first)
        first.close()
        _shared[server.folder] = first.database
    name, database = _next("schema"), _shared[server.folder]
    connection = Connection(server.socket_dir, database)
    connection.query(
        f"CREATE SCHEMA {name}; ALTER DATABASE {database} SET search_path = {name}, public;"
        f" SET search_path = {name}, public; SET timezone = 'UTC'"
    )
    yield connection
    connection.close()
    last = Connection(server.socket_dir, database)
    last.query(f"DROP SCHEMA {name} CASCADE")
    last.close()


@pytest.fixture
def session(server: Server) -> Iterator[Connection]:
    with own_schema(server) as connection:
        yield connection


@pytest.fixture
def any_session(any_server: Server) -> Iterator[Connection]:
    with own_schema(any_server) as connection:
        yield connection


def pytest_sessionfinish(session: pytest.Session) -> None:
    for server in _servers.values():
        for report in server.sanitizer_reports():
            print(f"\n{server.name}: {report.read_text(errors='replace')}")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        server.close()
    _servers.clear()
