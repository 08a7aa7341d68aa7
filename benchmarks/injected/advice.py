"""Whether advice helps: the rate before and after it was followed, and with more of something else.

Each case names words of the advice that it follows: the load before must say them. `after` does
what they say; `other` gives more of something that the verdict does not name, and must not help.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import variants as of
from lab import SCRATCH, Failed, Missing
from links import shaped, wan
from run import loaded
from servers import MINIMAL, REPLICA
from trial import CREATE, DIRECT, PARTITIONS, Load, Stage

Variant = Callable[[Stage], AbstractContextManager[Load]]
with_streams = of.with_streams

REPLACE = (*CREATE, "--publish", "replace")

# A rate that was helped is higher by this, and one that was not is within that.
HELPED, NOT_HELPED = 1.15, 1.12
# Sessions of a server on this machine.
ENOUGH = 2 * len(os.sched_getaffinity(0))


@dataclass
class Case:
    """Verdict and words of the advice, and loads that show whether it helps."""

    limit: str
    says: str
    followed: str
    before: Variant
    after: Variant
    other_is: str = ""
    other: Variant | None = None


CASES = {
    "server-cores": Case(
        "database_cpu",
        "",
        "the server gets 1.6 cores, not 0.8",
        lambda s: of.cores(s, 0.8, None, *with_streams(3, "--parsers", "1")),
        lambda s: of.cores(s, 1.6, None, *with_streams(3, "--parsers", "1")),
        "a second parser",
        lambda s: of.cores(s, 0.8, None, *with_streams(3, "--parsers", "2")),
    ),
    "client-cores": Case(
        "client_cpu",
        "a machine with more CPUs",
        "the client gets 0.5 cores, not 0.25",
        lambda s: of.cores(s, 0.8, 0.25, *with_streams(3), *PARTITIONS, *DIRECT),
        lambda s: of.cores(s, 0.8, 0.5, *with_streams(3), *PARTITIONS, *DIRECT),
        "the server gets 1.6 cores, not 0.8",
        lambda s: of.cores(s, 1.6, 0.25, *with_streams(3), *PARTITIONS, *DIRECT),
    ),
    "direct": Case(
        "database_cpu",
        "--method direct",
        "--method direct",
        lambda s: of.cores(s, None, None, *with_streams(3), *PARTITIONS),
        lambda s: of.cores(s, None, None, *with_streams(3), *PARTITIONS, *DIRECT),
    ),
    "indexes-afterwards": Case(
        "database_cpu",
        "indexes are updated row by row",
        "--publish replace",
        lambda s: of.indexed(s, "append"),
        lambda s: of.indexed(s, "replace"),
    ),
    "two-streams": Case(
        "too_few_streams",
        "--streams 2",
        "--streams 2",
        lambda s: of.plain(s, with_streams(1)),
        lambda s: of.plain(s, with_streams(2)),
    ),
    "tablespaces": Case(
        "database_disk",
        "--tablespaces A,B",
        "--tablespaces, one more disk",
        lambda s: of.data(s, 1),
        lambda s: of.data(s, 2),
        "four more streams",
        lambda s: of.data(s, 1, streams=8),
    ),
    "faster-source": Case(
        "source_disk",
        "on a faster disk",
        "a disk of 40 MB/s, not 20",
        lambda s: of.source(s, 20),
        lambda s: of.source(s, 40),
        "three more streams",
        lambda s: of.source(s, 20, streams=6),
    ),
    "larger-receive-window": Case(
        "receive_cap",
        "net.ipv4.tcp_rmem",
        "tcp_rmem of 1 MiB, not 256 KiB",
        lambda s: of.far(s, wan(40), 35, with_streams(2), tcp_rmem=1 << 18),
        lambda s: of.far(s, wan(40), 35, with_streams(2), tcp_rmem=1 << 20),
        "tcp_wmem of 16 MiB, not 4",
        lambda s: of.far(s, wan(40), 35, with_streams(2), tcp_rmem=1 << 18, tcp_wmem=16 << 20),
    ),
    "larger-send-buffer": Case(
        "send_window",
        "net.ipv4.tcp_wmem",
        "tcp_wmem of 1 MiB, not 256 KiB",
        lambda s: of.far(s, wan(40), 30, with_streams(2), tcp_wmem=1 << 18),
        lambda s: of.far(s, wan(40), 30, with_streams(2), tcp_wmem=1 << 20),
        "tcp_rmem of 64 MiB, not 32",
        lambda s: of.far(s, wan(40), 30, with_streams(2), tcp_wmem=1 << 18, tcp_rmem=64 << 20),
    ),
    "packed-rows": Case(
        "congestion",
        "--compress zstd compresses the rows",
        "--compress zstd",
        lambda s: of.far(s, shaped("120mbit"), 90, [*with_streams(3), *PARTITIONS, *DIRECT]),
        lambda s: of.far(
            s, shaped("120mbit"), 90, [*with_streams(3), *PARTITIONS, *DIRECT, "--compress", "zstd"]
        ),
        "three more streams",
        lambda s: of.far(s, shaped("120mbit"), 90, [*with_streams(6), *PARTITIONS, *DIRECT]),
    ),
    "rows-as-text": Case(
        "congestion",
        "--as-text",
        "--as-text",
        lambda s: of.far(s, shaped("120mbit"), 90, with_streams(3)),
        lambda s: of.far(s, shaped("120mbit"), 90, with_streams(3, "--as-text")),
        "three more streams",
        lambda s: of.far(s, shaped("120mbit"), 90, with_streams(6)),
    ),
    "more-flows": Case(
        "flow_cap",
        "--streams 4",
        "--streams 4",
        lambda s: of.far(s, wan(40), 35, with_streams(2), segments=60),
        lambda s: of.far(s, wan(40), 35, with_streams(4), segments=60),
        "tcp_rmem of 64 MiB, not 32",
        lambda s: of.far(s, wan(40), 35, with_streams(2), segments=60, tcp_rmem=64 << 20),
    ),
    "one-session": Case(
        "flow_cap",
        "by direct one session fills the table: --publish partitions",
        "--publish partitions",
        lambda s: of.far(s, wan(40), 35, [*with_streams(4), *REPLACE, *DIRECT], segments=60),
        lambda s: of.far(s, wan(40), 35, [*with_streams(4), *PARTITIONS, *DIRECT], segments=60),
        "four more streams",
        lambda s: of.far(s, wan(40), 35, [*with_streams(8), *REPLACE, *DIRECT], segments=60),
    ),
    "sessions-elsewhere": Case(
        "database_cpu",
        "use more sessions, if the server has idle CPUs: --streams 2",
        "--streams 2",
        lambda s: of.far(s, shaped(None), 300, with_streams(1)),
        lambda s: of.far(s, shaped(None), 300, with_streams(2)),
    ),
    "all-parsers": Case(
        "too_few_streams",
        "CPUs are idle: --parsers 2",
        "--parsers 2",
        lambda s: of.discarded(s, with_streams(4, "--parsers", "1")),
        lambda s: of.discarded(s, with_streams(4, "--parsers", "2")),
        "four more streams",
        lambda s: of.discarded(s, with_streams(8, "--parsers", "1")),
    ),
    # Two processors are just enough for one reader and its parsers: either may be what is short.
    "several-files": Case(
        "client_cpu or too_few_streams",
        "is read by one thread",
        "the same rows in four files, not one",
        lambda s: of.discarded(s, with_streams(4), packed=1),
        lambda s: of.discarded(s, with_streams(4), packed=4),
        "four more streams",
        lambda s: of.discarded(s, with_streams(8), packed=1),
    ),
    "compressed-source": Case(
        "source_disk",
        "compressed files (zstd)",
        "the same files, by zstd",
        lambda s: of.source(s, 20),
        lambda s: of.source(s, 20, compressed=True),
        "three more streams",
        lambda s: of.source(s, 20, streams=6),
    ),
    "even-pieces": Case(
        "long_tail",
        "split the data more evenly",
        "partitions of one size",
        lambda s: of.bounded(s, [1, 40_000, 80_000, 120_000, 7_000_000]),
        lambda s: of.bounded(s, [1, 1_220_000, 2_440_000, 3_660_000, 7_000_000]),
        "four more streams",
        lambda s: of.bounded(s, [1, 40_000, 80_000, 120_000, 7_000_000], streams=8),
    ),
    "without-neighbours": Case(
        "neighbour",
        "load after they end",
        "the same load when they are",
        lambda s: of.plain(s, with_streams(3), busy=8),
        lambda s: of.plain(s, with_streams(3)),
    ),
    "without-the-lock": Case(
        "lock_wait",
        "the lock was held by",
        "the same load when the lock is gone",
        lambda s: of.plain(s, with_streams(3), lock_s=8),
        lambda s: of.plain(s, with_streams(3)),
        "three more streams",
        lambda s: of.plain(s, with_streams(6), lock_s=8),
    ),
    "unlogged-rows": Case(
        "wal",
        "--publish partitions writes none",
        "wal_level=minimal, --publish partitions",
        lambda s: of.logged(s, REPLICA, with_streams(3), ("log",)),
        lambda s: of.logged(s, MINIMAL, [*with_streams(3), *PARTITIONS], ("log",)),
        "three more streams",
        lambda s: of.logged(s, REPLICA, with_streams(6), ("log",)),
    ),
    "log-apart": Case(
        "wal",
        "put pg_wal on a device of its own",
        "pg_wal on another disk",
        lambda s: of.logged(s, REPLICA, with_streams(3)),
        lambda s: of.logged(s, REPLICA, with_streams(3), ("data",)),
    ),
    "kept-log": Case(
        "wal",
        "raise min_wal_size",
        "min_wal_size of 2 GB, not 80 MB",
        lambda s: of.after_a_lull(s, "80MB"),
        lambda s: of.after_a_lull(s, "2GB"),
        "three more streams",
        lambda s: of.after_a_lull(s, "80MB", streams=6),
    ),
    "larger-log": Case(
        "wal",
        "raise max_wal_size",
        "max_wal_size of 8 GB, not 64 MB",
        lambda s: of.checkpointed(s, "64MB"),
        lambda s: of.checkpointed(s, "8GB"),
        "three more streams",
        lambda s: of.checkpointed(s, "64MB", streams=6),
    ),
    "table-of-each-piece": Case(
        "extension_lock",
        f"each piece has its own table; --streams {ENOUGH} is enough",
        f"--publish partitions --streams {ENOUGH}",
        lambda s: of.long_rows(s, 14),
        lambda s: of.long_rows(s, 14, streams=ENOUGH, is_partitions=True),
        "twelve more streams",
        lambda s: of.long_rows(s, 14, streams=24),
    ),
    "newer-server": Case(
        "extension_lock",
        "PostgreSQL 16 and later",
        "PostgreSQL 18, not 14",
        lambda s: of.long_rows(s, 14),
        lambda s: of.long_rows(s, 18),
    ),
}


def main() -> int:
    """Runs what has not been run yet, until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, help="begin no load after so long")
    parser.add_argument("--out", type=Path, required=True, help="a folder; goes on with it")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    args.out.mkdir(parents=True, exist_ok=True)
    left = _run(args)
    lines = _lines(args.out / "advice.jsonl")
    (args.out / "advice.md").write_text("\n".join(_table(lines)) + "\n")
    print((args.out / "advice.md").read_text())
    print(f"{left} loads are left" if left else "all loads are run")
    loads = {True: set(), False: set()}
    for line in lines:
        loads["rate" in line].add((line["case"], line["variant"]))
    failed = sorted(loads[False] - loads[True])
    for name, variant in failed:
        print(f"{name}, {variant}: failed, advice.jsonl has the reason")
    return 1 if failed else 0


