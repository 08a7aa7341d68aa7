"""What `fullbore preflight all` predicts beside what a load of the same job achieves.

Jobs of several kinds, on servers of several versions and settings. Each job is measured once and
then loaded, repeat by repeat; the files are read once before each, so that they are in the page
cache.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from data import tpch
from data_made import wide
from lab import DATA, FULLBORE, Failed, Missing, environment, run_text
from server import Server, psql_command

Keep = Callable[[dict[str, object]], None]

MEGABYTE = 1e6
NARROW_ROWS = 8_000_000
PARTITIONS = ["--publish", "partitions", "--partition-by", "l_orderkey"]
DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")


@dataclass(frozen=True)
class Place:
    """A running server: how to reach it, and how to run SQL in it."""

    url: str
    version: str
    sql: Callable[[str], str]


@dataclass(frozen=True)
class Job:
    """A load: what is there before it, its arguments, and the table that goes afterwards."""

    name: str
    place: Callable[[], Iterator[Place]]
    files: Callable[[], list[Path]]
    args: list[str]
    table: str
    before: str = ""


def schema_of(table: str) -> list[str]:
    """Options that make a table of TPC-H as the demo does."""
    return ["--create", "--schema", str(DATA.parent.parent / "demo" / "schema" / f"{table}.sql")]


@contextmanager
def embedded(name: str, *settings: str) -> Iterator[Place]:
    """An embedded PostgreSQL 18 of these jobs' own, with settings of their own."""
    server = Server(DATA / f"home-ceilings-{name}")
    server.start()
    try:
        for setting in settings:
            server.sql(f"ALTER SYSTEM SET {setting}")
        if settings:
            server.stop()
            server.start()
        version = server.sql("SHOW server_version").strip()
        yield Place(server.url, version, server.sql)
    finally:
        server.stop()


