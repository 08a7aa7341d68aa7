"""The picture of the guide: how much longer a batch takes as the indexes outgrow memory.

    python benchmarks/ingest/picture.py benchmarks/runs/RUN...

It is drawn from what run.py kept, and from the report of 2008: batches of 30 s took 3 minutes once
the index no longer fitted in memory.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "records"))

import page
from run import ENDS, file_name

OUT = Path(__file__).resolve().parents[2] / "docs" / "images" / "ingest.svg"
# Ways by the names that they have there.
SHOWN = {
    "fullbore ingest, extension": "Fullbore",
    "COPY into one table": "one table",
    "COPY into partitions of a day": "daily partitions",
    "COPY into partitions that fit": "48 a day",
}
REPORTED = [(0.0, 1.0), (1.0, 1.0), (1.0, 6.0)]
# So many batches are one point.
POINTS = 72
STYLE = """<style>
svg { color: #24292f; font-family: system-ui, sans-serif }
@media (prefers-color-scheme: dark) { svg { color: #e6edf3 } }
</style>"""


def curve(kept: dict) -> list[tuple[float, float]]:
    """Seconds of batches over those of the first ones, by indexes over memory."""
    seconds, sizes = kept["found"]["seconds"], kept["found"]["sizes"]
    # Indexes grow as rows come.
    times = max(one["indexes"] for one in sizes) / int(kept["given"]["memory"])
    first = statistics.median(seconds[: min(ENDS, len(seconds) // 4)])
    step = max(len(seconds) // POINTS, 1)
    return [
        (times * (at + step / 2) / len(seconds), statistics.median(seconds[at : at + step]) / first)
        for at in range(0, len(seconds) - step + 1, step)
    ]


def main() -> None:
    lines = {}
    for way, name in SHOWN.items():
        found = [Path(run) / f"{file_name(way)}.json" for run in sys.argv[1:]]
        for path in filter(Path.exists, found):
            lines[name] = curve(json.loads(path.read_text()))
    lines["2008"] = REPORTED
    svg = page.curves(lines, "indexes / memory", "seconds of a batch / of the first")
    drawn = svg.partition("</svg>")[0].replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    head, _, rest = drawn.partition(">")
    OUT.write_text(f"{head}>{STYLE}{rest}</svg>\n")


if __name__ == "__main__":
    main()
