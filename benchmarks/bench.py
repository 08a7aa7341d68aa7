"""Every peer beside us, in one run. See README.md beside this."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from lab import (
    DATA,
    FULLBORE,
    ROOT,
    Failed,
    Measured,
    Server,
    run_measured,
    run_text,
    tpch,
    without_trailing_delimiter,
)
from peers import ours, psql

SCHEMA = (ROOT / "demo" / "schema" / "lineitem.sql").read_text().strip().rstrip(";")
TABLE = SCHEMA.replace("TABLE lineitem", "TABLE {table}", 1)
DROP = "SET client_min_messages = warning; DROP TABLE IF EXISTS lineitem;" + "".join(
    f" DROP TABLE IF EXISTS lineitem_{n};" for n in range(8)
)

Way = tuple[str, Callable[[], Measured]]


def cases(server: Server, scale: str) -> dict[str, tuple[list[Path], list[Way]]]:
    """The cases: files, and the ways to load them; the first way is ours."""
    four = tpch(scale, 4, "lineitem")
    plain = without_trailing_delimiter(four)
    one = tpch(scale, 1, "lineitem")
    schema = str(ROOT / "demo" / "schema" / "lineitem.sql")
    create = ("--create", "--schema", schema, "--format", "tbl")
    parsers = str(ROOT / "benchmarks" / "peers" / "parsers.py")

    def existing(*options: str) -> Measured:
        server.sql(TABLE.format(table="lineitem"))
        return ours.load(server, four, "--format", "tbl", *options)

    def parse_only(name: str) -> Measured:
        command = [sys.executable, parsers, name, *map(str, plain)]
        return run_measured(server, [(command, None)])

    partitions = ("--publish", "partitions", "--partition-by", "l_orderkey")
    columns = ",".join(line.split()[0] for line in SCHEMA.splitlines()[1:-1])
    types = [f"--type={n}={t}" for n, t in (line.split()[:2] for line in SCHEMA.splitlines()[1:-1])]
    null = ("--format", "tbl", "--header", "none", "--columns", columns, *types)
    cases: dict[str, tuple[list[Path], list[Way]]] = {
        "partitions": (
            four,
            [
                ("fullbore, 2 streams", lambda: ours.load(server, four, *create, *partitions)),
                ("psql, expert, 2 sessions", lambda: psql.own_tables(server, TABLE, plain, 2)),
                ("psql, expert, 4 sessions", lambda: psql.own_tables(server, TABLE, plain, 4)),
            ],
        ),
        "one-table": (
            four,
            [
                ("fullbore, append", existing),
                ("fullbore, append, 4 streams", lambda: existing("--streams", "4")),
                ("psql, 4 sessions", lambda: psql.one_table(server, TABLE, plain, 4)),
                ("psql, 2 sessions", lambda: psql.one_table(server, TABLE, plain, 2)),
                ("psql, expert, 1 session", lambda: psql.own_tables(server, TABLE, plain, 1)),
            ],
        ),
        "one-file": (
            one,
            [
                ("fullbore, one file", lambda: ours.load(server, one, *create)),
                ("fullbore, four files", lambda: ours.load(server, four, *create)),
            ],
        ),
        "parse-only": (
            four,
            [("fullbore, parse and encode", lambda: ours.load(server, four, *null, to="null:"))],
        ),
    }
    for name in ("duckdb", "pyarrow", "polars"):
        if has_module(name):
            way = (f"{name}, parse only", lambda name=name: parse_only(name))
            cases["parse-only"][1].append(way)
    return cases


def warm(files: list[Path]) -> None:
    """Reads files once, in parts: what this process keeps is counted as its children's peak."""
    for path in files:
        with path.open("rb", buffering=0) as source:
            while source.read(1 << 20):
                pass


def has_module(name: str) -> bool:
    """Whether a peer's wheel is installed."""
    try:
        run_text([sys.executable, "-c", f"import {name}"])
    except Failed:
        print(f"SKIP {name}: not installed (pip install -r benchmarks/requirements.txt)")
        return False
    return True


