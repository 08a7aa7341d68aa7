"""Loads of the records: one by one, in blocks against each other, or by `fullbore sweep`."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

# After our own folder: each of them has modules of the same names.
sys.path.append(str(Path(__file__).resolve().parent.parent / "injected"))
sys.path.append(str(Path(__file__).resolve().parent.parent / "tuning"))

import page
from files import carried_out
from lab import FULLBORE, SCRATCH, environment

HERE = Path(__file__).resolve().parent
# Means that are drawn for an interval.
DRAWS = 2000


def loaded(
    arguments: list[str], files: list[Path], prefix: list[str] | None = None, timeout: float = 600
) -> dict:
    """One load; its summary with `events`, `load_s` and `rate` in MB/s."""
    home = SCRATCH / f"home-{time.monotonic_ns()}"
    command = [*(prefix or []), str(FULLBORE), "load", "--json", *arguments]
    return carried_out(command, files, home, timeout)


def blocks(
    ways: dict[str, Callable[[], dict]], repeat: int, said: str = "load_s"
) -> dict[str, list[dict]]:
    """Every way once in each block, in random order."""
    draw = Random(7)
    found: dict[str, list[dict]] = {name: [] for name in ways}
    for block in range(repeat):
        for name in draw.sample(list(ways), len(ways)):
            one = ways[name]()
            found[name].append(one)
            print(f"{block} {name}: {one[said]:.2f}", file=sys.stderr, flush=True)
    return found


def change(baseline: list[float], other: list[float]) -> str:
    """The mean change of pairs with its 95% bootstrap interval, in words."""
    pairs = [new / old - 1 for old, new in zip(baseline, other, strict=True)]
    draw = Random(1)
    means = sorted(statistics.mean(draw.choices(pairs, k=len(pairs))) for _ in range(DRAWS))
    low, high = means[int(DRAWS * 0.025)], means[int(DRAWS * 0.975)]
    return f"{statistics.mean(pairs):+.1%} ({low:+.1%} to {high:+.1%})"


def swept(
    arguments: list[str],
    sources: list[Path],
    out: Path,
    vary: list[str],
    repeat: int,
    prefix: list[str] | None = None,
) -> dict:
    """An experiment of `fullbore sweep`; its result, and the records of its loads by run."""
    # It would be continued.
    shutil.rmtree(out, ignore_errors=True)
    command = [*(prefix or []), str(FULLBORE), "sweep", "--json", "--repeat", str(repeat)]
    for factor in vary:
        command += ["--vary", factor]
    command += ["--out", str(out), *arguments, "--", *map(str, sources)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment())
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:6])} ended with {done.returncode}")
    found = json.loads(done.stdout)
    found["events"] = {}
    for one in found["measured"]:
        record = out / "home" / "runs" / one["run"] / "record.jsonl"
        found["events"][one["run"]] = [json.loads(line) for line in record.read_text().splitlines()]
    # Of it the journal is kept, of which all else is made.
    journal = page.without_paths((out / "journal.jsonl").read_text())
    shutil.rmtree(out)
    out.mkdir()
    (out / "journal.jsonl").write_text(journal)
    return found


def table_of(found: dict) -> tuple[list[str], list[list[object]]]:
    """The table of an experiment: time, rate, change against the baseline, verdict."""
    head = ["setting", "seconds", "MB/s", "change in time", "verdict"]
    rows: list[list[object]] = []
    for row in found["rows"]:
        rows.append(
            [
                row["cell"],
                f"{row['seconds']:.2f}",
                f"{row['rate'] / 1e6:.1f}",
                "baseline" if row["is_baseline"] else interval(row["change"]),
                row["verdict"] or "",
            ]
        )
    return head, rows


def interval(change: dict | None) -> str:
    """A change of a sweep with its interval."""
    if change is None:
        return ""
    text = f"{change['change']:+.1%}"
    if change.get("low") is not None:
        text += f" ({change['low']:+.1%} to {change['high']:+.1%})"
    return text


def rates_by_table(events: list[dict]) -> dict[str, list[tuple[float, float]]]:
    """MB/s of source that was committed, over the seconds of a run, for each table."""
    lines: dict[str, list[tuple[float, float]]] = {}
    before: dict[str, tuple[float, int]] = {}
    for event in events:
        if event["event"] != "sample":
            continue
        for table in event["tables"]:
            name, count = table["name"], table["bytes_sent"]
            at, earlier = before.get(name, (0.0, 0))
            if event["at"] - at >= 0.4:
                rate = (count - earlier) / (event["at"] - at) / 1e6
                lines.setdefault(name, []).append((round(event["at"], 2), round(rate, 2)))
                before[name] = (event["at"], count)
    return lines


def waits(events: list[dict]) -> dict[str, float]:
    """The share of looks at the server's sessions in which they waited, by what for."""
    last = [event["observation"] for event in events if event["event"] == "observed"][-1]
    seen = last.get("waits", {})
    looks = sum(seen.values()) or 1
    return {name or "none": count / looks for name, count in seen.items()}


def shares(verdict: dict, most: int = 3) -> str:
    """The causes of a verdict: `database_cpu 61%, wal 20%`."""
    found = [f"{one['limit']} {one['share']:.0%}" for one in verdict["shares"][:most]]
    return ", ".join(found)
