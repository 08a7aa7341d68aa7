"""Files for loads of any length, and a load with what is known of it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from lab import SCRATCH, environment, lineitem
from trial import Stage

# Megabytes of lineitem of scale 4.
OF_SCALE_4 = 3000


class Files:
    """Files of lineitem, as often as they are needed, under names of their own."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.folder = SCRATCH / "more"

    def of(self, megabytes: float) -> list[Path]:
        all_files = self.stage_files()
        self.folder.mkdir(parents=True, exist_ok=True)
        made, size, number = [], 0.0, 0
        while size < megabytes:
            source = all_files[number % len(all_files)]
            link = self.folder / f"lineitem-{number:04}.tbl"
            if not link.exists():
                link.symlink_to(source)
            made.append(link)
            size += source.stat().st_size / 1e6
            number += 1
        return made

    def stage_files(self) -> list[Path]:
        """Small ones, so that short loads have pieces enough."""
        return Stage.files(self.stage, 90)


class Distinct:
    """Files of lineitem that have no key in common: as many as there are."""

    def of(self, megabytes: float) -> list[Path]:
        made, size = [], 0.0
        for file in lineitem("4" if megabytes < OF_SCALE_4 else "10", 256):
            if size < megabytes:
                made.append(file)
                size += file.stat().st_size / 1e6
        return made


def carried_out(command: list[str], files: list[Path], home: Path, timeout: float = 600) -> dict:
    """Loads files: the summary, its record as `events`, seconds and MB/s of its load phase."""
    env = environment() | {"FULLBORE_HOME": str(home)}
    command = [*command, "--", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-1500:])
    summary = json.loads(done.stdout)
    record = home / "runs" / summary["run_id"] / "record.jsonl"
    summary["events"] = [json.loads(line) for line in record.read_text().splitlines()]
    phases = {phase["name"]: phase["seconds"] for phase in summary["phases"]}
    summary["load_s"] = phases["load"]
    summary["rate"] = summary["bytes"] / phases["load"] / 1e6
    return summary
