"""Disks of our own: files with a file system in them, each a block device that can be throttled."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

from lab import SCRATCH, Failed, Missing, run


class Disk:
    """A file system on a loop device, open to everybody."""

    def __init__(self, name: str, megabytes: int) -> None:
        SCRATCH.mkdir(mode=0o755, exist_ok=True)
        self.image = SCRATCH / f"{name}.img"
        self.path = SCRATCH / name
        self.path.mkdir()
        with self.image.open("wb") as out:
            out.truncate(megabytes << 20)
        try:
            run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0", str(self.image)])
            self._mount()
        except (Failed, FileNotFoundError) as error:
            raise Missing(f"no loop devices with a file system here: {error}") from error
        self.path.chmod(0o777)

    def _mount(self) -> None:
        run(["mount", "-o", "loop", str(self.image), str(self.path)])
        source = run(["findmnt", "-n", "-o", "SOURCE", str(self.path)]).strip()
        self.device = run(["lsblk", "-n", "-d", "-o", "MAJ:MIN", source]).strip()

    def take(self, files: list[Path]) -> list[Path]:
        """Copies files to it; what of them is in memory is forgotten."""
        for old in self.path.glob("lineitem*"):
            old.unlink()
        for path in files:
            subprocess.run(["cp", str(path), str(self.path)], check=True)
        run(["umount", str(self.path)])
        self._mount()
        return [self.path / path.name for path in files]

    def remove(self) -> None:
        """Unmounts it; with it goes its device."""
        with suppress(Failed):
            run(["umount", str(self.path)])
        self.image.unlink(missing_ok=True)
