"""lineitem into other databases, each against its own best loader."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from data import DataSet, tpch
from lab import SCRATCH, Case, Failed, Measured, Missing, Way, run_text
from measure import run_measured
from peers import ours
from wheels import python_with

from cases.setting import Setting

ROOT = Path(__file__).parents[2]
DRIVERS = ROOT / ".cache" / "drivers"
SUM = "SELECT count(*), sum(l_orderkey), sum(length(l_comment)) FROM lineitem"
SESSIONS = 4


def _own(data: DataSet) -> str:
    """The table as MariaDB, DuckDB and SQLite know it."""
    return data.create().replace(" text", " varchar(200)")


@contextmanager
def duckdb(setting: Setting) -> Iterator[Case]:
    """DuckDB: its own reader of CSV, told the types, in one statement."""
    if not (DRIVERS / "libduckdb.so").exists():
        raise Missing("DuckDB's library is not there: make databases")
    os.environ["ADBC_DRIVER_PATH"] = str(DRIVERS)
    python = Path(python_with("duckdb_cli", "requirements-duckdb-cli.txt"))
    [command] = python.parents[1].glob("lib/python3.*/site-packages/duckdb_cli/duckdb")
    command.chmod(0o755)
    data = tpch(setting.scale, SESSIONS)
    file = SCRATCH / "bench.duckdb"
    columns = ", ".join(f"'{name}': '{kind}'" for name, kind in data.columns.items())
    files = ", ".join(f"'{path}'" for path in data.plain)
    read = (
        f"INSERT INTO lineitem SELECT * FROM read_csv([{files}], delim = '|', header = false,"
        f" columns = {{{columns}}}); CHECKPOINT"
    )

    def fresh() -> None:
        for old in SCRATCH.glob("bench.duckdb*"):
            old.unlink()
        run_text([str(command), str(file), "-c", _own(data)])

    def count() -> str:
        return run_text([str(command), str(file), "-csv", "-noheader", "-c", SUM]).strip()

    theirs = [([str(command), str(file), "-c", read], None)]
    ways = {
        "fullbore": lambda: ours.load(setting.server, data, method="auto", to=f"duckdb:{file}"),
        "duckdb, read_csv": lambda: run_measured(setting.server, theirs),
    }
    yield _case(data, ways, fresh, count)
    for old in SCRATCH.glob("bench.duckdb*"):
        old.unlink()


@contextmanager
def sqlite(setting: Setting) -> Iterator[Case]:
    """SQLite: its command's `.import`, one file after the other."""
    command = shutil.which("sqlite3")
    if command is None:
        raise Missing("the command sqlite3 is not installed")
    data = tpch(setting.scale, SESSIONS)
    file = SCRATCH / "bench.sqlite"

    def fresh() -> None:
        for old in SCRATCH.glob("bench.sqlite*"):
            old.unlink()
        run_text([command, str(file), _own(data)])

    imports = [f".import {path} lineitem" for path in data.plain]
    theirs = [([command, str(file), ".mode list", ".separator |", *imports], None)]
    ways = {
        "fullbore": lambda: ours.load(setting.server, data, method="auto", to=f"sqlite:{file}"),
        "sqlite3, .import": lambda: run_measured(setting.server, theirs),
    }
    yield _case(data, ways, fresh, lambda: run_text([command, str(file), SUM]).strip())
    for old in SCRATCH.glob("bench.sqlite*"):
        old.unlink()


@contextmanager
def mariadb(setting: Setting) -> Iterator[Case]:
    """MariaDB: LOAD DATA LOCAL, a session for each of four files."""
    if shutil.which("mariadb-install-db") is None:
        raise Missing("mariadb-server is not installed: make databases")
    data = tpch(setting.scale, SESSIONS)
    with tempfile.TemporaryDirectory(dir=SCRATCH, ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        home.chmod(0o755)
        with _server(home) as (client, port):

            def fresh() -> None:
                run_text([*client, "-e", f"DROP TABLE IF EXISTS lineitem; {_own(data)}"])
                time.sleep(1)

            loads = [
                f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE lineitem FIELDS TERMINATED BY '|'"
                for path in data.plain
            ]
            theirs = [([*client, "--local-infile=1", "-e", load], None) for load in loads]
            to = f"mysql://root@127.0.0.1:{port}/d"
            sessions = ("--streams", str(SESSIONS), "--if-loaded", "again")
            ways = {
                "fullbore": lambda: ours.load(
                    setting.server, data, *sessions, method="auto", to=to
                ),
                "mariadb, LOAD DATA": lambda: run_measured(setting.server, theirs),
            }
            yield _case(data, ways, fresh, lambda: run_text([*client, "-e", SUM]).strip())


@contextmanager
def _server(home: Path) -> Iterator[tuple[list[str], int]]:
    """A server's client command, and its port; its log is flushed at each commit."""
    user = ["--user=nobody"] if os.geteuid() == 0 else []
    if user:
        shutil.chown(home, "nobody")
    port, socket = 33062, home / "s.sock"
    where = ["--no-defaults", *user, f"--datadir={home}/data"]
    run_text(["mariadb-install-db", *where, "--auth-root-authentication-method=normal"])
    sizes = ["--innodb-buffer-pool-size=4G", "--innodb-log-file-size=2G"]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            [
                *("mariadbd", *where, f"--socket={socket}", f"--port={port}", *sizes),
                *("--bind-address=127.0.0.1", "--local-infile=1", f"--pid-file={home}/pid"),
            ],
            stdout=log,
            stderr=log,
        )
    client = ["mariadb", "--no-defaults", "-uroot", f"--socket={socket}", "-N", "-B"]
    try:
        for _ in range(100):
            if subprocess.run([*client, "-e", "SELECT 1"], capture_output=True).returncode == 0:
                break
            time.sleep(0.2)
        run_text([*client, "-e", "CREATE DATABASE d CHARACTER SET utf8mb4"])
        yield [*client, "d"], port
    finally:
        process.terminate()
        process.wait()


def _case(
    data: DataSet,
    ways: dict[str, Callable[[], Measured]],
    fresh: Callable[[], None],
    count: Callable[[], str],
) -> Case:
    """Each way loads into a new table, and must come to the same sums."""
    found: list[str] = []

    def checked(load: Callable[[], Measured]) -> Measured:
        fresh()
        measured = load()
        found.append(count())
        if found[-1] != found[0]:
            raise Failed(f"the table has {found[-1]}, not {found[0]}")
        return measured

    made = [Way(name, lambda load=load: checked(load)) for name, load in ways.items()]
    return Case(data.size, made, data.files + data.plain, loads=False)
