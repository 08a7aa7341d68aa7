"""Every peer beside us, in one run. See README.md beside this."""

from __future__ import annotations

import argparse
import json
import platform
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

sys.path.insert(0, str(Path(__file__).resolve().parent))

import report
from cases import CASES
from cases.setting import STANDARD_SCALE, Setting
from lab import SCRATCH, Case, Failed, Measured, Missing, run_folder
from server import Server


def main() -> int:
    """Runs the chosen cases and keeps what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = ", ".join(CASES)
    parser.add_argument("--case", action="append", help=f"only this case, may be repeated: {known}")
    parser.add_argument(
        "--way",
        action="append",
        help="only ways with this in their name, may be repeated: 'one table' of `direct`",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--scale",
        default=f"{STANDARD_SCALE:g}",
        help="TPC-H scale of lineitem; all other data grow and shrink with it",
    )
    parser.add_argument("--name", default=platform.node(), help="of the folder under runs/")
    args = parser.parse_args()
    if unknown := set(args.case or ()) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {known}")
    # So that whatever was set up is taken down again on a polite kill too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    SCRATCH.mkdir(parents=True, exist_ok=True)
    out = run_folder(args.name)
    server = Server()
    server.start()
    summary = [f"# {out.name}\n", *report.about(server, args.scale, args.repeats), *report.HEAD]
    notes: list[str] = []
    whole = True
    began = time.monotonic()
    try:
        with (out / "raw.jsonl").open("w") as raw:
            for name in args.case or CASES:
                setting = Setting(server, args.scale)
                lines, good = run_case(name, setting, args.way, args.repeats, raw, notes)
                whole &= good
                summary += lines
        server.clear()
    finally:
        summary.append("")
        summary += dict.fromkeys(notes)
        summary.append(f"All in {(time.monotonic() - began) / 60:.1f} minutes.")
        (out / "summary.md").write_text("\n".join(summary) + "\n")
        print((out / "summary.md").read_text())
        server.stop()
    return 0 if whole else 1


def run_case(
    name: str,
    setting: Setting,
    only: list[str] | None,
    repeats: int,
    raw: TextIO,
    notes: list[str],
) -> tuple[list[str], bool]:
    """Runs a case's ways in turn, again and again; its lines, and whether all went well."""
    began = time.monotonic()
    try:
        with CASES[name](setting) as case:
            for peer, reason in case.missing.items():
                _loud(f"{name}: {peer} is not available: {reason}")
            notes += case.notes
            if only:
                case.ways = [way for way in case.ways if any(part in way.name for part in only)]
                if not case.ways:
                    raise Missing(f"it has no way with {' or '.join(only)} in its name")
            server = case.server or setting.server
            measured, errors = _in_turn(name, case, server, repeats, raw)
            lines = report.rows(name, case, measured, errors)
    except Missing as reason:
        _loud(f"SKIPPED {name}: {reason}")
        return report.skipped(name, str(reason)), True
    except Failed as error:
        _loud(f"{name} FAILED: {error}")
        return report.failed(name, str(error)), False
    print(f"{name} took {time.monotonic() - began:.0f} s, making its files included", flush=True)
    return lines, not errors


def _in_turn(
    name: str, case: Case, server: Server, repeats: int, raw: TextIO
) -> tuple[dict[str, list[Measured]], dict[str, str]]:
    measured: dict[str, list[Measured]] = {way.name: [] for way in case.ways}
    errors: dict[str, str] = {}
    expected: dict[int | None, int] = {}
    for repeat in range(repeats):
        for way in case.ways:
            if (way.once and repeat) or way.name in errors:
                continue
            server.clear()
            # Before every way: what the last one wrote may have taken the files' place in memory.
            warm(case.files)
            try:
                result = way.load()
                if piped := result.notes.get("bytes"):
                    way.size = int(str(piped))
                if case.loads:
                    rows = result.notes["rows"] = server.rows()
                    if rows != expected.setdefault(way.size, rows):
                        raise Failed(f"it left {rows} rows, the first way {expected[way.size]}")
            except Failed as error:
                errors[way.name] = str(error)
                measured[way.name].clear()
                _loud(f"{name}: {way.name} FAILED: {error}")
                continue
            measured[way.name].append(result)
            size = way.size or case.size
            line = {"case": name, "way": way.name, "repeat": repeat, "bytes": size}
            raw.write(json.dumps(line | asdict(result)) + "\n")
            raw.flush()
            print(f"{name}: {way.name}: {size / 1e6 / result.seconds:.0f} MB/s", flush=True)
    return measured, errors


def warm(files: list[Path]) -> None:
    """Reads files once, in parts: what this process keeps is counted as its children's peak."""
    for path in files:
        with path.open("rb", buffering=0) as source:
            while source.read(1 << 20):
                pass


def _loud(text: str) -> None:
    print(f"*** {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
