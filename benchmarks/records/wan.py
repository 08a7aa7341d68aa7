"""Record 3 in miniature: high performance over 180 ms (CHEP 2003).

    python benchmarks/records/wan.py

Windows times streams and what is predicted of them; slow start; one loss, by congestion control;
frames of 1500 and of 9000 bytes. About 12 minutes. Needs root. Raw data and the page are written
to benchmarks/records/wan.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "injected"))

import page
from curve import Curve
from links import preflight_net, wan

OUT = Path(__file__).resolve().parent / "wan"
RTT_MS, MEGABITS = 180, 1000
WINDOWS = ("256K", "1M", "4M", "auto")
STREAMS = (1, 2, 4, 8, 16, 24)
CONTROLS = ("reno", "cubic", "bbr")
SECONDS = 8
# What a switch on such a path holds: all that is on its way, so that only windows limit.
QUEUE = 24 << 20
# A window that holds what is on its way, so that nothing but our losses is lost. Slow start leaves
# a congestion window that is larger than the buffers, and a first loss takes only that away.
ONE_WINDOW, FIRST_LOST_AT_S, LOST_AT_S, WATCHED_S = "16M", 12.0, 22.0, 50
# A loss shows in the rate of a few round trips: packets after a gap arrive at once.
SMOOTH_S = 5 * RTT_MS / 1000
LINK = MEGABITS / 8


def matrix() -> list[dict]:
    """The cells of windows times streams, each with its prediction."""
    with wan(RTT_MS, MEGABITS, QUEUE, mtu=9000) as there:
        report = preflight_net(
            there, "--streams", ",".join(map(str, STREAMS)), "--window", ",".join(WINDOWS),
            "--congestion", "cubic", "--seconds", str(SECONDS),
        )  # fmt: skip
    cells = []
    for cell in report["cells"]:
        one = cell["predicted_stream_bytes_per_second"] / 1e6
        cells.append(
            {
                "window": size(cell["window_bytes"]),
                "streams": cell["streams"],
                "measured": cell["bytes_per_second"] / 1e6,
                "predicted": min(one * cell["streams"], LINK),
                "used": cell["each"][0]["window_used_bytes"],
                "limit": cell["each"][0]["limit"],
            }
        )
    return cells


def size(window: int | None) -> str:
    """A window as it is asked for."""
    if window is None:
        return "auto"
    return f"{window >> 20}M" if window >= 1 << 20 else f"{window >> 10}K"


def recovery(control: str) -> list[tuple[float, float]]:
    """The rate of one stream before and after one packet is lost."""
    with wan(RTT_MS, 0) as there, Curve(there).watched() as curve:
        losses = [threading.Timer(at, there.say, ["lose 0"]) for at in (FIRST_LOST_AT_S, LOST_AT_S)]
        for lose in losses:
            lose.start()
        preflight_net(
            there, "--streams", "1", "--window", ONE_WINDOW, "--congestion", control,
            "--seconds", str(WATCHED_S),
        )  # fmt: skip
        for lose in losses:
            lose.join()
    return curve.points


def frames(mtu: int) -> float:
    """The rate of one stream of reno that loses one packet in 20,000."""
    with wan(RTT_MS, 0, loss=0.00005, mtu=mtu) as there:
        report = preflight_net(
            there, "--streams", "1", "--window", ONE_WINDOW, "--congestion", "reno",
            "--seconds", "40",
        )  # fmt: skip
    return report["cells"][0]["bytes_per_second"] / 1e6


def smooth(curve: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The rate over the last few round trips."""
    points = []
    for at, _ in curve:
        near = [rate for other, rate in curve if at - SMOOTH_S < other <= at]
        points.append((at, sum(near) / len(near)))
    return points


def described(curve: list[tuple[float, float]]) -> dict:
    """When it was at 90% at first, how deep one loss took it, and when it was back."""
    before = [rate for at, rate in curve if LOST_AT_S - 3 <= at < LOST_AT_S]
    steady = sum(before) / len(before)
    up = next(at for at, rate in curve if rate >= 0.9 * steady)
    began = next(at for at, rate in curve if rate > 0.02 * steady)
    after = [(at, rate) for at, rate in curve if LOST_AT_S <= at <= WATCHED_S]
    low_at, low = min(after[:16], key=lambda point: point[1])
    back = next((at for at, rate in after if at > low_at and rate >= 0.9 * steady), None)
    return {
        "steady": steady,
        "slow_start_s": up - began,
        "low": low / steady,
        "back_s": None if back is None else back - LOST_AT_S,
        "end": sum(rate for _, rate in after[-8:]) / 8 / steady,
    }


def measured() -> dict:
    cells = matrix()
    curves = {control: recovery(control) for control in CONTROLS}
    rates = {str(mtu): frames(mtu) for mtu in (1500, 9000)}
    return {"cells": cells, "curves": curves, "frames": rates}