def _lines(raw: Path) -> list[dict]:
    return [json.loads(line) for line in raw.read_text().splitlines()] if raw.exists() else []


def _run(args: argparse.Namespace) -> int:
    raw = args.out / "advice.jsonl"
    kept = [line for line in _lines(raw) if "rate" in line]
    done = {(line["case"], line["variant"], line["repeat"]) for line in kept}
    wanted = [
        (name, variant, repeat)
        for repeat in range(args.repeats)
        for name in args.case or CASES
        for variant in ("before", "after", "other")
        if getattr(CASES[name], variant) and (name, variant, repeat) not in done
    ]
    ends = time.monotonic() + (args.minutes or 1e9) * 60
    stage = Stage()
    try:
        with raw.open("a") as out:
            while wanted and time.monotonic() < ends:
                name, variant, repeat = wanted.pop(0)
                line = {"case": name, "variant": variant, "repeat": repeat}
                try:
                    with getattr(CASES[name], variant)(stage) as load:
                        result = loaded(load)
                    result.pop("window")
                    line |= result | {"rate": result["bytes"] / result["seconds"]}
                except (Missing, Failed, subprocess.SubprocessError) as error:
                    line["failed"] = str(error)[-1000:]
                out.write(json.dumps(line) + "\n")
                out.flush()
                rate = line.get("rate", 0) / 1e6
                said = line.get("limit", line.get("failed"))
                print(f"{name} {variant} {repeat}: {rate:.1f} MB/s, {said}", flush=True)
    finally:
        stage.end()
        shutil.rmtree(SCRATCH, ignore_errors=True)
    return len(wanted)


