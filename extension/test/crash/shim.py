"""Builds shim.c and tells it when to stop a process, or what to let fail."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from server import Installation, Server, compiler

SOURCE = Path(__file__).with_name("shim.c")
SECONDS_MAX = 60


def wait_until(what: str, holds: Callable[[], object]) -> None:
    """Waits for an event by asking for it."""
    end = time.monotonic() + SECONDS_MAX
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"no {what} within {SECONDS_MAX} seconds")
        time.sleep(0.002)


class Shim:
    """The rule in force, and who was stopped by it."""

    def __init__(self, folder: Path, logs: bool = False) -> None:
        self.folder = folder
        self.logs = logs
        self.library = folder / "shim.so"
        command = [compiler(), "-std=gnu99", "-O1", "-Wall", "-Wextra", "-Werror", "-shared"]
        command += ["-fPIC", str(SOURCE), "-o", str(self.library), "-ldl"]
        subprocess.run(command, check=True)

    @property
    def environment(self) -> dict[str, str]:
        found = {
            "LD_PRELOAD": str(self.library),
            "FB_SHIM": str(self.folder),
            "FB_SHIM_NO_SYNC": "1",
        }
        return {**found, "FB_SHIM_LOG": "1"} if self.logs else found

    def rule(self, pid: int, operation: str, path: str, skip: int, action: str) -> None:
        """Sets the one rule; what happens before it is seen whole or not at all."""
        (self.folder / "hit").unlink(missing_ok=True)
        written = self.folder / "rule.new"
        # The time makes each rule another one, so that it is counted anew.
        written.write_text(f"{pid} {operation} {path} {skip} {action} {time.monotonic_ns()}\n")
        written.chmod(0o644)
        written.rename(self.folder / "rule")

    def unsynced(self, path: Path) -> list[tuple[int, int]]:
        """What was written to a file since its last sync: offsets and lengths."""
        found: list[tuple[int, int]] = []
        for line in (self.folder / "log").read_text().splitlines():
            parts = line.split()
            if Path(parts[-1]) != path:
                continue
            if parts[0] == "s":
                found.clear()
            else:
                found.append((int(parts[1]), int(parts[2])))
        return found

    def clear(self) -> None:
        (self.folder / "rule").unlink(missing_ok=True)

    def hit(self) -> int | None:
        """The process that was stopped, once it stands still."""
        try:
            pid = int((self.folder / "hit").read_text() or 0)
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ValueError):
            return None
        return pid if state == "T" else None

    def let_go(self) -> None:
        """Whoever was stopped goes on, if it is still there."""
        self.clear()
        try:
            pid = int((self.folder / "hit").read_text() or 0)
            os.kill(pid, signal.SIGCONT)
        except (FileNotFoundError, ValueError, ProcessLookupError):
            return


def shimmed_server(
    installation: Installation, settings: dict[str, str], logs: bool = False
) -> tuple[Server, Shim]:
    """A server with the shim in all of its processes."""
    made: list[Shim] = []

    def preload(server: Server) -> dict[str, str]:
        folder = server.folder / "shim"
        folder.mkdir()
        server.give(folder)
        made.append(Shim(folder, logs))
        return made[0].environment

    server = Server(installation, settings, compiler(), preload)
    return server, made[0]
