"""A load that runs, and how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from places import FULLBORE, Wrong, environment

LOADED, FAILED, REFUSED, WITH_REJECTS, STOPPED = 0, 1, 2, 3, 4

# No load of these sizes may take longer, whatever happens to it.
HANGS_AFTER_S = 240.0


@dataclass
class Ended:
    """How a command ended; the code is negative where a signal ended it."""

    code: int
    said: str
    seconds: float
    summary: dict[str, object] = field(default_factory=dict)


class Command:
    """A `fullbore` that was started."""

    def __init__(self, home: Path, arguments: list[str], prefix: list[str] | None = None) -> None:
        self.began = time.monotonic()
        # They live as long as the command does.
        self.out = tempfile.TemporaryFile()  # noqa: SIM115
        self.said = tempfile.TemporaryFile()  # noqa: SIM115
        # In a namespace it is `ip` that becomes the command, so the process is the same.
        self.process = subprocess.Popen(
            [*(prefix or []), str(FULLBORE), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self.out,
            stderr=self.said,
            cwd=home.parent,
            env=environment(FULLBORE_HOME=str(home)),
        )

    def age(self) -> float:
        return time.monotonic() - self.began

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def wait_until(self, age: float) -> bool:
        """Waits until it is so old; whether it still runs then."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.0, age - self.age()))
        return not self.has_ended()

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to it, if it still runs."""
        if not self.has_ended():
            self.process.send_signal(number)

    def end(self) -> Ended:
        """Waits for its end, but not for ever."""
        try:
            self.process.wait(HANGS_AFTER_S)
        except subprocess.TimeoutExpired:
            stacks = where_it_hangs(self.process.pid)
            self.process.kill()
            self.process.wait()
            raise Wrong(f"it hangs after {self.age():.0f} s: {stacks}; {self._text()}") from None
        seconds = self.age()
        self.out.seek(0)
        lines = self.out.read().decode(errors="replace").strip().splitlines()
        summary = {}
        if lines:
            with suppress(ValueError):
                summary = json.loads(lines[-1])
        return Ended(self.process.returncode, self._text(), seconds, summary)

    def _text(self) -> str:
        self.said.seek(0)
        return self.said.read().decode(errors="replace").strip()


def where_it_hangs(pid: int) -> str:
    """What each thread of a process waits for."""
    found = []
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        with suppress(OSError):
            name = (task / "comm").read_text().strip()
            found.append(f"{name}: {(task / 'wchan').read_text().strip()}")
    return ", ".join(found)


def wait_for(what: str, is_there, seconds: float = 60.0) -> None:
    """Asks until the answer is as wished."""
    until = time.monotonic() + seconds
    while not is_there():
        if time.monotonic() > until:
            raise Wrong(f"no {what} within {seconds:.0f} s")
        time.sleep(0.02)


def record_of(home: Path) -> list[dict[str, object]]:
    """The events of the newest run under a state folder; a line that was cut off is left out."""
    with suppress(OSError):
        records = sorted(home.glob("runs/*/record.jsonl"), key=os.path.getmtime)
        if records:
            events = []
            for line in records[-1].read_text().splitlines():
                with suppress(ValueError):
                    events.append(json.loads(line))
            return events
    return []
