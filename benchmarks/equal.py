"""One large quoted CSV over several streams, with odd rows and without, beside plain COPY of it.

The tables must have the same number of rows and the same checksum. What was seen is kept under
``runs/<date>-<name>``: ``summary.md``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import date

from data_made import wide_odd
from lab import FULLBORE, HERE, run_text
from server import Server, psql_command

CHECKSUM = "SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {table} t"


def loaded(server: Server, megabytes: int, percent: int) -> list[object]:
    """A line of the table: what one file came to by both."""
    data = wide_odd(megabytes, percent)
    server.clear()
    server.sql(data.create("ours"))
    server.sql(data.create("theirs"))
    load = [str(FULLBORE), "load", str(data.files[0]), "--to", server.url, "--table", "ours"]
    began = time.monotonic()
    told = json.loads(run_text([*load, *data.ours, "--streams", "4", "--json"], env=server.env))
    ours = time.monotonic() - began
    copy = f"\\copy theirs FROM '{data.files[0]}' WITH ({data.copy})"
    began = time.monotonic()
    run_text([psql_command(), server.url, "-X", "-q", "-c", copy])
    theirs = time.monotonic() - began
    sums = [server.sql(CHECKSUM.format(table=table)).strip() for table in ("ours", "theirs")]
    server.clear()
    equal = sums[0] == sums[1]
    rows = sums[0].partition("|")[0]
    return [data.size, percent, rows, told["rejected"], f"{ours:.0f}", f"{theirs:.0f}", equal]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1500)
    parser.add_argument("--percent", type=int, nargs="+", default=[0, 1, 20])
    parser.add_argument("--name", default="equal")
    args = parser.parse_args()
    server = Server()
    server.start()
    try:
        lines = [loaded(server, args.megabytes, percent) for percent in args.percent]
        version = server.sql("SHOW server_version").strip()
    finally:
        server.stop()
    folder = HERE / "runs" / f"{date.today()}-{args.name}"
    folder.mkdir(parents=True, exist_ok=True)
    table = [
        f"# {folder.name}",
        "",
        f"One quoted CSV over 4 streams by copy, and by one psql's COPY; server {version}.",
        "",
        "| bytes | odd % | rows | rejected | seconds | seconds of psql | equal |",
        "|---|---|---|---|---|---|---|",
    ]
    table += ["| " + " | ".join(map(str, line)) + " |" for line in lines]
    text = "\n".join(table) + "\n"
    (folder / "summary.md").write_text(text)
    print(text)
    return 0 if all(line[-1] for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
