"""The figures of the README: its table and its chart, from the newest run of each case.

.venv/bin/python benchmarks/figures.py            write them
.venv/bin/python benchmarks/figures.py --check    fail where they have drifted
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "benchmarks" / "runs"
README = ROOT / "README.md"
CHART = ROOT / "docs" / "images" / "figures.svg"
BEGIN, END = "<!-- figures: benchmarks/figures.py -->\n", "<!-- end of figures -->\n"
# Of lineitem at scale 2: runs of other sizes are not for this table.
BYTES = 1_532_344_491

# What is in a row: its words, its case, and the ways whose figures stand in it.
Row = tuple[str, str, list[str]]
ROWS: list[Row] = [
    ("partitions: **Fullbore direct**", "direct", ["fullbore direct, partitions"]),
    ("Fullbore copy", "direct", ["fullbore copy, partitions"]),
    (
        "psql, expert's way: a table per session, FREEZE",
        "direct",
        ["psql, expert, 2 sessions"],
    ),
    ("one table: **Fullbore direct** (`replace`)", "direct", ["fullbore direct, one table"]),
    ("Fullbore copy (`append`)", "one-table", ["fullbore, append, 4 streams"]),
    ("psql, 4 sessions", "one-table", ["psql, 4 sessions"]),
    (
        "ADBC with pyarrow; polars; DuckDB",
        "one-table",
        [
            "ADBC, pyarrow reading",
            "polars write_database (ADBC)",
            "DuckDB's PostgreSQL writer",
        ],
    ),
    ("parse only, typed: **Fullbore**", "parse-only", ["fullbore, parse only"]),
    (
        "arrow-csv; DuckDB; polars; pyarrow",
        "parse-only",
        [
            "arrow-csv (Rust), parse only",
            "duckdb, parse only",
            "polars, parse only",
            "pyarrow, parse only",
        ],
    ),
]

# Medians of one way: MB/s, and CPU seconds per GB of server and client.
Figures = tuple[float, float, float]


def main() -> int:
    """Writes the figures, or compares them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    found = {case: newest(case) for case in dict.fromkeys(case for _, case, _ in ROWS)}
    readme = README.read_text()
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = {
        README: before + BEGIN + table(found) + END + after,
        CHART: chart(found),
    }
    drifted = [
        path for path, text in wanted.items() if not path.exists() or path.read_text() != text
    ]
    if args.check:
        for path in drifted:
            print(f"{path.relative_to(ROOT)} has drifted: run {__file__}", file=sys.stderr)
        return 1 if drifted else 0
    for path in drifted:
        path.write_text(wanted[path])
    return 0


def newest(case: str) -> tuple[str, dict[str, Figures]]:
    """The newest run of a case with all ways that the table wants, and its medians."""
    wanted = {way for _, its, ways in ROWS if its == case for way in ways}

    def age(raw: Path) -> tuple[str, int, str]:
        """By date, then by the number behind the name."""
        name = raw.parent.name
        return name[:10], len(name), name

    for raw in sorted(RUNS.glob("*/raw.jsonl"), key=age, reverse=True):
        loads = defaultdict(list)
        for line in raw.read_text().splitlines():
            load = json.loads(line)
            if load.get("case") == case and load.get("bytes") == BYTES and "build" not in load:
                loads[load["way"]].append(load)
        if wanted <= loads.keys():
            return raw.parent.name, {way: medians(loads[way]) for way in wanted}
    raise SystemExit(f"no run has all ways of {case}")


def medians(loads: list[dict[str, float]]) -> Figures:
    """What the loads of one way come to."""

    def median(of: str) -> float:
        return statistics.median(load[of] for load in loads)

    gigabytes = BYTES / 1e9
    rate = statistics.median(BYTES / 1e6 / load["seconds"] for load in loads)
    return rate, median("server_cpu") / gigabytes, median("client_cpu") / gigabytes


def table(found: dict[str, tuple[str, dict[str, Figures]]]) -> str:
    """The table, and what it is from."""
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(name for name, _ in found.values()))
    lines = [
        "![Loading and parsing, in MB/s](docs/images/figures.svg)\n",
        f"Medians of `benchmarks/runs`: {names}.\n",
        "| | MB/s | server CPU s/GB | client CPU s/GB |",
        "|---|---|---|---|",
    ]
    for words, case, ways in ROWS:
        figures = [found[case][1][way] for way in ways]
        bold = "**" if "**" in words else ""
        rates = "; ".join(f"{rate:,.0f}" for rate, _, _ in figures)
        server = "; ".join(f"{cpu:.1f}" for _, cpu, _ in figures)
        client = "; ".join(f"{cpu:.1f}" for _, _, cpu in figures)
        server = "" if case == "parse-only" else server
        lines.append(f"| {words} | {bold}{rates}{bold} | {server} | {client} |")
    return "\n".join(lines) + "\n"


def chart(found: dict[str, tuple[str, dict[str, Figures]]]) -> str:
    """Bars, ours in colour; each case has a scale of its own."""
    bars: list[tuple[str, list[tuple[str, float, bool]]]] = []
    titles = {
        "direct": "lineitem into PostgreSQL 18, direct and copy",
        "one-table": "lineitem into one table that exists",
        "parse-only": "lineitem parsed into typed columns",
    }
    for case, title in titles.items():
        ways = dict.fromkeys(way for _, its, ways in ROWS if its == case for way in ways)
        rates = [(way, found[case][1][way][0], way.startswith("fullbore")) for way in ways]
        bars.append((title, sorted(rates, key=lambda bar: -bar[1])))
    lines, y = [], 0
    for title, its in bars:
        y += 26
        lines.append(f'<text class="title" x="0" y="{y}">{title}, MB/s</text>')
        most = its[0][1]
        for way, rate, is_ours in its:
            y += 22
            width = max(2, round(360 * rate / most))
            kind = "ours" if is_ours else "theirs"
            name = way.replace("fullbore", "Fullbore").replace(", parse only", "")
            lines.append(f'<text x="230" y="{y}" text-anchor="end">{name}</text>')
            lines.append(
                f'<rect class="{kind}" x="240" y="{y - 12}" width="{width}" height="15" rx="2"/>'
            )
            lines.append(f'<text x="{246 + width}" y="{y}">{rate:,.0f}</text>')
        y += 14
    body = "\n".join(lines)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 {y}" role="img" \
aria-label="Rates of Fullbore and its peers in MB/s">
<style>
text {{ font: 13px system-ui, sans-serif; fill: #24292f }}
.title {{ font-weight: 600 }}
.ours {{ fill: #0969da }}
.theirs {{ fill: #afb8c1 }}
@media (prefers-color-scheme: dark) {{
  text {{ fill: #e6edf3 }} .ours {{ fill: #4493f8 }} .theirs {{ fill: #57606a }}
}}
</style>
{body}
</svg>
"""


if __name__ == "__main__":
    sys.exit(main())
