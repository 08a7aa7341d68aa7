"""One of two paths to a server is cut while a load uses both."""

from __future__ import annotations

from faults import Fault
from load import LOADED, Command, record_of, wait_for
from network import SECOND, SERVER
from places import Wrong
from trial import Trial

# Slow enough for a path to be cut in the middle, and to be noticed.
RATE = "12MB/s"
POLICIES = ("least-queue", "round-robin")
# So long nothing may arrive: the way that is left goes on within it.
STALL_MAX_S = 5.0


class TwoPaths(Fault):
    """A path is cut; the load ends by the other one, and nobody resumes anything."""

    name = "path"

    def __init__(self, strikes: bool = True) -> None:
        self.strikes = strikes
        self.struck_at = 0.0

    def undisturbed(self) -> Fault:
        return TwoPaths(strikes=False)

    def prepare(self, trial: Trial) -> None:
        setting = trial.setting
        setting.server = trial.world.networked()
        setting.url = setting.server.network_url
        setting.prefix = trial.world.network.prefix()
        setting.options += ["--endpoint", SERVER, "--endpoint", SECOND, "--max-rate", RATE]
        setting.options += ["--endpoint-policy", POLICIES[trial.number % 2]]
        trial.streams = 4
        self.is_first = trial.number // 2 % 2 == 0
        self.is_mended = trial.number // 4 % 2 == 0
        trial.facts.update(cut="first" if self.is_first else "second", mended=self.is_mended)

    def strike(self, trial: Trial, load: Command) -> None:
        network = trial.world.network
        wait_for("run", lambda: record_of(trial.setting.home) or load.has_ended())
        network.drop() if self.is_first else network.drop_second()
        self.struck_at = load.age()
        if self.is_mended:
            load.wait_until(load.age() + 4 + 2 * trial.rng.random())
            network.mend()

    def mend(self, trial: Trial) -> None:
        trial.world.network.mend()
        events = record_of(trial.setting.home)
        downs = [event for event in events if event.get("event") == "endpoint_down"]
        ups = [event for event in events if event.get("event") == "endpoint_up"]
        stall = longest_stall(events)
        trial.facts.update(downs=len(downs), ups=len(ups), stall_s=round(stall, 2))
        if stall > STALL_MAX_S:
            raise Wrong(f"nothing arrived for {stall:.1f} s")

    def allowed(self, trial: Trial) -> set[int]:
        return {LOADED}

    def end(self, trial: Trial) -> None:
        if trial.world.network is not None:
            trial.world.network.mend()


def longest_stall(events: list[dict]) -> float:
    """The longest time in which no rows were sent, while there were some."""
    longest = since = 0.0
    before = 0
    for event in events:
        if event.get("event") != "sample":
            continue
        sent = sum(table["rows_sent"] for table in event["tables"])
        at = float(event["at"])
        if sent == before and event["streams_active"]:
            longest = max(longest, at - since)
        else:
            since = at
        before = sent
    return longest
