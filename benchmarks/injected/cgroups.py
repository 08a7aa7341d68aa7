"""Limits of processors, disks and memory: a cgroup of version 1 for each group of our processes."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from lab import Missing

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000


class Group:
    """A cgroup in the hierarchies of processors, disks and memory."""

    def __init__(self, name: str) -> None:
        self.folders = {
            part: ROOT / part / f"fullbore-{name}-{os.getpid()}"
            for part in ("cpu", "blkio", "memory")
        }
        try:
            for folder in self.folders.values():
                folder.mkdir()
        except OSError as error:
            raise Missing(f"no cgroups (version 1; cpu, blkio, memory) here: {error}") from error

    def prefix(self) -> list[str]:
        """What stands before a command that is to live under the limits."""
        enter = "; ".join(
            f"echo $$ > {folder / 'cgroup.procs'}" for folder in self.folders.values()
        )
        return ["sh", "-c", f'{enter}; exec "$@"', "sh"]

    def cores(self, cores: float | None) -> None:
        """So many cores' worth of time; None for as many as there are."""
        quota = -1 if cores is None else round(cores * PERIOD_US)
        (self.folders["cpu"] / "cpu.cfs_quota_us").write_text(str(quota))

    def disk(self, device: str, way: str, per_second: int) -> None:
        """A limit of `read_bps`, `write_bps`, `read_iops` or `write_iops`; 0 for none."""
        path = self.folders["blkio"] / f"blkio.throttle.{way}_device"
        path.write_text(f"{device} {per_second}")

    def memory(self, limit: int | None) -> None:
        """So many bytes, cached pages of files included; None for as many as there are."""
        path = self.folders["memory"] / "memory.limit_in_bytes"
        path.write_text(str(-1 if limit is None else limit))

    def remove(self) -> None:
        """Takes it away, once its processes have ended."""
        for folder in self.folders.values():
            for _ in range(50):
                with suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.1)
