"""The standing test of messy files: 300 polluted ones, loaded with all options given and with none,
beside DuckDB's read_csv.

Ten clean tables (`clean.py`) are polluted in thirty ways each (`pollute.py`), by a seed. What is
read is compared with the clean table by cell (`score.py`). The test fails where Fullbore is below
DuckDB in precision or recall, with options or without, or where it loads other rows than the
file's and ends with 0. Kept under ``runs/<date>-<name>``: ``summary.md`` and ``raw.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from clean import tables
from lab import FULLBORE, HERE, environment, run_text
from pollute import KINDS, Polluted, polluted
from score import Score, score
from wheels import python_with

#: How DuckDB is asked where it is left to find everything: as it is, and not to stop at bad rows.
#: The way that does better over all files counts.
FINDING: list[dict[str, object]] = [{}, {"ignore_errors": True}]
#: What is tried where DuckDB is told everything: the best of each file counts.
TOLD: list[dict[str, object]] = [
    {},
    {"ignore_errors": True},
    {"null_padding": True},
    {"strict_mode": False},
    {"strict_mode": False, "ignore_errors": True},
    {"all_varchar": True, "ignore_errors": True},
]
NOTHING = Score(0.0, 0.0)


@dataclass
class Loaded:
    """One load by Fullbore: its exit code, what it said, what came of it."""

    code: int
    said: str
    score: Score


@dataclass
class Trial:
    """One file, and how all loads of it went."""

    table: str
    file: Polluted
    given: Loaded
    found: Loaded
    their_given: Score
    #: For each of FINDING.
    their_found: list[Score]


def load(binary: Path, path: Path, folder: Path, options: list[str]) -> tuple[int, str]:
    """Loads a file into Parquet files of a folder."""
    folder.mkdir()
    command = [str(binary), "load", str(path), "--table", "t", "--to", f"parquet:{folder}"]
    command += ["--quiet", "--max-rejects", "100%", "--reject-dir", str(folder), *options]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment(FULLBORE_HOME=str(folder / "home")),
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode, done.stderr.strip()


def scored(file: Polluted, read: dict[str, object]) -> Score:
    """The score of what was read; nothing where nothing was."""
    if "error" in read:
        return NOTHING
    return score(file.names, file.rows, read["names"], read["rows"])


def f1(found: Score) -> float:
    total = found.precision + found.recall
    return 2 * found.precision * found.recall / total if total else 0.0


def trials(binary: Path, seed: int, folder: Path, only: str | None) -> list[Trial]:
    """Makes all files, loads them, and scores what came of them."""
    files: list[tuple[str, Polluted, Path]] = []
    for table in tables():
        for number, kind in enumerate(KINDS):
            if only and only not in kind:
                continue
            file = polluted(table, kind, seed)
            path = folder / f"{table.name}-{number:02d}.csv"
            path.write_bytes(file.content)
            files.append((table.name, file, path))

    def ours(job: tuple[int, list[str], str]) -> tuple[int, str]:
        number, options, name = job
        path = files[number][2]
        return load(binary, path, path.with_suffix(f".{name}"), options)

    jobs = [(n, file.ours, "given") for n, (_, file, _) in enumerate(files)]
    jobs += [(n, [], "found") for n in range(len(files))]
    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(ours, jobs))
    tasks: list[dict[str, object]] = [
        {"folder": str(files[number][2].with_suffix(f".{name}"))} for number, _, name in jobs
    ]
    for _, file, path in files:
        tasks.append({"path": str(path), "options": [{**file.theirs, **more} for more in TOLD]})
    for _, _, path in files:
        tasks.append({"path": str(path), "options": FINDING})
    (folder / "tasks.json").write_text(json.dumps(tasks))
    python = python_with("duckdb")
    reader = str(Path(__file__).with_name("read.py"))
    read = json.loads(run_text([python, reader, str(folder / "tasks.json")]))
    count = len(files)
    result = []
    for number, (table, file, _) in enumerate(files):
        loads = []
        for at in (number, count + number):
            code, said = ended[at]
            got = scored(file, read[at]) if code in (0, 3) else NOTHING
            loads.append(Loaded(code, said, got))
        told = [scored(file, one) for one in read[2 * count + number]["tried"]]
        finding = [scored(file, one) for one in read[3 * count + number]["tried"]]
        result.append(Trial(table, file, loads[0], loads[1], max(told, key=f1), finding))
    return result


def mean(scores: Iterable[Score]) -> Score:
    """The mean over files."""
    scores = list(scores)
    count = max(1, len(scores))
    return Score(
        sum(score.precision for score in scores) / count,
        sum(score.recall for score in scores) / count,
    )


def silent(trial: Trial) -> list[str]:
    """What was loaded with exit code 0 and is not the table."""
    wrong = []
    for name, loaded in (("given", trial.given), ("found", trial.found)):
        if loaded.code == 0 and not loaded.score.is_perfect:
            got = loaded.score
            wrong.append(
                f"{trial.table}, {trial.file.kind}, {name}: "
                f"precision {got.precision:.4f}, recall {got.recall:.4f}"
            )
    return wrong


def summary(done: list[Trial], name: str, seed: int) -> tuple[str, bool]:
    """The tables, and whether the test passed."""
    best = max(range(len(FINDING)), key=lambda n: f1(mean(trial.their_found[n] for trial in done)))
    ways = {
        "Fullbore, options given": [trial.given.score for trial in done],
        "DuckDB, options given": [trial.their_given for trial in done],
        "Fullbore, left to find them": [trial.found.score for trial in done],
        f"DuckDB, left to find them {FINDING[best] or ''}": [t.their_found[best] for t in done],
    }
    means = {way: mean(scores) for way, scores in ways.items()}
    lines = [
        f"# {name}",
        "",
        f"{len(done)} polluted files, seed {seed}. Means over files, by cell.",
    ]
    lines += ["", "| | precision | recall | files without a fault |", "|---|---|---|---|"]
    for way, scores in ways.items():
        perfect = sum(score.is_perfect for score in scores)
        got = means[way]
        lines.append(f"| {way} | {got.precision:.4f} | {got.recall:.4f} | {perfect} |")
    codes = {code: sum(t.found.code == code for t in done) for code in (0, 3, 2, 1)}
    said = ", ".join(f"{count} with {code}" for code, count in codes.items())
    lines += ["", f"Left to find everything, Fullbore ended {said}.", ""]
    lines += ["| pollution | ours given | theirs given | ours found | theirs found | exit codes |"]
    lines += ["|---|---|---|---|---|---|"]
    for kind in dict.fromkeys(trial.file.kind for trial in done):
        of_kind = [trial for trial in done if trial.file.kind == kind]
        columns = [
            mean(t.given.score for t in of_kind),
            mean(t.their_given for t in of_kind),
            mean(t.found.score for t in of_kind),
            mean(t.their_found[best] for t in of_kind),
        ]
        shown = " | ".join(f"{got.precision:.3f} / {got.recall:.3f}" for got in columns)
        codes_of = " ".join(str(trial.found.code) for trial in of_kind)
        lines.append(f"| {kind} | {shown} | {codes_of} |")
    wrong = [line for trial in done for line in silent(trial)]
    lines += [
        "",
        f"Ended with 0, and not the table: {len(wrong)}.",
        *(f"- {line}" for line in wrong),
    ]
    given, their_given, found, their_found = means.values()
    passed = not wrong
    for ours, theirs in ((given, their_given), (found, their_found)):
        passed &= ours.precision >= theirs.precision and ours.recall >= theirs.recall
    return "\n".join(lines) + "\n", passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", help="only kinds of pollution with this in their name")
    parser.add_argument("--binary", type=Path, default=FULLBORE)
    parser.add_argument("--files", type=Path, help="a new folder to leave the files in")
    parser.add_argument("--name", default="messy", help="of the folder under runs/")
    parser.add_argument("--no-run", action="store_true", help="keep nothing under runs/")
    args = parser.parse_args()
    name = f"{date.today()}-{args.name}"
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.files or Path(scratch)
        folder.mkdir(exist_ok=True)
        done = trials(args.binary, args.seed, folder, args.kind)
    text, passed = summary(done, name, args.seed)
    print(text)
    if not args.no_run:
        out = HERE / "runs" / name
        out.mkdir(parents=True, exist_ok=True)
        (out / "summary.md").write_text(text)
        with (out / "raw.jsonl").open("w") as raw:
            for trial in done:
                line = {"table": trial.table, "kind": trial.file.kind}
                line |= {"given": asdict(trial.given), "found": asdict(trial.found)}
                line |= {"their_given": asdict(trial.their_given)}
                line |= {"their_found": [asdict(score) for score in trial.their_found]}
                raw.write(json.dumps(line) + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