def _table(lines: list[dict]) -> list[str]:
    said = [
        "# Advice, followed\n",
        "Rates are medians in MB/s of source; a load of rows that are compressed counts as what it"
        " is after decompression.\n",
        "| case | verdict before | followed | before | after | times | helps | other | times |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, case in CASES.items():
        mine = [line for line in lines if line["case"] == name and "rate" in line]
        rates = {
            variant: [line["rate"] / 1e6 for line in mine if line["variant"] == variant]
            for variant in ("before", "after", "other")
        }
        if not rates["before"] or not rates["after"]:
            continue
        limits = case.limit.split(" or ")
        before = [line for line in mine if line["variant"] == "before"]
        named = sum(
            line["limit"] in limits and any(case.says in advice for advice in line["advice"])
            if case.says
            else line["limit"] in limits
            for line in before
        )
        middle = {variant: statistics.median(of) for variant, of in rates.items() if of}
        times = middle["after"] / middle["before"]
        cells = [name, f"{case.limit} {named}/{len(before)}", case.followed]
        cells += [f"{middle['before']:.1f}", f"{middle['after']:.1f}", f"{times:.2f}"]
        cells.append("yes" if times >= HELPED and named == len(before) else "NO")
        if "other" in middle:
            share = middle["other"] / middle["before"]
            verdict = "" if share <= NOT_HELPED else " HELPS"
            cells += [case.other_is, f"{share:.2f}{verdict}"]
        else:
            cells += ["", ""]
        said.append(f"| {' | '.join(cells)} |")
    return said


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
