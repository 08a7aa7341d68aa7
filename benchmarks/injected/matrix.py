"""The confusion matrix of a run of injections, from its raw lines."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from expected import EXPECTED


def write(folder: Path) -> None:
    """Writes `matrix.md` beside `raw.jsonl`, and prints it."""
    lines = [json.loads(line) for line in (folder / "raw.jsonl").read_text().splitlines()]
    text = "\n".join(_matrix(lines)) + "\n"
    (folder / "matrix.md").write_text(text)
    print(text)


def _matrix(lines: list[dict]) -> list[str]:
    judged = [line for line in lines if "limit" in line and not line.get("disturbed")]
    disturbed = [line for line in lines if "limit" in line and line.get("disturbed")]
    right = sum(line["limit"] in line["accept"] for line in judged)
    kinds = {line["kind"] for line in judged}
    share = right / len(judged) if judged else 0.0
    said = [
        f"# Injected bottlenecks: {right} of {len(judged)} verdicts right ({share:.1%})\n",
        f"{len(kinds)} kinds; accepted verdicts are `benchmarks/injected/expected.py`'s.\n",
        "| kind | what was injected | accepted | verdicts | right |",
        "|---|---|---|---|---|",
    ]
    for kind, (what, accepted) in EXPECTED.items():
        mine = [line for line in judged if line["kind"] == kind]
        if not mine:
            continue
        verdicts = Counter(line["limit"] for line in mine)
        named = ", ".join(f"{name} {count}" for name, count in verdicts.most_common())
        good = sum(line["limit"] in line["accept"] for line in mine)
        said.append(f"| {kind} | {what} | {', '.join(accepted)} | {named} | {good}/{len(mine)} |")
    wrong = [line for line in judged if line["limit"] not in line["accept"]]
    if wrong:
        said += ["", "Wrong ones, with their shares:", ""]
    for line in wrong:
        shares = ", ".join(f"{s['limit']} {s['share']:.2f}" for s in line["shares"][:4])
        said.append(f"- {line['kind']} {line['repeat']}: {line['limit']} ({shares})")
    if disturbed:
        good = sum(line["limit"] in line["accept"] for line in disturbed)
        named = Counter(line["limit"] for line in disturbed)
        names = ", ".join(f"{name} {count}" for name, count in named.most_common())
        said += [
            "",
            f"{len(disturbed)} more trials were disturbed: other programs of this machine took",
        ]
        said += [
            f"more than a quarter of it. They were made again. Of them {good} were right: {names}."
        ]
    lost = [line for line in lines if "limit" not in line]
    if lost:
        said += ["", "Not judged:", ""]
    for line in lost:
        reason = line.get("missing") or line.get("failed")
        said.append(f"- {line['kind']} {line['repeat']}: {' '.join(str(reason).split())[:300]}")
    return said