@contextmanager
def own(binaries: Path, settings: dict[str, str], user: str = "postgres") -> Iterator[Place]:
    """A throw-away server of other binaries, which listens on 127.0.0.1."""
    if not (binaries / "initdb").exists():
        raise Missing(f"there is no {binaries}/initdb")
    home = DATA / f"throw-away-{os.getpid()}"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    as_user = {"user": user, "group": user} if os.geteuid() == 0 else {}
    if as_user:
        shutil.chown(home, user, user)

    def run(*command: str) -> None:
        done = subprocess.run(
            command, **as_user, cwd=home, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Failed(f"{command[0]}: {done.stderr or done.stdout}")

    port = str(20_000 + os.getpid() % 20_000)
    data = str(home / "data")
    all_settings = {"port": port, "listen_addresses": "127.0.0.1"} | settings
    all_settings["unix_socket_directories"] = str(home)
    try:
        run(str(binaries / "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-N")
        options = " ".join(f"-c {name}={value}" for name, value in all_settings.items())
        control = str(binaries / "pg_ctl")
        run(control, "-D", data, "-w", "-l", f"{home}/log", "-o", options, "start")
        try:
            url = f"postgresql://postgres@127.0.0.1:{port}/postgres"

            def sql(text: str) -> str:
                return run_text([psql_command(), url, "-X", "-q", "-At", "-c", text])

            yield Place(url, sql("SHOW server_version").strip(), sql)
        finally:
            with suppress(Failed):
                run(control, "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def lineitem(scale: str) -> list[Path]:
    """Four files of lineitem."""
    return tpch(scale, 4).files


def packed(scale: str) -> list[Path]:
    """Two of these files, packed by gzip."""
    folder = DATA / f"tpch-{scale}-4-gz"
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for plain in lineitem(scale)[:2]:
        path = folder / f"{plain.name}.gz"
        if not path.exists():
            unfinished = path.with_suffix(".unfinished")
            with plain.open("rb") as source, gzip.open(unfinished, "wb", compresslevel=1) as out:
                shutil.copyfileobj(source, out, 1 << 20)
            unfinished.rename(path)
        files.append(path)
    return files


def narrow() -> list[Path]:
    """Two numbers a row, the first of them a key, in no order."""
    path = DATA / "narrow.csv"
    if not path.exists():
        keys = list(range(NARROW_ROWS))
        random.Random(7).shuffle(keys)
        unfinished = path.with_suffix(".unfinished")
        with unfinished.open("w") as out:
            out.writelines(f"{key},{key * 7 % 1_000_003}\n" for key in keys)
        unfinished.rename(path)
    return [path]


def jobs(scale: str) -> list[Job]:
    """The jobs; the first two are those that the ratio of 0.85 is asked of."""
    tuned = {
        "shared_buffers": "2GB",
        "max_wal_size": "8GB",
        "wal_level": "minimal",
        "max_wal_senders": "0",
    }
    wheel = Path(psql_command()).parent
    tbl = ["--table", "lineitem", "--format", "tbl", *schema_of("lineitem")]
    return [
        Job(
            "lineitem as partitions by direct; 18, wal_level=minimal, unix socket",
            lambda: embedded("minimal"),
            lambda: lineitem(scale),
            [*tbl, *PARTITIONS, "--method", "direct"],
            "lineitem",
        ),
        Job(
            "lineitem as partitions by copy; 18, wal_level=minimal, unix socket",
            lambda: embedded("minimal"),
            lambda: lineitem(scale),
            [*tbl, *PARTITIONS, "--method", "copy"],
            "lineitem",
        ),
        Job(
            "lineitem appended by copy; 15, wal_level=minimal, TCP loopback",
            lambda: own(DEBIAN_15, tuned),
            lambda: lineitem(scale),
            [*tbl],
            "lineitem",
        ),
        Job(
            "25 columns of quoted CSV appended by copy; 18, wal_level=replica, TCP loopback",
            lambda: own(wheel, tuned | {"wal_level": "replica"}),
            lambda: wide(400).files,
            ["--table", "wide", "--header", "--format", "csv"],
            "wide",
            before=wide(400).create(),
        ),
        Job(
            "two numbers a row into a table with a primary key, by copy; 18, wal_level=replica",
            lambda: embedded("replica", "wal_level = 'replica'"),
            narrow,
            ["--table", "narrow", "--header", "none", "--columns", "id,n"],
            "narrow",
            before="CREATE TABLE narrow (id bigint PRIMARY KEY, n integer)",
        ),
        Job(
            "lineitem in two gzip files, replacing a table by direct; 18, wal_level=replica",
            lambda: embedded("replica", "wal_level = 'replica'"),
            lambda: packed(scale),
            [*tbl, "--publish", "replace", "--method", "direct"],
            "lineitem",
        ),
    ]


def part(args: argparse.Namespace, keep: Keep) -> list[str]:
    """Each job measured, then loaded; the table of both, and of the folder's earlier turns."""
    missing = {}
    for number, job in enumerate(jobs(args.scale), start=1):
        if args.job and number not in args.job:
            continue
        try:
            measure(job, args.repeats, keep)
        except Missing as reason:
            missing[job.name] = str(reason)
    raw = [json.loads(line) for line in (args.folder / "raw.jsonl").read_text().splitlines()]
    return summary([line for line in raw if line["part"] == "all"], missing)


def summary(raw: list[dict], missing: dict[str, str]) -> list[str]:
    """The table of what was measured; of a job that was measured again the last turn counts."""
    lines = [
        "| job | ceiling MB/s | set by | predicted MB/s | achieved MB/s | predicted / achieved |"
        " achieved / ceiling |",
        "|---|---|---|---|---|---|---|",
    ]
    turns: dict[str, dict] = {}
    for line in raw:
        if "preflight" in line:
            turns[line["job"]] = {"report": line["preflight"], "rates": []}
        else:
            rate = line["load"]["achieved"]["bytes_per_second"]
            turns[line["job"]]["rates"].append(rate / MEGABYTE)
    within = 0
    for name, turn in turns.items():
        report, rates = turn["report"], turn["rates"]
        ceiling = report["ceiling"]["bytes_per_second"] / MEGABYTE
        predicted = report["predicted"]["bytes_per_second"] / MEGABYTE
        achieved = statistics.median(rates)
        within += abs(predicted / achieved - 1) <= 0.2
        lines.append(
            f"| {name} ({report['ceilings']['server'].split()[0]}) | {ceiling:.0f}"
            f" | {report['ceiling']['resource']} | {predicted:.0f}"
            f" | {achieved:.0f} ({min(rates):.0f}-{max(rates):.0f})"
            f" | {predicted / achieved:.2f} | {achieved / ceiling:.2f} |"
        )
    lines += [f"| {name} | not available: {reason} | | | | | |" for name, reason in missing.items()]
    lines += ["", f"Predicted within 20% of achieved: {within} of {len(turns)} jobs."]
    lines += ["Achieved: the median of the loads, while rows move; in parentheses the range."]
    return lines


def measure(job: Job, repeats: int, keep: Keep) -> None:
    """One preflight and some loads of a job."""
    env = environment(FULLBORE_HOME=str(DATA / "home-ceilings-state"))
    files = job.files()
    with job.place() as place:

        def clear() -> None:
            place.sql(f"DROP TABLE IF EXISTS {job.table}")
            if job.before:
                place.sql(job.before.format(table=job.table))
            place.sql("CHECKPOINT")
            for path in files:
                # Read once, so that it is in the page cache.
                with path.open("rb", buffering=0) as source:
                    while source.read(1 << 20):
                        pass

        what = [*map(str, files), "--to", place.url, *job.args, "--quiet", "--json"]
        clear()
        began = time.monotonic()
        report = json.loads(run_text([str(FULLBORE), "preflight", "all", *what], env=env))
        took = time.monotonic() - began
        keep({"part": "all", "job": job.name, "seconds": took, "preflight": report})
        for repeat in range(repeats):
            clear()
            load = [str(FULLBORE), "load", *what, "--statistics=none"]
            done = json.loads(run_text(load, env=env))
            keep({"part": "all", "job": job.name, "repeat": repeat, "load": done})
        place.sql(f"DROP TABLE IF EXISTS {job.table}")
