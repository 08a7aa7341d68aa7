"""How fast a cluster loads, with its peers in the same run: results under benchmarks/runs.

    python scripts/cluster/rates.py [--repeats 3] [--scale 4] [--only hosts|files|frames]

`hosts`: four hosts with their own files by `--on ray`, compared with one host that has all of them.
`files`: CSV by `--on ray`, Spark's JDBC writer, Ray Data's write_sql, each as a command of its own.
`frames`: DataFrames in the executors' memory by `df.write`, Spark's JDBC writer, and a sink that
writes nothing. All seconds include a final CHECKPOINT; the lab is one machine, so ratios count and
rates do not.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab import FULLBORE, PYTHON, Failed, Lab, Missing, tpch
from peers import DRIVER, fetch, jdbc

from demo import CHECKSUM, HOSTS, STREAMS, copied, counted, crossed, load, made, placed

JOBS = Path(__file__).resolve().parent / "jobs"
RUNS = Path(__file__).resolve().parents[2] / "benchmarks" / "runs"
SETTINGS = {
    "max_wal_size": "'16GB'", "max_connections": "120", "shared_buffers": "'512MB'",
    "wal_level": "minimal", "max_wal_senders": "0", "checkpoint_timeout": "'1h'", "fsync": "on",
}  # fmt: skip


# Ways of Spark, as spark_rates.py knows them.
SPARK = (
    "fullbore append", "jdbc append", "nothing append", "fullbore overwrite", "jdbc overwrite",
    "csv jdbc append",
)  # fmt: skip


class Rates:
    """Ways, measured in turn, and what came of them."""

    def __init__(self, lab: Lab, repeats: int) -> None:
        self.lab, self.repeats = lab, repeats
        self.raw: list[dict[str, Any]] = []
        self.cpu: dict[str, list[float]] = {}
        self.checking = 0.0
        self.is_first = True

    def measure(self, family: str, ways: dict[str, Callable[[], float]]) -> dict[str, float]:
        """The median seconds of each way; a way returns what its command took.

        The server's CPU is that of the way and of what is checked of it, less what `equal` took.
        """
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for repeat in range(self.repeats):
            self.is_first = repeat == 0
            for name, way in ways.items():
                self.lab.server.sql("CHECKPOINT")
                self.checking, cpu = 0.0, self.lab.server_cpu()
                took = way()
                began = time.monotonic()
                self.lab.server.sql("CHECKPOINT")
                took += time.monotonic() - began
                cpu = self.lab.server_cpu() - cpu - self.checking
                seconds[name].append(took)
                self.cpu.setdefault(name, []).append(cpu)
                one = {"family": family, "way": name, "seconds": round(took, 3)}
                self.raw.append({**one, "server_cpu_seconds": round(cpu, 2)})
                print(f"{family}: {name}: {took:.2f} s, server {cpu:.2f} s", file=sys.stderr)
        return {name: statistics.median(taken) for name, taken in seconds.items()}

    def equal(self, expected: str) -> None:
        """Compares count and checksum with plain COPY's; of a repeat the count alone."""
        cpu = self.lab.server_cpu()
        if self.is_first:
            found = self.lab.server.sql(CHECKSUM.format(table="lineitem"))
        else:
            expected = expected.partition("|")[0]
            found = self.lab.server.sql("SELECT count(*) FROM lineitem")
        self.checking += self.lab.server_cpu() - cpu
        if found != expected:
            raise Failed(f"count|checksum are {found}, plain COPY's {expected}")

    def server(self, name: str) -> str:
        """The server's CPU of a way, in words."""
        return f"server {statistics.median(self.cpu[name]):.1f} s of CPU"


def hosts(rates: Rates, scale: float) -> list[str]:
    """Four hosts by Ray, and one that has all files."""
    lab, lines = rates.lab, []
    files = tpch(scale, "lineitem", STREAMS)
    size = sum(file.stat().st_size for file in files)
    placed(files, lab.sources)
    alone = lab.driver
    for file in files:
        (alone.folder / "data" / file.name).hardlink_to(file)
    expected = copied(lab, files)
    for publish, method in (("partitions", "direct"), ("append", "copy")):

        def on_ray(publish: str = publish, method: str = method) -> float:
            made(lab, publish)
            before = counted(lab)
            _, took, _ = load(lab, publish, method)
            lines.extend(f"- {publish}, {method}: {line}" for line in crossed(before, counted(lab)))
            rates.equal(expected)
            return took

        def on_one(publish: str = publish, method: str = method) -> float:
            made(lab, publish)
            began = time.monotonic()
            lab.run(
                FULLBORE, "load", "/mnt/data/lineitem.tbl.*", "--table", "lineitem", "--to",
                lab.server.network_url, "--publish", publish, "--method", method,
                "--streams", str(STREAMS), "--quiet",
            )  # fmt: skip
            took = time.monotonic() - began
            rates.equal(expected)
            return took

        ways = {f"{HOSTS} hosts, Ray": on_ray, "one host": on_one}
        medians = rates.measure(f"hosts, {publish}, {method}", ways)
        ours, one = medians.values()
        lines.append(
            f"| {publish}, {method}: {size / 1e9:.2f} GB from {HOSTS} hosts by Ray | {ours:.2f} |"
            f" {size / ours / 1e6:.0f} | {one / ours:.2f} x one host ({one:.2f} s) |"
        )
    return lines


