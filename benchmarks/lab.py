"""Folders, the environment of every command, and the words that cases and peers share."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from server import Server

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "benchmarks"
FULLBORE = ROOT / ".venv" / "bin" / "fullbore"
DATA = HERE / "data"
SCRATCH = DATA / "scratch"


class Failed(RuntimeError):
    """A command that did not do its work."""


class Missing(RuntimeError):
    """What a case or a peer needs and this machine does not have; the message is the reason."""


@dataclass
class Measured:
    """One load: seconds include the final CHECKPOINT; CPU is in seconds, memory in bytes."""

    seconds: float
    server_cpu: float
    client_cpu: float
    client_memory: int
    notes: dict[str, object] = field(default_factory=dict)


@dataclass
class Way:
    """One way to do what a case is about.

    ``size`` is for a way whose bytes are not the case's; ``once`` is for one too long to repeat;
    ``beside`` names the way of ours with the same final shape, where that is not the first.
    """

    name: str
    load: Callable[[], Measured]
    size: int | None = None
    once: bool = False
    beside: str = ""


@dataclass
class Case:
    """Files and the ways to load them; the first way is ours, and all others are set beside it.

    After each way that loads, the rows in the server are counted: ways whose counts differ from
    the first one's have failed. ``server`` is for a case with one of its own; ``missing`` says
    which peers could not be had, and why.
    """

    size: int
    ways: list[Way]
    files: list[Path] = field(default_factory=list)
    loads: bool = True
    server: Server | None = None
    notes: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, make: Callable[[], Callable[[], Measured]]) -> None:
        """Adds a peer's way, or the reason why it can't be had."""
        try:
            self.ways.append(Way(name, make()))
        except Missing as reason:
            self.missing[name] = str(reason)


def run_folder(name: str) -> Path:
    """A new folder for this run: raw figures of another are never written over."""
    wanted = HERE / "runs" / f"{time.strftime('%Y-%m-%d')}-{name}"
    for number in range(2, 1000):
        try:
            wanted.mkdir(parents=True)
            return wanted
        except FileExistsError:
            wanted = wanted.with_name(f"{time.strftime('%Y-%m-%d')}-{name}-{number}")
    raise Failed(f"too many runs of this name: {wanted}")


def environment(**more: str) -> dict[str, str]:
    """The environment of every command: no PG* settings of whoever runs this."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    for name in ("DATABASE_URL", "FULLBORE_TO"):
        kept.pop(name, None)
    return kept | more


def run_text(command: list[str], text: str | None = None, env: dict[str, str] | None = None) -> str:
    """A command's output; its errors raise."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, env=env or environment(), check=False
    )
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise Failed(f"{' '.join(command[:3])}: {said}")
    return done.stdout


def size_of(files: list[Path]) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in files)
