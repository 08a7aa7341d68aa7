"""How much a resume repeats: a kill at nine tenths of the bytes, for each way.

Bytes are repeated that had been sent and were not committed: what the client's last sample says it
had sent, less what the ledger has. The files make seven pieces and more for each stream.
"""

from __future__ import annotations

import json
import signal
import sys
import time

import checks
from faults import Kill
from load import Command, record_of
from places import Wrong
from trial import Trial
from ways import WAYS
from world import World

MEGABYTES = 360
SHARE = 0.9
AT_MOST = 0.15
TRIES = 4
RIGHT = "as it should be"


def sent(load: Command, trial: Trial) -> int:
    """Bytes that the load had sent when it last said so."""
    for event in reversed(record_of(trial.setting.home)):
        if event.get("event") == "sample":
            return sum(table["bytes_sent"] for table in event["tables"])
    return 0


def measured(world: World, way_name: str, number: int) -> dict[str, object]:
    """One kill at nine tenths, and what the resume then loaded once more."""
    way = next(way for way in WAYS if way.name == way_name)
    trial = Trial(world, Kill(), way, number, 0)
    trial.streams, trial.atomic, trial.strikes_again = 3, False, False
    for _ in range(TRIES):
        trial.settle()
        load = trial.start(resume=False)
        while not load.has_ended() and sent(load, trial) < SHARE * trial.setting.data.bytes:
            time.sleep(0.002)
        load.send(signal.SIGKILL)
        ended = load.end()
        last = sent(load, trial)
        if ended.code == -signal.SIGKILL and last < trial.setting.data.bytes:
            break
    else:
        return {"way": way.name, "outcome": "the load was always over before the kill"}
    checks.sessions_have_ended(trial.setting.server)
    state, pieces, committed = checks.ledger_state(trial.setting.server)
    trial.resume()
    trial.check()
    size = trial.setting.data.bytes
    return {
        "way": way.name, "level": trial.level, "bytes": size, "state": state, "pieces": pieces,
        "sent_share": round(last / size, 3), "repeated_share": round((last - committed) / size, 3),
    }  # fmt: skip


def measure_all() -> list[dict[str, object]]:
    """A line for each way, and whether it is as it should be."""
    world = World(MEGABYTES)
    lines = []
    try:
        for number, way in enumerate(WAYS):
            try:
                line = measured(world, way.name, number)
            except Wrong as error:
                line = {"way": way.name, "outcome": str(error)[:1000]}
            # A replacement that is loaded directly is one piece, as its plan says.
            is_bound = way.name != "direct-replace"
            is_right = "repeated_share" in line and (
                not is_bound or line["repeated_share"] <= AT_MOST
            )
            lines.append(with_outcome(line, is_right))
            print(json.dumps(lines[-1]), file=sys.stderr, flush=True)
    finally:
        world.close()
    return lines


def with_outcome(line: dict[str, object], is_right: bool) -> dict[str, object]:
    return {**line, "outcome": line.get("outcome", RIGHT if is_right else "too much")}


if __name__ == "__main__":
    sys.exit(any(line["outcome"] != RIGHT for line in measure_all()))
