"""Files for loads of any length."""

from __future__ import annotations

from pathlib import Path

from lab import SCRATCH
from trial import Stage


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