def main() -> None:
    """Runs the chosen cases and keeps what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", help="only this case; may be repeated")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", default="2", help="TPC-H scale of lineitem")
    args = parser.parse_args()
    requirements = ROOT / "benchmarks" / "requirements.txt"
    run_text([sys.executable, "-m", "pip", "install", "--quiet", "-r", str(requirements)])

    DATA.mkdir(parents=True, exist_ok=True)
    server = Server()
    out = ROOT / "benchmarks" / "runs" / f"{time.strftime('%Y-%m-%d')}-{platform.node()}"
    out.mkdir(parents=True, exist_ok=True)
    summary = [f"# {out.name}\n", *about(server, args)]
    with (out / "raw.jsonl").open("a") as raw:
        for name, (files, ways) in cases(server, args.scale).items():
            if args.case and name not in args.case:
                continue
            size = sum(path.stat().st_size for path in files)
            warm(files)
            measured: dict[str, list[Measured]] = {way: [] for way, _ in ways}
            for repeat in range(args.repeats):
                for way, load in ways:
                    server.sql(DROP + " CHECKPOINT;")
                    try:
                        result = load()
                    except Failed as error:
                        print(f"{name}: {way} failed: {error}", file=sys.stderr)
                        continue
                    measured[way].append(result)
                    line = {"case": name, "way": way, "repeat": repeat, "bytes": size}
                    raw.write(json.dumps(line | asdict(result)) + "\n")
                    raw.flush()
                    print(f"{name}: {way}: {size / 1e6 / result.seconds:.0f} MB/s", flush=True)
            summary += table(name, size, ways[0][0], measured)
    server.sql(DROP)
    (out / "summary.md").write_text("\n".join(summary) + "\n")
    print((out / "summary.md").read_text())
    server.stop()


def about(server: Server, args: argparse.Namespace) -> list[str]:
    """What it ran on."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown",
    )
    cores = run_text(["nproc"]).strip()
    settings = ("server_version", "wal_level", "shared_buffers", "data_checksums")
    values = ", ".join(f"{name} {server.sql(f'SHOW {name}').strip()}" for name in settings)
    version = run_text([str(FULLBORE), "--version"]).strip()
    return [
        f"{version}; {cpu}, {cores} cores shared by client and server; {values}; unix socket;",
        f"lineitem scale {args.scale}, {args.repeats} repeats in turn, medians; hot files; a final",
        "CHECKPOINT is in every figure; nobody gathers statistics.\n",
    ]


def table(name: str, size: int, first: str, measured: dict[str, list[Measured]]) -> list[str]:
    """One case as a table; the ratio is ours over the peer, pair by pair."""
    lines = [
        f"## {name}, {size / 1e9:.2f} GB\n",
        "| way | MB/s | ours / it | server CPU s/GB | client CPU s/GB | client memory MB |",
        "|---|---|---|---|---|---|",
    ]
    ours_seconds = [result.seconds for result in measured[first]]
    for way, results in measured.items():
        if not results:
            lines.append(f"| {way} | failed | | | | |")
            continue
        seconds = [result.seconds for result in results]
        ratios = [theirs / our for our, theirs in zip(ours_seconds, seconds, strict=False)]
        ratio = f"{statistics.median(ratios):.2f}" if ratios else "-"
        gigabytes = size / 1e9

        def median(values: list[float]) -> float:
            return statistics.median(values)

        lines.append(
            f"| {way} | {size / 1e6 / median(seconds):.0f} | {ratio} "
            f"| {median([r.server_cpu for r in results]) / gigabytes:.2f} "
            f"| {median([r.client_cpu for r in results]) / gigabytes:.2f} "
            f"| {median([r.client_memory for r in results]) / 1e6:.0f} |"
        )
    return [*lines, ""]


if __name__ == "__main__":
    main()
