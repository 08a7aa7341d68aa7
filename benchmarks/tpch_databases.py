"""All tables of TPC-H into DuckDB, SQLite and MariaDB, each by one job file, against PostgreSQL.

    python benchmarks/tpch_databases.py --out FOLDER [--scale 1] [--only duckdb]

Of every column, count and sum (of texts their lengths, of dates the least and greatest and how many
there are) must be those that PostgreSQL has of the same files, loaded by psql.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python" / "tests"))

from data import TABLES, DataSet, tpch
from database_places import DRIVERS, MariaDb, Place
from lab import FULLBORE, environment, run_text
from peers import psql
from server import Server

SCHEMES = ("duckdb", "sqlite", "mysql")
FILES = 2


def terms(data: DataSet) -> list[str]:
    """What is compared of a table, in SQL that all understand."""
    found = ["count(*)"]
    for column, kind in data.columns.items():
        if kind == "date":
            found += [f"min({column})", f"max({column})", f"count(DISTINCT {column})"]
        elif kind.startswith(("char", "text", "varchar")):
            found.append(f"sum(length({column}))")
        else:
            found.append(f"sum({column})")
    return found


def same(one: object, other: object) -> bool:
    """Whether two databases say the same: sums of SQLite's are those of binary fractions."""
    try:
        return math.isclose(float(str(one)), float(str(other)), rel_tol=1e-10)
    except ValueError:
        return str(one) == str(other)


def truth(server: Server, sets: list[DataSet]) -> dict[str, list[str]]:
    """What PostgreSQL has of each table."""
    found = {}
    for data in sets:
        server.clear()
        psql.one_table(server, data, FILES, None)
        said = server.sql(f"SELECT {', '.join(terms(data))} FROM {data.table}")
        found[data.table] = said.strip().split("|")
    server.clear()
    return found


def job(sets: list[DataSet], folder: Path) -> Path:
    """The job file."""
    lines = []
    for data in sets:
        files = json.dumps([str(path) for path in data.files])
        lines += ["[[table]]", f'name = "{data.table}"', f"sources = {files}", 'format = "tbl"', ""]
    file = folder / "job.toml"
    file.write_text("\n".join(lines))
    return file


def load(place: Place, sets: list[DataSet], folder: Path) -> float:
    """Loads all tables; the seconds that took."""
    for data in sets:
        place.sql(data.create().replace(" text", " varchar(200)"))
    home = {"FULLBORE_HOME": str(folder / "state"), "ADBC_DRIVER_PATH": str(DRIVERS)}
    began = time.monotonic()
    command = [str(FULLBORE), "load", str(job(sets, folder)), "--to", place.to, "--quiet"]
    run_text(command, env=environment(**home))
    return time.monotonic() - began


def differing(place: Place, sets: list[DataSet], expected: dict[str, list[str]]) -> list[str]:
    """What a database has otherwise."""
    wrong = []
    for data in sets:
        [found] = place.sql(f"SELECT {', '.join(terms(data))} FROM {data.table}")
        pairs = zip(terms(data), found, expected[data.table], strict=True)
        wrong += [
            f"{data.table}: {term} is {ours}, not {theirs}"
            for term, ours, theirs in pairs
            if not same(ours, theirs)
        ]
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scale", default="1")
    parser.add_argument("--only", choices=SCHEMES)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    sets = [tpch(args.scale, FILES, table) for table in TABLES]
    size = sum(data.size for data in sets)
    server = Server()
    server.start()
    try:
        expected = truth(server, sets)
    finally:
        server.stop()
    total = 0
    for scheme in [args.only] if args.only else SCHEMES:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            folder = Path(name)
            folder.chmod(0o755)
            maria = None
            if scheme == "mysql":
                (folder / "server").mkdir()
                maria = MariaDb(folder / "server")
            place = Place(scheme, folder, maria)
            seconds = load(place, sets, folder)
            wrong = differing(place, sets, expected)
            if maria is not None:
                maria.stop()
        total += len(wrong)
        compared = sum(len(terms(data)) for data in sets)
        told = {"scheme": scheme, "seconds": seconds, "bytes": size, "compared": compared}
        with (args.out / "tables.jsonl").open("a") as out:
            out.write(json.dumps(told | {"wrong": wrong}) + "\n")
        print(f"{scheme}: {size / 1e6:.0f} MB in {seconds:.1f} s, {compared} values compared,")
        print(f"  {len(wrong)} differ {wrong or ''}", flush=True)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