def shared(lab: Lab, scale: float) -> tuple[list[str], int, str]:
    """Files that all hosts can read, their size, and what plain COPY makes of them."""
    files = tpch(scale, "lineitem", 8)
    for file in files:
        (lab.shared / file.name).hardlink_to(file)
    return (
        [f"/mnt/shared/{file.name}" for file in files],
        sum(file.stat().st_size for file in files),
        copied(lab, files),
    )


def spark_ways(rates: Rates, paths: list[str], expected: str) -> dict[str, Callable[[], float]]:
    lab = rates.lab

    def way(name: str) -> Callable[[], float]:
        def run() -> float:
            made(lab, "append")
            began = time.monotonic()
            said = lab.run(
                *lab.spark_command(
                    JOBS / "spark_rates.py", name, jdbc(lab), lab.server.network_url,
                    str(DRIVER), *paths,
                ),
                PYSPARK_PYTHON=str(PYTHON),
            )  # fmt: skip
            took = time.monotonic() - began
            if name != "nothing append":
                rates.equal(expected)
            # Of a frame the write alone; of files the command, as it is of every other way.
            is_frame = not name.startswith("csv")
            return float(json.loads(said.strip().splitlines()[-1])["seconds"]) if is_frame else took

        return run

    return {name: way(name) for name in SPARK}


def files(rates: Rates, scale: float) -> list[str]:
    """CSV by each engine's own means, and by us on Ray."""
    lab = rates.lab
    paths, size, expected = shared(lab, scale)
    spark = spark_ways(rates, paths, expected)

    def on_ray(publish: str) -> float:
        made(lab, publish)
        # Each host has a share of its own: where the files are is where they are loaded. The peers
        # leave statistics to autovacuum.
        _, took, _ = load(lab, publish, "auto", "auto", "--statistics=none")
        rates.equal(expected)
        return took

    def write_sql() -> float:
        made(lab, "append")
        began = time.monotonic()
        # It sends a row at a time: all of it takes a quarter of an hour.
        lab.run(PYTHON, JOBS / "ray_sql.py", lab.server.network_url, paths[0])
        return (time.monotonic() - began) * len(paths)

    for host in lab.sources:
        for old in (host.folder / "data").iterdir():
            old.unlink()
    placed(tpch(scale, "lineitem", 8), lab.sources)
    ours = {
        "fullbore, --on ray, append": lambda: on_ray("append"),
        "fullbore, --on ray, partitions": lambda: on_ray("partitions"),
        "Spark JDBC": spark["csv jdbc append"],
    }
    medians = rates.measure("files", {**ours, "Ray Data write_sql, one file times 8": write_sql})
    best = min(seconds for name, seconds in medians.items() if "fullbore" not in name)
    return [
        f"| CSV, {size / 1e9:.2f} GB: {name} | {seconds:.2f} | {size / seconds / 1e6:.0f} |"
        f" {best / seconds:.2f} x the best peer; {rates.server(name)} |"
        for name, seconds in medians.items()
    ]


def frames(rates: Rates, scale: float) -> list[str]:
    """Frames in memory by Spark."""
    paths, size, expected = shared(rates.lab, scale)
    ways = spark_ways(rates, paths, expected)
    ways.pop("csv jdbc append")
    medians = rates.measure("frames", ways)
    lines = []
    for name, seconds in medians.items():
        mode = "overwrite" if name.endswith("overwrite") else "append"
        ratio = medians[f"jdbc {mode}"] / seconds
        lines.append(
            f"| DataFrame of {size / 1e9:.2f} GB of CSV: {name} | {seconds:.2f} |"
            f" {size / seconds / 1e6:.0f} | {ratio:.2f} x JDBC; {rates.server(name)} |"
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", type=float, default=4)
    parser.add_argument("--only", action="append", choices=["hosts", "files", "frames"])
    parser.add_argument("--name", default=platform.node())
    asked = parser.parse_args()
    only = asked.only or ["hosts", "files", "frames"]
    if only != ["hosts"]:
        fetch()
    out = RUNS / f"{time.strftime('%Y-%m-%d')}-{asked.name}-cluster"
    lines = [f"# {out.name}\n", "Five hosts and a server in namespaces of one machine.\n",
             "| | seconds | MB/s | |", "|---|---|---|---|"]  # fmt: skip
    notes: list[str] = []
    raw: list[dict[str, Any]] = []
    for name in only:
        try:
            lab = Lab(HOSTS, SETTINGS)
        except Missing as missing:
            print(f"SKIP the cluster: {missing}", file=sys.stderr)
            return 0
        try:
            rates = Rates(lab, asked.repeats)
            if name != "frames":
                lab.start_ray(cores=1)
            if name != "hosts":
                lab.start_spark()
            made_of = {"hosts": hosts, "files": files, "frames": frames}[name]
            for line in made_of(rates, asked.scale if name == "hosts" else asked.scale / 4):
                (lines if line.startswith("|") else notes).append(line)
            raw += rates.raw
        finally:
            lab.close()
        out.mkdir(parents=True, exist_ok=True)
        (out / "raw.jsonl").write_text("".join(json.dumps(one) + "\n" for one in raw))
        (out / "summary.md").write_text("\n".join([*lines, "", *dict.fromkeys(notes)]) + "\n")
    print((out / "summary.md").read_text())
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failed, subprocess.CalledProcessError) as error:
        print(f"FAIL {error}", file=sys.stderr)
        sys.exit(1)
