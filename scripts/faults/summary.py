"""From the lines of a run to its table."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections import Counter
from pathlib import Path

from ways import WAYS

Line = dict[str, object]


def write(folder: Path, lines: list[Line], planned: int) -> None:
    """Writes summary.md beside the lines."""
    counted = Counter(str(line["outcome"]) for line in lines)
    seconds = sum(float(str(line["seconds"])) for line in lines)
    first, last = (str(lines[at]["at"]) for at in (0, -1)) if lines else ("", "")
    text = [
        f"# Faults, seed {lines[0]['seed'] if lines else '?'}\n",
        f"{len(lines)} of {planned} trials: {counted['equal']} equal, {counted['wrong']} wrong,"
        f" {counted['skipped']} skipped; {seconds / 60:.0f} minutes of trials, {first} to {last},"
        f" on {os.cpu_count()} cores, {platform.system()} {platform.release()}.\n",
        "Equal means: count and checksum are plain COPY's, no table of the run's is left, the"
        " ledger has the one finished run with all rows and bytes, no session is left. Where other"
        " people did something (ddl, writer, spelled, limits, late, zombie, two) it means as well"
        " that each exit code and each word about rows and runs was true, and that what was advised"
        " led out.\n",
        table_of(lines),
        moments_of(lines),
    ]
    repeated = folder / "repeated.jsonl"
    if repeated.exists():
        text.append(repeated_of([json.loads(line) for line in repeated.read_text().splitlines()]))
    (folder / "summary.md").write_text("\n".join(text))


def repeated_of(lines: list[Line]) -> str:
    """What resumes repeated."""
    rows = ["Bytes that were repeated after a kill at nine tenths, as shares of all:\n",
            "| way | bytes | sent when killed | repeated | |", "|---|---|---|---|---|"]  # fmt: skip
    for line in lines:
        rows.append(
            f"| {line['way']} | {line.get('bytes', '')} | {line.get('sent_share', '')}"
            f" | {line.get('repeated_share', '')} | {line['outcome']} |"
        )
    return "\n".join(rows) + "\n"


def table_of(lines: list[Line]) -> str:
    """Faults by ways: trials, and those that were wrong."""
    faults = list(dict.fromkeys(str(line["fault"]) for line in lines))
    names = [way.name for way in WAYS]
    rows = [f"| fault | {' | '.join(names)} | all | wrong |", "|---" * (len(names) + 3) + "|"]
    for fault in [*sorted(faults), "all"]:
        of_fault = [line for line in lines if fault in ("all", line["fault"])]
        cells = [sum(line["way"] == name for line in of_fault) for name in names]
        wrong = sum(line["outcome"] == "wrong" for line in of_fault)
        rows.append(f"| {fault} | {' | '.join(map(str, cells))} | {len(of_fault)} | {wrong} |")
    return "\n".join(rows) + "\n"


def moments_of(lines: list[Line]) -> str:
    """Where the loads were struck, and what they needed afterwards."""
    left = Counter(str(line.get("left") or "no run") for line in lines if "left" in line)
    last = Counter(str(line.get("record_at")) for line in lines if "record_at" in line)
    resumes = Counter(len(list(line.get("resumes", []))) for line in lines)
    shares = [float(str(line["share"])) for line in lines if "share" in line]
    said = [
        "States in which the ledger had the runs when they had been struck: "
        + ", ".join(f"{state} {count}" for state, count in left.most_common()),
        "Last events in the clients' records: "
        + ", ".join(f"{event} {count}" for event, count in last.most_common()),
        "Loads by the resumes that they took: "
        + ", ".join(f"{count} with {n}" for n, count in sorted(resumes.items())),
    ]
    if len(shares) > 3:
        quarters = [f"{q:.2f}" for q in statistics.quantiles(shares)]
        said.append(f"Quartiles of the moments, as shares of a load: {', '.join(quarters)}")
    return "\n\n".join(said) + "\n"
