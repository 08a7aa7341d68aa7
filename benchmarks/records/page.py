"""Pages of the records: tables, curves and heat maps as HTML and SVG, nothing else."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from html import escape
from pathlib import Path

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b2733; background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #d8dee4; }
th:first-child, td:first-child { text-align: left; }
svg { max-width: 100%; height: auto; } .note { color: #56616c; }
@media (prefers-color-scheme: dark) { body { color: #e3e8ee; background: #14191f; }
  th, td { border-color: #38414b; } .note { color: #9aa6b2; } }
"""
COLOURS = ("#2f6fb7", "#c2571a", "#2a8c55", "#8a4fb0", "#a8323e")


def record(out: Path, measured: Callable[[], dict], written: Callable[[dict], None]) -> None:
    """Measures, keeps the raw data and writes the page; `--page` writes it of what was kept."""
    raw = out / "raw.json"
    if "--page" in sys.argv[1:]:
        written(json.loads(raw.read_text()))
        return
    out.mkdir(exist_ok=True)
    # A line for each part.
    parts = (f"{json.dumps(name)}: {json.dumps(part)}" for name, part in measured().items())
    raw.write_text(without_paths("{" + ",\n".join(parts) + "}\n"))
    written(json.loads(raw.read_text()))


def without_paths(text: str) -> str:
    """Without the folders of this machine."""
    root = Path(__file__).resolve().parents[2]
    return re.sub(r"/tmp/fullbore-injected-\d+", "scratch", text.replace(f"{root}/", ""))


def table(head: list[str], rows: list[list[object]]) -> str:
    """Rows of cells, the first one a name."""
    tops = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{tops}</tr></thead><tbody>{body}</tbody></table>"


def text_table(head: list[str], rows: list[list[object]]) -> str:
    """The same for a terminal."""
    cells = [head, *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[n]) for row in cells) for n in range(len(head))]
    lines = []
    for row in cells:
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append("  ".join((row[0].ljust(widths[0]), *rest)))
    return "\n".join(lines)


def show(*tables: tuple[list[str], list[list[object]]]) -> None:
    """Tables in a terminal."""
    for head, rows in tables:
        print(text_table(head, rows), end="\n\n")


def ticks(most: float) -> list[float]:
    """Round numbers from 0 up to this one, seven at most."""
    power = 10.0 ** math.floor(math.log10(most / 6))
    step = next(step * power for step in (1, 2, 5, 10) if most / (step * power) <= 6)
    return [step * number for number in range(int(most / step) + 1)]


def curves(
    lines: dict[str, list[tuple[float, float]]], x: str, y: str, marks: tuple[float, ...] = ()
) -> str:
    """Lines over one axis, with marks where something was done."""
    width, height, left, low = 720, 280, 60, 40
    right = max(at for line in lines.values() for at, _ in line)
    top = max(value for line in lines.values() for _, value in line) * 1.05 or 1.0

    def place(at: float, value: float) -> str:
        across = left + at / right * (width - left - 10)
        return f"{across:.1f},{(height - low) * (1 - value / top) + 10:.1f}"

    parts = []
    for value in ticks(top):
        across, up = place(0, value).split(",")
        parts.append(
            f'<line x1="{across}" y1="{up}" x2="{width - 10}" y2="{up}" stroke="#8884"/>'
            f'<text x="{left - 6}" y="{float(up) + 4:.1f}" text-anchor="end" font-size="12"'
            f' fill="currentColor">{value:g}</text>'
        )
    for at in ticks(right):
        across, up = place(at, 0).split(",")
        parts.append(
            f'<text x="{across}" y="{float(up) + 18:.1f}" text-anchor="middle" font-size="12"'
            f' fill="currentColor">{at:g}</text>'
        )
    for at in marks:
        across = place(at, 0).split(",")[0]
        parts.append(
            f'<line x1="{across}" y1="10" x2="{across}" y2="{height - low + 10}"'
            ' stroke="currentColor" stroke-dasharray="4 4"/>'
        )
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(place(at, value) for at, value in line)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<text x="{left + 10 + 130 * number}" y="{height + 14}" font-size="13"'
            f' fill="{colour}">{escape(name)}</text>'
        )
    label = escape(f"{y} over {x}: {', '.join(lines)}")
    return (
        f'<svg viewBox="0 0 {width} {height + 20}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
        f'<p class="note">{escape(y)} over {escape(x)}</p>'
    )


def heat(rows: list[str], columns: list[str], values: list[list[float]]) -> str:
    """A matrix, the higher the darker."""
    most = max(value for row in values for value in row) or 1.0

    def cell(value: float) -> str:
        share = 0.08 + 0.72 * value / most
        return f'<td style="background: rgb(47 111 183 / {share:.2f})">{value:.1f}</td>'

    tops = "".join(f"<th>{escape(name)}</th>" for name in ("", *columns))
    lines = (
        f"<tr><th>{escape(name)}</th>{''.join(map(cell, row))}</tr>"
        for name, row in zip(rows, values, strict=True)
    )
    return f"<table><thead><tr>{tops}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def write(path: Path, title: str, sections: list[tuple[str, str]]) -> None:
    """A page of sections, each a heading and what stands under it."""
    body = "".join(f"<h2>{escape(head)}</h2>{content}" for head, content in sections)
    path.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
        f"<h1>{escape(title)}</h1>{body}</html>\n"
    )
    print(path)
