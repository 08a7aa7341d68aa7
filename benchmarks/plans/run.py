"""Plans and times after the client's statistics, and after ANALYZE.

    python benchmarks/plans/run.py [--scale 1] [--repeats 5]

The 22 queries of TPC-H, and 20 joins over skewed tables. All is loaded once, with statistics of
the client; a copy of that database is ANALYZEd, so that the two differ in their statistics alone.
Every query runs in both by turns; their plans, times and rows are compared, and each column's
number of distinct values with the truth. See README.md of the benchmarks.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import re
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cases.ready import replacing, with_keys
from data import TABLES, tpch
from lab import DATA, FULLBORE, HERE, run_text
from server import Server, psql_command

INDEXES = (
    "lineitem (l_partkey, l_suppkey)",
    "lineitem (l_shipdate)",
    "orders (o_custkey)",
    "orders (o_orderdate)",
    "partsupp (ps_suppkey)",
)
SETTINGS = "SET jit = off; SET max_parallel_workers_per_gather = 0; SET work_mem = '256MB';"
# What a random page costs: PostgreSQL's default, and what suits an SSD (the embedded server).
PAGE_COSTS = ("4", "1.1")
# Times below this differ by chance.
TOLD_ABOVE_S = 0.02


def of_file(name: str) -> dict[str, str]:
    """The parts of a file, by the comment above each."""
    text = (Path(__file__).parent / name).read_text()
    parts = re.split(r"^-- (.+)\n(?!--|\n)", text, flags=re.MULTILINE)[1:]
    return {title: sql.strip() for title, sql in zip(parts[::2], parts[1::2], strict=True)}


@dataclass
class Database:
    """One of the two, and what its statistics brought about."""

    url: str
    page_cost: str = PAGE_COSTS[0]
    plans: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    wrong: dict[str, float] = field(default_factory=dict)

    def run(self, text: str) -> str:
        """Runs SQL; rows as lines, columns divided by ``|``."""
        command = [psql_command(), self.url, "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1"]
        return run_text([*command, "-c", SETTINGS, "-c", text])

    def explain(self, name: str, query: str) -> None:
        """Runs a query, and notes its plan, its time, and by how much its estimates were wrong."""
        options = "ANALYZE, TIMING OFF, BUFFERS OFF, FORMAT JSON"
        cost = f"SET random_page_cost = {self.page_cost}"
        told = json.loads(self.run(f"{cost}; EXPLAIN ({options}) {query}"))[0]
        self.plans[name] = "\n".join(shape(told["Plan"]))
        self.seconds.setdefault(name, []).append(told["Execution Time"] / 1000)
        self.wrong[name] = statistics.median(errors(told["Plan"]))

    def distinct(self) -> dict[str, float]:
        """Distinct values by column, as the planner takes them."""
        rows = self.run(
            "SELECT s.tablename || '.' || s.attname, CASE WHEN s.n_distinct >= 0 THEN s.n_distinct"
            " ELSE -s.n_distinct * c.reltuples END FROM pg_stats s JOIN pg_class c"
            " ON c.oid = format('%I.%I', s.schemaname, s.tablename)::regclass"
            " WHERE s.schemaname = 'public'"
        )
        return {name: float(count) for name, _, count in (r.partition("|") for r in rows.split())}


def shape(plan: dict, depth: int = 0) -> list[str]:
    """What a plan does, without its estimates."""
    what = (plan["Node Type"], plan.get("Join Type"), plan.get("Alias"), plan.get("Index Name"))
    lines = ["  " * depth + " ".join(str(part) for part in what if part)]
    for below in plan.get("Plans", []):
        lines += shape(below, depth + 1)
    return lines


def errors(plan: dict) -> list[float]:
    """By what factor the rows of each step were estimated wrongly."""
    mine, real = max(plan["Plan Rows"], 1), max(plan["Actual Rows"], 1)
    found = [max(mine / real, real / mine)]
    for below in plan.get("Plans", []):
        found += errors(below)
    return found


def load(server: Server, *options: str) -> None:
    """A load with statistics of the client."""
    command = [str(FULLBORE), "load", "--to", server.url, "--quiet", "--method", "direct"]
    run_text([*command, "--statistics", "client", *options], env=server.env)


def load_tpch(server: Server, scale: str) -> None:
    """All tables of TPC-H with their keys, and the indexes without which two queries take hours."""
    sets = [tpch(scale, 4, table) for table in TABLES]
    server.sql(with_keys(sets) + "".join(f"CREATE INDEX ON {index};" for index in INDEXES))
    job = replacing(sets, DATA / "plans.toml")
    load(server, str(job))
    job.unlink()


def load_skewed(server: Server) -> None:
    """The skewed tables, the same rows each time."""
    for title, text in of_file("skewed.sql").items():
        table = title.split()[0]
        *made, rows = (part.strip() for part in text.split(";") if part.strip())
        server.sql(";".join(made))
        path = DATA / f"plans-{table}.csv"
        command = [psql_command(), server.url, "-X", "-q", "-v", "ON_ERROR_STOP=1"]
        command += ["-c", "SET max_parallel_workers_per_gather = 0"]
        command += ["-c", "SELECT setseed(0.5)"]
        command += ["-c", f"\\copy ({' '.join(rows.split())}) TO '{path}' (FORMAT csv)"]
        run_text(command)
        options = f"--table {table} --format csv --header none --publish replace".split()
        load(server, str(path), *options)
        path.unlink()


def measure(
    ours: Database, theirs: Database, queries: dict[str, str], repeats: int, out: Path
) -> tuple[list[str], float]:
    """Runs all queries by turns; the lines of the table, and the worst share of time."""
    draw = random.Random(1)
    for repeat in range(repeats):
        for name, query in queries.items():
            for database in draw.sample((ours, theirs), 2):
                database.explain(name, query)
            told = f"{ours.seconds[name][-1]:.3f} {theirs.seconds[name][-1]:.3f}"
            print(repeat, name, told, flush=True)
    lines = [
        f"\nrandom_page_cost {ours.page_cost}:\n",
        "| query | client, s | ANALYZE, s | share | plan | wrong | wrong, ANALYZE |",
        "|---|---|---|---|---|---|---|",
    ]
    worst = 0.0
    with (out / "raw.jsonl").open("a") as raw:
        for name in queries:
            mine, its = (statistics.median(one.seconds[name]) for one in (ours, theirs))
            is_same = ours.plans[name] == theirs.plans[name]
            if not is_same and max(mine, its) > TOLD_ABOVE_S:
                worst = max(worst, mine / its)
            lines.append(
                f"| {name} | {mine:.3f} | {its:.3f} | {mine / its:.2f}"
                f" | {'same' if is_same else 'another'}"
                f" | {ours.wrong[name]:.1f} | {theirs.wrong[name]:.1f} |"
            )
            line = {"query": name, "random_page_cost": ours.page_cost}
            line |= {"client": kept(ours, name), "analyze": kept(theirs, name)}
            raw.write(json.dumps(line) + "\n")
    sums = [sum(statistics.median(s) for s in one.seconds.values()) for one in (ours, theirs)]
    lines.append(f"| all | {sums[0]:.2f} | {sums[1]:.2f} | {sums[0] / sums[1]:.2f} | | | |")
    return lines, worst


def kept(database: Database, name: str) -> dict:
    """What is kept of a query."""
    return {"seconds": database.seconds[name], "plan": database.plans[name]}


def count_distinct(ours: Database, theirs: Database) -> list[str]:
    """How far both are from each column's number of distinct values."""
    mine, its = ours.distinct(), theirs.distinct()
    far: dict[str, tuple[int, float, float]] = {}
    for name in mine:
        table, _, column = name.partition(".")
        distinct = f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL"
        truth = int(ours.run(f"SELECT count(*) FROM ({distinct}) AS its"))
        if truth:
            far[name] = (truth, mine[name] / truth - 1, its.get(name, 0.0) / truth - 1)
    ordered = sorted(far, key=lambda name: -abs(far[name][1]))
    lines = [
        f"\nDistinct values of {len(far)} columns: worst {abs(far[ordered[0]][1]):.1%} from the"
        f" truth; after ANALYZE {max(abs(one[2]) for one in far.values()):.0%}."
        " Those farthest off:\n",
        "| column | distinct | client | ANALYZE |",
        "|---|---|---|---|",
    ]
    for name in ordered[:12]:
        truth, of_ours, of_theirs = far[name]
        lines.append(f"| {name} | {truth:,} | {of_ours:+.1%} | {of_theirs:+.1%} |")
    return lines


