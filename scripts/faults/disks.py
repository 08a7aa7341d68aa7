"""File systems that are really full: small ones, in memory."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from places import Missing, give


class SmallDisk:
    """A file system of so many kilobytes; needs the right to mount one."""

    def __init__(self, folder: Path, kilobytes: int) -> None:
        self.folder = folder
        if os.geteuid() != 0:
            raise Missing("mounting a small file system needs root")
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "fullbore-fault", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            # The next trial finds what it expects: nothing.
            folder.rmdir()
            raise Missing(f"no small file system can be mounted: {done.stderr.strip()}")
        folder.chmod(0o755)
        give(folder)

    def grow(self, kilobytes: int) -> None:
        """Makes room."""
        command = ["mount", "-o", f"remount,size={kilobytes}k", str(self.folder)]
        subprocess.run(command, check=True)

    def used(self) -> int:
        """Kilobytes that are taken."""
        found = os.statvfs(self.folder)
        return (found.f_blocks - found.f_bfree) * found.f_frsize // 1024

    def end(self) -> None:
        """Out of sight at once; gone when the last process that uses it is."""
        subprocess.run(["umount", "-l", str(self.folder)], check=False, capture_output=True)