def written(raw: dict) -> None:
    cells, curves, rates = raw["cells"], raw["curves"], raw["frames"]
    by = {(cell["window"], cell["streams"]): cell for cell in cells}
    near = [abs(cell["measured"] / cell["predicted"] - 1) <= 0.15 for cell in cells]
    curves = {control: smooth(curve) for control, curve in curves.items()}
    facts = {control: described(curve) for control, curve in curves.items()}
    names = list(dict.fromkeys(cell["window"] for cell in cells))
    head = ["window", *(f"{streams} streams" for streams in STREAMS)]
    rows = [
        [
            name,
            *(_both(by[name, n]) for n in STREAMS),
        ]
        for name in names
    ]
    after = [
        [
            control,
            f"{fact['steady']:.1f}",
            f"{fact['slow_start_s']:.1f}",
            f"{fact['low']:.0%}",
            "not in time" if fact["back_s"] is None else f"{fact['back_s']:.1f}",
            f"{fact['end']:.0%}",
        ]
        for control, fact in facts.items()
    ]
    after_head = ["congestion control", "MB/s", "slow start s", "low", "90% after s", "at the end"]
    theirs = [
        ["what", "2003", "here"],
        ["round trip", "180 ms", f"{RTT_MS} ms"],
        [
            "one stream",
            "2.38 Gb/s of 2.5, window 120 MB",
            f"{_most(cells, 1):.0f} of {LINK:.0f} MB/s",
        ],
        [
            "several streams",
            "8.6 Gb/s with 10",
            f"{_most(cells, 24):.0f} of {LINK:.0f} MB/s with 24",
        ],
        ["knee", "2 to 24 streams, by window", _knees(names, by)],
        ["slow start", "5 to 6 s", f"{facts['cubic']['slow_start_s']:.1f} s"],
        [
            "after one loss",
            "stock TCP: over an hour",
            f"reno at {facts['reno']['end']:.0%} after 30 s",
        ],
        ["frames of 9000", "5 x one stock stream", f"{rates['9000'] / rates['1500']:.1f} x"],
    ]
    page.show((theirs[0], theirs[1:]), (head, rows), (after_head, after))
    print(f"predicted within 15%: {sum(near)} of {len(near)} cells")
    page.write(
        OUT / "page.html",
        "Record 3: windows and streams at 180 ms",
        [
            ("Theirs and ours", page.table(theirs[0], theirs[1:])),
            (
                "Windows times streams, MB/s",
                page.heat(
                    names,
                    [str(n) for n in STREAMS],
                    [[by[name, n]["measured"] for n in STREAMS] for name in names],
                )
                + f'<p class="note">predicted within 15%: {sum(near)} of {len(near)} cells;'
                " measured (predicted):</p>" + page.table(head, rows),
            ),
            (
                "One loss",
                page.curves(curves, "seconds", "MB/s", (FIRST_LOST_AT_S, LOST_AT_S))
                + page.table(after_head, after),
            ),
            ("What came of it", _words(facts, rates, cells, near)),
        ],
    )


def _both(cell: dict) -> str:
    return f"{cell['measured']:.1f} ({cell['predicted']:.1f})"


def _most(cells: list[dict], streams: int) -> float:
    return max(cell["measured"] for cell in cells if cell["streams"] == streams)


def _knees(names: list[str], by: dict) -> str:
    """The smallest number of streams with 90% of the best, for each window."""
    knees = []
    for name in names:
        best = max(by[name, n]["measured"] for n in STREAMS)
        knee = next(n for n in STREAMS if by[name, n]["measured"] >= 0.9 * best)
        knees.append(f"{name}: {knee}")
    return ", ".join(knees)


def _words(facts: dict, rates: dict, cells: list[dict], near: list[bool]) -> str:
    reno, cubic, bbr = facts["reno"], facts["cubic"], facts["bbr"]
    others = (
        f" {cell['window']} with {cell['streams']} carried {cell['measured']:.0f} MB/s instead of"
        f" {cell['predicted']:.0f}."
        for cell, is_near in zip(cells, near, strict=True)
        if not is_near
    )
    return (
        "<p>A stream carries one window per round trip, so its rate is known beforehand"
        f" ({sum(near)} of {len(near)} cells within 15%), and streams add up until the link is"
        f" full.{''.join(others)} The first loss only takes away what slow start left above the"
        f" buffers; the second takes reno to {reno['low']:.0%} of its rate, and it is at"
        f" {reno['end']:.0%} at the end, since it gains one segment per round trip. cubic falls to"
        f" {cubic['low']:.0%} and is at {cubic['end']:.0%}. bbr is at {bbr['end']:.0%}: it measures"
        " the path instead of halving, and empties it every twenty seconds or so to measure it"
        f" again. Larger frames bring {rates['9000'] / rates['1500']:.1f} times the rate where"
        " losses are the limit, since a segment of reno's growth is so much larger.</p>"
    )


if __name__ == "__main__":
    page.record(OUT, measured, written)
