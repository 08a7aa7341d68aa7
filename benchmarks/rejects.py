"""Bad rows among many: is each one told, is each other one loaded, and what does it cost?

Ten million rows, one in a hundred of them bad, in eight ways that are errors of input; the same
with rows that break constraints; and with one in a thousand that has the key of another row. Every
reject is held against what was written: its line, its SQLSTATE, its record. Every good row is held
against a table of clean rows, by checksum. See README.md beside this.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from lab import DATA, FULLBORE, HERE, Failed
from server import Server

PARENTS = 1000
COLUMNS = "k bigint, n int, day date, price numeric(9,2), tag varchar(8), note text"
CONSTRAINED = (
    "k bigint PRIMARY KEY, n int REFERENCES parents, day date NOT NULL,"
    " price numeric(9,2) CONSTRAINT paid CHECK (price >= 0), tag varchar(8), note text"
)
KEYED = "k bigint PRIMARY KEY, n int, day date, price numeric(9,2), tag varchar(8), note text"
CHUNK = 100_000


def fields(k: int) -> list[str]:
    """A good row."""
    return [
        str(k),
        str(k * 7919 % PARENTS),
        f"{2000 + k % 25}-{k % 12 + 1:02}-{k % 28 + 1:02}",
        f"{k % 99_999}.{k % 100:02}",
        f"tag{k % 1000}",
        f"note of row {k}",
    ]


def with_field(k: int, at: int, value: str) -> str:
    """A good row but for one field."""
    row = fields(k)
    row[at] = value
    return ",".join(row)


# How a row is bad: its line, and the SQLSTATE with which it is refused ("" where it is no row).
Kind = tuple[Callable[[int], str], str]
INPUT_ERRORS: list[Kind] = [
    (lambda k: ",".join(fields(k)[:4]), ""),
    (lambda k: ",".join([*fields(k), "more"]), ""),
    (lambda k: with_field(k, 1, "many"), "22P02"),
    (lambda k: with_field(k, 1, str(3_000_000_000 + k)), "22003"),
    (lambda k: with_field(k, 2, "2024-02-30"), "22008"),
    (lambda k: with_field(k, 3, f"{10_000_000 + k}.00"), "22003"),
    (lambda k: with_field(k, 4, "much too long"), "22001"),
    (lambda k: with_field(k, 5, "\udcff\udcfe"), ""),
]
CONSTRAINT_ERRORS: list[Kind] = [
    # The key of a row far before it, in another piece: half of the file back.
    (lambda k: with_field(k, 0, str(k // 2 + 1)), "23505"),
    (lambda k: with_field(k, 1, str(PARENTS + k)), "23503"),
    (lambda k: with_field(k, 3, "-1.00"), "23514"),
    (lambda k: with_field(k, 2, ""), "23502"),
]
# Rows in the order of their keys, as partitions want them.
REPEATED_KEYS: list[Kind] = [(lambda k: with_field(k, 0, str(k - 1)), "23505")]

WAYS = {
    "append (atomic)": [],
    "replace, copy": ["--publish", "replace", "--method", "copy"],
    "replace, direct": ["--publish", "replace", "--method", "direct"],
}
KEYED_WAYS = {
    "replace, direct": WAYS["replace, direct"],
    "partitions, direct": ["--publish", "partitions", "--method", "direct", "--scan-keys"],
}


@dataclass(frozen=True)
class Case:
    """Bad rows of some kinds, and the table that they are loaded into."""

    what: str
    columns: str
    kinds: list[Kind]
    ways: dict[str, list[str]]
    every: int

    def is_bad(self, k: int) -> bool:
        """Whether a row is bad in files that have some."""
        return k % self.every == self.every // 2


CASES = [
    Case("8 kinds of input error", COLUMNS, INPUT_ERRORS, WAYS, 100),
    Case("UNIQUE, FOREIGN KEY, CHECK, NOT NULL", CONSTRAINED, CONSTRAINT_ERRORS, WAYS, 100),
    Case("keys that are there twice", KEYED, REPEATED_KEYS, KEYED_WAYS, 1000),
]


@dataclass
class Rows:
    """A file of rows, and what is to become of the bad ones."""

    path: Path
    size: int
    bad: dict[int, tuple[str, str]]


def write(name: str, rows: int, case: Case | None) -> Rows:
    """Writes a file, its rows numbered as its lines; without a case all of them are good."""
    path = DATA / "rejects" / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    bad: dict[int, tuple[str, str]] = {}
    with path.open("w", encoding="utf-8", errors="surrogateescape") as out:
        for first in range(1, rows + 1, CHUNK):
            lines = []
            for k in range(first, min(first + CHUNK, rows + 1)):
                if case and case.is_bad(k):
                    make, code = case.kinds[k // case.every % len(case.kinds)]
                    line = make(k)
                    bad[k] = (code, line)
                else:
                    line = ",".join(fields(k))
                lines.append(line)
            out.write("\n".join(lines) + "\n")
    return Rows(path, path.stat().st_size, bad)


def told(folder: Path) -> Iterator[tuple[int, str, str]]:
    """Line, SQLSTATE and record of each reject."""
    (records,) = folder.glob("*.rejected")
    reasons = records.with_name(records.name + ".jsonl")
    with (
        records.open(encoding="utf-8", errors="surrogateescape", newline="\n") as raw,
        reasons.open() as said,
    ):
        for record, line in zip(raw, said, strict=True):
            reason = json.loads(line)
            if not reason["reason"]:
                raise Failed(f"line {reason['line']} is rejected without a reason")
            yield reason["line"], reason["code"] or "", record.rstrip("\n")


def check_rejects(folder: Path, rows: Rows) -> None:
    """Just the bad rows were rejected, each as it is bad."""
    left = dict(rows.bad)
    for line, code, record in told(folder):
        expected = left.pop(line, None)
        if expected != (code, record):
            raise Failed(f"line {line} is told as {code} {record!r}, but it is {expected!r}")
    if left:
        raise Failed(f"{len(left)} bad rows are not told, the first in line {min(left)}")


def load(server: Server, rows: Rows, options: list[str]) -> tuple[float, dict[str, object], Path]:
    """Loads into the table ``ours``; seconds, what it says of itself, where its rejects are."""
    folder = DATA / "rejects" / "out"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    command = [str(FULLBORE), "load", str(rows.path), "--to", server.url, "--table", "ours"]
    command += ["--header", "none", "--format", "csv", "--statistics=none", "--max-rejects", "5%"]
    command += ["--reject-dir", str(folder), "--json", "--quiet", *options]
    began = time.monotonic()
    done = subprocess.run(command, env=server.env, capture_output=True, text=True, check=False)
    server.sql("CHECKPOINT")
    seconds = time.monotonic() - began
    if done.returncode != (3 if rows.bad else 0):
        raise Failed(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return seconds, json.loads(done.stdout), folder


def checksum(server: Server, query: str) -> str:
    """Count and checksum of what a query returns, whatever its order."""
    return server.sql(f"SELECT count(*), sum(hashtextextended(t::text, 0)) FROM ({query}) t")


def run(server: Server, count: int, repeats: int, out: Path, cases: list[Case]) -> list[str]:
    """Loads all files in all ways; the lines of the table."""
    clean = write("clean", count, None)
    server.sql(f"CREATE TABLE reference ({COLUMNS})")
    server.sql(f"\\copy reference FROM '{clean.path}' (FORMAT csv)")
    server.sql(
        f"CREATE TABLE parents (id int PRIMARY KEY);"
        f" INSERT INTO parents SELECT generate_series(0, {PARENTS - 1})"
    )
    lines = []
    for case in cases:
        good = f"SELECT * FROM reference WHERE k % {case.every} <> {case.every // 2}"
        expected = {
            False: checksum(server, "SELECT * FROM reference"),
            True: checksum(server, good),
        }
        dirty = write("dirty", count, case)
        for way, options in case.ways.items():
            rates: dict[bool, list[float]] = {False: [], True: []}
            phases = ""
            for _ in range(repeats):
                for rows in (clean, dirty):
                    has_bad = bool(rows.bad)
                    tail = "PARTITION BY RANGE (k)" if "partitions" in options else ""
                    server.sql(
                        f"DROP TABLE IF EXISTS ours; CREATE TABLE ours ({case.columns}) {tail}"
                    )
                    server.sql("CHECKPOINT")
                    seconds, said, folder = load(server, rows, options)
                    if checksum(server, "SELECT * FROM ours") != expected[has_bad]:
                        raise Failed(f"{case.what}, {way}: the rows loaded are not the good ones")
                    if has_bad:
                        check_rejects(folder, rows)
                        phases = json.dumps(said["phases"])
                    rates[has_bad].append(rows.size / seconds / 1e6)
                    line = {"case": case.what, "way": way, "bad": len(rows.bad), "seconds": seconds}
                    with (out / "raw.jsonl").open("a") as raw:
                        raw.write(json.dumps(line | {"said": said}) + "\n")
            slow, fast = (sorted(rates[bad])[len(rates[bad]) // 2] for bad in (True, False))
            lines.append(
                f"| {case.what} | {way} | {fast:.0f} | {slow:.0f} | {slow / fast:.2f}"
                f" | {len(dirty.bad):,} |"
            )
            print(lines[-1], phases, flush=True)
    return lines


def main() -> int:
    """Runs it, and keeps what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument(
        "--name", default=f"{platform.node()}-rejects", help="of the folder under runs/"
    )
    parser.add_argument("--only", default="", help="cases whose names hold this")
    args = parser.parse_args()
    cases = [case for case in CASES if args.only in case.what]
    out = HERE / "runs" / f"{time.strftime('%Y-%m-%d')}-{args.name}"
    out.mkdir(parents=True, exist_ok=True)
    (out / "raw.jsonl").unlink(missing_ok=True)
    server = Server()
    server.start()
    server.clear()
    server.sql("CREATE EXTENSION IF NOT EXISTS fullbore")
    try:
        lines = run(server, args.rows, args.repeats, out, cases)
    finally:
        server.clear()
        server.stop()
        for path in (DATA / "rejects").glob("*.csv"):
            path.unlink()
    head = [
        f"# {out.name}\n",
        f"{args.rows:,} rows; of the files that have bad rows, "
        + ", ".join(f"one in {case.every} ({case.what})" for case in cases)
        + ". Every"
        " reject was compared by line, SQLSTATE and record, every good row by checksum. MB/s of"
        f" text, final CHECKPOINT included; medians of {args.repeats}.\n",
        "| bad rows | way | clean, MB/s | with bad rows, MB/s | ratio | rejects |",
        "|---|---|---|---|---|---|",
    ]
    (out / "summary.md").write_text("\n".join([*head, *lines]) + "\n")
    print((out / "summary.md").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
