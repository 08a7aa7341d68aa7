"""Four hosts load one table together, over 56 sessions, and one report has them all.

    python scripts/cluster/demo.py [--scale 0.5] [--publish partitions|append]

Each host has a quarter of the files of TPC-H's lineitem and sees no other ones. The result is
compared with plain COPY, and the links' counters show that rows went from their own host to the
database, and nowhere else.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lab import FULLBORE, Failed, Host, Lab, Missing, tpch

HOSTS = 4
STREAMS = 56
COLUMNS = """
    l_orderkey bigint NOT NULL, l_partkey bigint NOT NULL, l_suppkey bigint NOT NULL,
    l_linenumber integer NOT NULL, l_quantity numeric(15,2) NOT NULL,
    l_extendedprice numeric(15,2) NOT NULL, l_discount numeric(15,2) NOT NULL,
    l_tax numeric(15,2) NOT NULL, l_returnflag char(1) NOT NULL, l_linestatus char(1) NOT NULL,
    l_shipdate date NOT NULL, l_commitdate date NOT NULL, l_receiptdate date NOT NULL,
    l_shipinstruct char(25) NOT NULL, l_shipmode char(10) NOT NULL,
    l_comment varchar(44) NOT NULL"""
CHECKSUM = "SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {table} t"


def made(lab: Lab, publish: str) -> None:
    tail = " PARTITION BY RANGE (l_orderkey)" if publish == "partitions" else ""
    lab.server.sql("DROP TABLE IF EXISTS lineitem; DROP SCHEMA IF EXISTS fullbore_ledger CASCADE")
    lab.server.sql(f"CREATE TABLE lineitem ({COLUMNS}){tail}")


def placed(files: list[Path], hosts: list[Host]) -> None:
    """Gives each host its share of the files, in turn: each has keys from everywhere."""
    for number, file in enumerate(files):
        target = hosts[number % len(hosts)].folder / "data" / file.name
        target.hardlink_to(file)


def load(
    lab: Lab, publish: str, method: str, streams: int | str = STREAMS, *more: str
) -> tuple[dict[str, Any], float, str]:
    """Loads on Ray; the result, the seconds that the command took, and what it printed."""
    command: list[str | Path] = [FULLBORE, "load", "lineitem.tbl.*", "--table", "lineitem"]
    command += ["--to", lab.server.network_url, "--publish", publish, "--method", method]
    command += ["--streams", str(streams), "--on", "ray", "--json", *more]
    for host in lab.sources:
        command += ["--host", f"{host.name}=/mnt/data"]
    began = time.monotonic()
    done = subprocess.run(
        lab.driver.command(*command), capture_output=True, text=True, cwd="/",
        env=lab.ray_environment(), check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise Failed(f"the load ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout), time.monotonic() - began, done.stderr


def counted(lab: Lab) -> dict[str, tuple[int, int]]:
    return {host.name: host.sent() for host in lab.hosts}


def crossed(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> list[str]:
    """What went out of each host and came in, in words."""
    lines = []
    for name, (out, into) in after.items():
        out, into = out - before[name][0], into - before[name][1]
        lines.append(f"{name}: {out / 1e6:,.1f} MB out, {into / 1e6:,.1f} MB in")
    return lines


def copied(lab: Lab, files: list[Path]) -> str:
    """Count and checksum of plain COPY of the files."""
    lab.server.sql(f"DROP TABLE IF EXISTS plain; CREATE TABLE plain ({COLUMNS})")
    for file in files:
        psql = [str(lab.server.programs / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h",
                str(lab.server.socket_dir), "-U", "postgres", "-d", "faults",
                "-c", "COPY plain FROM STDIN (DELIMITER '|')"]  # fmt: skip
        with subprocess.Popen(["sed", "s/|$//", str(file)], stdout=subprocess.PIPE) as text:
            subprocess.run(psql, stdin=text.stdout, check=True)
    found = lab.server.sql(CHECKSUM.format(table="plain"))
    lab.server.sql("DROP TABLE plain")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.5)
    parser.add_argument("--publish", default="partitions", choices=["partitions", "append"])
    parser.add_argument("--report", type=Path, default=Path("cluster-report.html"))
    asked = parser.parse_args()
    try:
        lab = Lab(HOSTS, {"max_wal_size": "'8GB'", "max_connections": "100"})
    except Missing as missing:
        print(f"SKIP the cluster: {missing}", file=sys.stderr)
        return 0
    try:
        print(f"== generating lineitem, scale {asked.scale}, in {STREAMS} files", file=sys.stderr)
        files = tpch(asked.scale, "lineitem", STREAMS)
        placed(files, lab.sources)
        print("== starting Ray on five hosts", file=sys.stderr)
        lab.start_ray()
        made(lab, asked.publish)
        print("== loading from four of them", file=sys.stderr)
        before = counted(lab)
        result, _, _ = load(lab, asked.publish, "auto")
        for line in crossed(before, counted(lab)):
            print(f"   {line}", file=sys.stderr)
        lab.run(FULLBORE, "runs", "report", result["run_id"], "-o", "/mnt/home/report.html")
        shutil.copy(lab.driver.folder / "home" / "report.html", asked.report)
        rate = result["bytes"] / result["seconds"] / 1e6
        print(f"== {result['rows']:,} rows, {result['bytes'] / 1e6:,.0f} MB in "
              f"{result['seconds']:.1f} s ({rate:,.0f} MB/s), {result['streams']} streams on "
              f"{len(result['verdict']['hosts'])} hosts", file=sys.stderr)  # fmt: skip
        print("== comparing with plain COPY", file=sys.stderr)
        ours, plain = lab.server.sql(CHECKSUM.format(table="lineitem")), copied(lab, files)
        if ours != plain:
            print(f"FAIL count|checksum are {ours}, plain COPY's {plain}", file=sys.stderr)
            return 1
        print(f"== equal ({ours}); the report is {asked.report}", file=sys.stderr)
        return 0
    finally:
        lab.close()


if __name__ == "__main__":
    sys.exit(main())