def main() -> int:
    """Runs it, and keeps what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="1")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="a pattern of the names of queries")
    parser.add_argument(
        "--target", type=int, default=100, help="statistics target of ANALYZE; 10000 sees most rows"
    )
    parser.add_argument("--name", default=f"{platform.node()}-plans")
    args = parser.parse_args()
    out = HERE / "runs" / f"{time.strftime('%Y-%m-%d')}-{args.name}"
    out.mkdir(parents=True, exist_ok=True)
    server = Server()
    server.start()
    server.clear()
    server.sql("CREATE EXTENSION IF NOT EXISTS fullbore")
    # Nobody else may make statistics.
    server.sql("ALTER SYSTEM SET autovacuum = off")
    server.sql("SELECT pg_reload_conf()")
    base = server.sql("SELECT current_database()").strip()
    other = f"{base}_analyzed"
    queries = {f"TPC-H {name}": query for name, query in of_file("tpch.sql").items()}
    queries |= of_file("skewed_queries.sql")
    queries = {name: query for name, query in queries.items() if re.search(args.only, name)}
    try:
        load_tpch(server, args.scale)
        load_skewed(server)
        server.sql("CHECKPOINT")
        urls = [
            re.sub(rf"/{re.escape(base)}(?=\?|$)", f"/{name}", server.url)
            for name in (base, other, "postgres")
        ]
        postgres = Database(urls[2])
        postgres.run(f"DROP DATABASE IF EXISTS {other}")
        postgres.run(f"CREATE DATABASE {other} TEMPLATE {base}")
        Database(urls[1]).run(f"SET default_statistics_target = {args.target}; ANALYZE")
        lines = [
            f"Medians of {args.repeats} after the client's statistics and after ANALYZE, of the"
            f" same rows (statistics target {args.target}); *wrong* is the median factor by which a"
            " plan's steps were misjudged.",
        ]
        worst = 0.0
        (out / "raw.jsonl").unlink(missing_ok=True)
        for cost in PAGE_COSTS:
            ours, theirs = (Database(url, cost) for url in urls[:2])
            table, its_worst = measure(ours, theirs, queries, args.repeats, out)
            lines += table
            worst = max(worst, its_worst)
        lines += count_distinct(ours, theirs)
        postgres.run(f"DROP DATABASE {other}")
    finally:
        server.sql("ALTER SYSTEM RESET autovacuum")
        server.clear()
        server.stop()
    (out / "summary.md").write_text("\n".join([f"# {out.name}\n", *lines]) + "\n")
    print((out / "summary.md").read_text())
    return 0 if worst <= 1.1 else 1


if __name__ == "__main__":
    sys.exit(main())
