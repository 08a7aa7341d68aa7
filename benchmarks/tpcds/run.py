"""The 24 tables of TPC-DS by one job file, with lookups into its dimensions.

    python benchmarks/tpcds/run.py --out FOLDER [--scale 1]

Its text is made by the generator in Java that Maven has (io.trino.tpcds), once for each scale. The
tables are loaded by Fullbore and, as they stand in the files, by psql. Rows of either that the
other does not have are counted by EXCEPT ALL, of facts with the joins that the lookups stand for.
Needs Java and Maven.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lab import DATA, FULLBORE, Missing, run_text
from server import Server

HERE = Path(__file__).resolve().parent
GENERATOR = "io.trino.tpcds:tpcds:1.4:jar:jar-with-dependencies"
TABLE = re.compile(r"CREATE TABLE (\w+) \((.*?)\n\);", re.DOTALL)
COLUMN = re.compile(r"(\w+) ([a-z]+(?:\([\d,]+\))?)")


@dataclass(frozen=True)
class Lookup:
    """Columns of a dimension that a fact's rows get."""

    name: str
    dimension: str
    key: str
    by: str
    gives: dict[str, str]


LOOKUPS = {
    "store_sales": [
        Lookup(
            *("sold", "date_dim", "d_date_sk", "ss_sold_date_sk"),
            {"ss_sold_date": "d_date", "ss_sold_year": "d_year"},
        ),
        Lookup(
            *("sold_item", "item", "i_item_sk", "ss_item_sk"),
            {"ss_item_id": "i_item_id", "ss_category": "i_category"},
        ),
        Lookup(
            *("sold_by", "store", "s_store_sk", "ss_store_sk"), {"ss_store_name": "s_store_name"}
        ),
    ],
    "catalog_sales": [
        Lookup(
            *("shipped", "date_dim", "d_date_sk", "cs_ship_date_sk"), {"cs_ship_date": "d_date"}
        ),
        Lookup(
            *("billed", "customer", "c_customer_sk", "cs_bill_customer_sk"),
            {"cs_bill_last_name": "c_last_name"},
        ),
    ],
    "web_sales": [
        Lookup(*("sold", "date_dim", "d_date_sk", "ws_sold_date_sk"), {"ws_sold_date": "d_date"}),
        Lookup(*("site", "web_site", "web_site_sk", "ws_web_site_sk"), {"ws_site": "web_name"}),
    ],
    "store_returns": [
        Lookup(*("why", "reason", "r_reason_sk", "sr_reason_sk"), {"sr_reason": "r_reason_desc"}),
    ],
    "inventory": [
        Lookup(
            *("house", "warehouse", "w_warehouse_sk", "inv_warehouse_sk"),
            {"inv_warehouse_name": "w_warehouse_name", "inv_sq_ft": "w_warehouse_sq_ft"},
        ),
    ],
}


def tables() -> dict[str, dict[str, str]]:
    """Each table's columns with their types."""
    found = TABLE.findall((HERE / "tables.sql").read_text())
    return {name: dict(COLUMN.findall(body.replace(" NOT NULL", ""))) for name, body in found}


def generated(scale: str) -> Path:
    """The folder with the generator's files."""
    folder = DATA / f"tpcds-{scale}"
    if (folder / "done").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        run_text(
            [
                "mvn",
                "--quiet",
                "dependency:copy",
                f"-Dartifact={GENERATOR}",
                f"-DoutputDirectory={folder}",
            ]
        )
    except FileNotFoundError as error:
        raise Missing("Maven is not installed") from error
    [jar] = folder.glob("*.jar")
    options = ["--scale", scale, "--directory", str(folder), "--suffix", ".dat", "--overwrite"]
    run_text(["java", "-jar", str(jar), *options])
    (folder / "done").touch()
    return folder


def encoding(table: str) -> list[str]:
    """The generator writes Latin-1; outside of ASCII there is only a country of customers."""
    return ['encoding = "latin1"'] if table == "customer" else []


