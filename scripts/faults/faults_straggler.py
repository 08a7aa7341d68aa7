"""Clients and sessions that end while streams load the rests of slow pieces."""

from __future__ import annotations

import subprocess

from data import Data
from faults import Fault, Interrupt, Kill, Restart, Terminate
from load import Command, record_of
from places import ROOT, Failed, Missing
from trial import Trial
from ways import Way

DISK = ROOT / "target" / "release" / "fullbore-disk"
# What one arm of the disk reads, and what a request takes; ten times that from half of a file on.
MB_PER_S, LATENCY_MS, ARMS, WORSE_FROM, WORSE_TIMES = 60, 0.1, 8, 0.5, 10


class SlowDisk:
    """The files of a folder on a disk that gets slow."""

    def __init__(self, trial: Trial, data: Data) -> None:
        if not DISK.exists():
            raise Missing("cargo build --release -p fullbore-testing --bin fullbore-disk")
        # Not in the trial's folder, which is removed before this ends.
        self.at = trial.world.folder / "slow"
        self.at.mkdir(exist_ok=True)
        options = (MB_PER_S, LATENCY_MS, ARMS, WORSE_FROM, WORSE_TIMES)
        self.process = subprocess.Popen(
            [DISK, data.folder, self.at, *map(str, options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        if self.process.stdout is None or self.process.stdout.readline() != "mounted\n":
            raise Failed(f"no slow disk at {self.at}")

    def end(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait(timeout=30)


class Straggler(Fault):
    """One of the other faults, while a disk is slow and pieces are split."""

    name = "straggler"
    # Others have pieces that stay whole.
    loaded_by = (Way("copy", "append"), Way("copy", "replace"))
    WAYS: tuple[type[Fault], ...] = (Kill, Terminate, Restart, Interrupt)

    def __init__(self, strikes: bool = True) -> None:
        self.strikes = strikes
        self.disk: SlowDisk | None = None
        self.inner: Fault = Fault()

    def undisturbed(self) -> Fault:
        return Straggler(strikes=False)

    def prepare(self, trial: Trial) -> None:
        if self.strikes:
            self.inner = self.WAYS[trial.number % len(self.WAYS)]()
            trial.facts["inner"] = self.inner.name
        self.end(trial)
        data = trial.setting.data
        self.disk = SlowDisk(trial, data)
        files = [self.disk.at / file.name for file in data.files]
        trial.setting.data = Data(data.name, data.folder, files, data.rows, data.bytes, data.bad)
        trial.streams = max(2, trial.streams)

    def strike(self, trial: Trial, load: Command) -> None:
        self.inner.strike(trial, load)

    def mend(self, trial: Trial) -> None:
        self.inner.mend(trial)
        events = record_of(trial.setting.home)
        trial.facts["halved"] = sum(event.get("event") == "piece_halved" for event in events)

    def allowed(self, trial: Trial) -> set[int]:
        return self.inner.allowed(trial)

    def end(self, trial: Trial) -> None:
        if self.disk is not None:
            self.disk.end()
            self.disk = None
