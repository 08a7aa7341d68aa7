"""`make pipe GIGABYTES=40`: one run fed through a pipe, and whether its memory stays flat.

`fullbore gen` writes lineitem into `fullbore load -`: once into `null:`, which takes what is
encoded and keeps nothing, and once into a table that is emptied while the run goes on, so that no
disk has to hold it all. The client's resident memory is looked at twice a second; the last half's
median must not be above the second quarter's by more than a twentieth, and the peak not above
300 MB.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from places import CACHE, FULLBORE, Failed, environment
from server import Server, folder_for_servers

LINEITEM_BYTES_A_SCALE = 775_000_000
AT_MOST_KB = 300_000
EMPTIED_AT_BYTES = 3_000_000_000
STREAMS = 4
EVERY_S = 0.5

COLUMNS = {
    "l_orderkey": "bigint", "l_partkey": "int", "l_suppkey": "int", "l_linenumber": "int",
    "l_quantity": "numeric(15,2)", "l_extendedprice": "numeric(15,2)",
    "l_discount": "numeric(15,2)", "l_tax": "numeric(15,2)", "l_returnflag": "char(1)",
    "l_linestatus": "char(1)", "l_shipdate": "date", "l_commitdate": "date",
    "l_receiptdate": "date", "l_shipinstruct": "char(25)", "l_shipmode": "char(10)",
    "l_comment": "varchar(44)",
}  # fmt: skip
TABLE = f"CREATE TABLE lineitem ({', '.join(f'{name} {type_}' for name, type_ in COLUMNS.items())})"
SIZE = "SELECT pg_relation_size('lineitem')"


@dataclass
class Piped:
    """What was seen of one run."""

    name: str
    kb: list[int] = field(default_factory=list)
    peak_kb: int = 0
    seconds: float = 0.0
    rows: int = 0
    bytes: int = 0
    emptied: int = 0
    wrong: list[str] = field(default_factory=list)

    def parts(self, count: int = 10) -> list[int]:
        """Medians of so many parts of the run: the line that has to be flat."""
        ends = [len(self.kb) * part // count for part in range(count + 1)]
        parts = [self.kb[a:b] for a, b in itertools.pairwise(ends) if b > a]
        return [round(statistics.median(part)) for part in parts]

    def judge(self) -> None:
        if self.peak_kb > AT_MOST_KB:
            self.wrong.append(f"its peak of {self.peak_kb} kB is above {AT_MOST_KB}")
        quarter, half = len(self.kb) // 4, len(self.kb) // 2
        if quarter == 0:
            self.wrong.append("it was too short to be looked at")
            return
        first, last = statistics.median(self.kb[quarter:half]), statistics.median(self.kb[half:])
        if last > first * 1.05:
            self.wrong.append(f"it grows from {first:.0f} to {last:.0f} kB")


def piped(
    name: str, scale: float, arguments: list[str], home: Path, server: Server | None
) -> Piped:
    """One run fed by `gen`, looked at until it ends."""
    found = Piped(name)
    here = environment(FULLBORE_HOME=str(home))
    feed = subprocess.Popen(
        [str(FULLBORE), "gen", "tpch", "--scale", str(scale), "--tables", "lineitem", "--out", "-"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=here,
    )  # fmt: skip
    began = time.monotonic()
    command = [str(FULLBORE), "load", "-", *arguments, "--format", "tbl", "--json", "--quiet"]
    load = subprocess.Popen(
        command, stdin=feed.stdout, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=here,
    )  # fmt: skip
    assert feed.stdout is not None
    # The load has the pipe's only reading end: should it end early, `gen` is told by the pipe.
    feed.stdout.close()
    status = Path(f"/proc/{load.pid}/status")
    while load.poll() is None:
        with suppress(OSError, IndexError, ValueError):
            text = status.read_text()
            found.kb.append(int(text.split("VmRSS:")[1].split()[0]))
            found.peak_kb = max(found.peak_kb, int(text.split("VmHWM:")[1].split()[0]))
        if server is not None and int(server.sql(SIZE)) > EMPTIED_AT_BYTES:
            # It waits for the pieces under way, and those to come wait for it.
            server.sql("TRUNCATE lineitem")
            found.emptied += 1
        time.sleep(EVERY_S)
    found.seconds = time.monotonic() - began
    out, said = load.communicate()
    feed.wait()
    if load.returncode != 0 or feed.returncode != 0:
        raise Failed(f"{name}: load {load.returncode}, gen {feed.returncode}: {said[-2000:]}")
    summary = json.loads(out.strip().splitlines()[-1])
    found.rows, found.bytes = summary["rows"], summary["bytes"]
    found.judge()
    return found


def said_of(found: Piped) -> str:
    line = " ".join(f"{kb / 1000:.0f}" for kb in found.parts())
    emptied = f", emptied {found.emptied} times" if found.emptied else ""
    return (
        f"{found.name}: {found.rows:,} rows, {found.bytes / 1e9:.1f} GB in {found.seconds:.0f} s"
        f"{emptied}; memory by tenths of the run {line} MB,"
        f" peak {found.peak_kb / 1000:.0f} MB; {'; '.join(found.wrong) or 'flat'}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=40)
    parser.add_argument("--method", choices=("copy", "direct"), default="copy")
    args = parser.parse_args()
    scale = round(args.gigabytes * 1e9 / LINEITEM_BYTES_A_SCALE, 3)
    folder = folder_for_servers()
    server = Server(folder, "pipe", {"max_wal_size": "'4GB'"})
    home = folder / "home"
    home.mkdir()
    try:
        server.sql(TABLE)
        types = [f"--type={name}={type_}" for name, type_ in COLUMNS.items()]
        into_null = ["--to", "null:", "--table", "lineitem", "--header", "none",
                     "--columns", ",".join(COLUMNS), *types]  # fmt: skip
        into_table = ["--to", server.url, "--table", "lineitem", "--publish", "append",
                      "--method", args.method, "--streams", str(STREAMS)]  # fmt: skip
        runs = []
        for name, arguments, emptied in (
            ("into null:", into_null, None),
            (f"into a table by {args.method}", into_table, server),
        ):
            runs.append(piped(name, scale, arguments, home, emptied))
            print(said_of(runs[-1]), flush=True)
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    log = CACHE / f"pipe-{time.strftime('%Y-%m-%dT%H-%M-%S')}.json"
    log.write_text(json.dumps([vars(run) for run in runs], indent=1))
    print(f"kept in {log}")
    return 1 if any(run.wrong for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