def job(folder: Path) -> str:
    """The job file: every table by its file; facts with what their dimensions give."""
    known = tables()
    lines = ["tables_at_once = true", ""]
    for name, columns in known.items():
        lines += [
            "[[table]]",
            f'name = "ours.{name}"',
            f"sources = {json.dumps([str(folder / f'{name}.dat')])}",
        ]
        lines += [
            'format = "tbl"',
            'header = "none"',
            'null = ""',
            f"columns = {json.dumps(list(columns))}",
        ]
        lines += [*encoding(name), ""]
        lookups = LOOKUPS.get(name, [])
        if lookups:
            lines.append("[table.select]")
            for lookup in lookups:
                lines += [f'{new} = "{lookup.name}.{old}"' for new, old in lookup.gives.items()]
            lines.append("")
        for lookup in lookups:
            wanted = {lookup.key, *lookup.gives.values()}
            names = [column if column in wanted else "-" for column in known[lookup.dimension]]
            types = [f"{column}={known[lookup.dimension][column]}" for column in sorted(wanted)]
            lines += ["[[table.lookup]]", f'name = "{lookup.name}"']
            lines += [f"sources = {json.dumps(str(folder / f'{lookup.dimension}.dat'))}"]
            lines += ['format = "tbl"', 'header = "none"', 'null = ""', 'missing = "null"']
            lines += [f"columns = {json.dumps(names)}", f"types = {json.dumps(types)}"]
            lines += encoding(lookup.dimension)
            lines += [f'key = {{ {lookup.key} = "{lookup.by}" }}', ""]
    return "\n".join(lines)


def make(server: Server) -> None:
    """The tables, twice: for the job with the columns that are looked up, and as they stand."""
    known = tables()
    schema = (HERE / "tables.sql").read_text()
    for owner in ("ours", "plain"):
        server.sql(f"DROP SCHEMA IF EXISTS {owner} CASCADE; CREATE SCHEMA {owner}")
        server.sql(f"SET search_path = {owner}; {schema}")
    for name, lookups in LOOKUPS.items():
        for lookup in lookups:
            for new, old in lookup.gives.items():
                server.sql(f"ALTER TABLE ours.{name} ADD {new} {known[lookup.dimension][old]}")


def load(server: Server, file: Path) -> float:
    """Loads the job file, and says how many seconds that took."""
    began = time.monotonic()
    command = [str(FULLBORE), "load", str(file), "--to", server.url, "--json", "--quiet"]
    kept = run_text([*command, "--if-loaded", "again"], env=server.env)
    file.with_name("load.json").write_text(kept)
    return time.monotonic() - began


def copy(server: Server, folder: Path) -> float:
    """Every file by psql, without the delimiter that ends its lines; the seconds that took."""
    began = time.monotonic()
    psql = [str(FULLBORE), "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c"]
    for name in tables():
        source = f"PROGRAM 'sed s/.$// {folder}/{name}.dat'"
        how = "WITH (DELIMITER '|', NULL '', ENCODING 'LATIN1')"
        run_text([*psql, f"\\copy plain.{name} FROM {source} {how}"], env=server.env)
    return time.monotonic() - began


def differing(server: Server, name: str) -> tuple[int, int]:
    """The rows of a table, and how many of either side the other does not have."""
    joins, columns = "", ["f.*"]
    for lookup in LOOKUPS.get(name, []):
        found = f"{lookup.name}.{lookup.key} = f.{lookup.by}"
        joins += f" LEFT JOIN plain.{lookup.dimension} {lookup.name} ON {found}"
        columns += [f"{lookup.name}.{old}" for old in lookup.gives.values()]
    theirs = f"SELECT {', '.join(columns)} FROM plain.{name} f{joins}"
    ours = f"SELECT * FROM ours.{name}"
    counts = [
        f"SELECT count(*) FROM ours.{name}",
        f"SELECT count(*) FROM ({ours} EXCEPT ALL ({theirs})) a",
        f"SELECT count(*) FROM (({theirs}) EXCEPT ALL {ours}) b",
    ]
    rows, ours_only, theirs_only = (int(server.sql(count)) for count in counts)
    return rows, ours_only + theirs_only


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scale", default="1")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    folder = generated(args.scale)
    size = sum((folder / f"{name}.dat").stat().st_size for name in tables())
    file = args.out / "job.toml"
    file.write_text(job(folder))
    server = Server()
    server.start()
    try:
        make(server)
        ours, theirs = load(server, file), copy(server, folder)
        print(f"{size / 1e6:.0f} MB of text; with lookups {ours:.1f} s;", end=" ")
        print(f"by psql in one session, without, {theirs:.1f} s", flush=True)
        total = 0
        for name in tables():
            rows, wrong = differing(server, name)
            total += wrong
            print(f"{name:24} {rows:10} rows, {wrong} differ", flush=True)
        print(f"{len(tables())} tables, {total} rows differ")
        server.sql("DROP SCHEMA ours, plain CASCADE")
    finally:
        server.stop()
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
