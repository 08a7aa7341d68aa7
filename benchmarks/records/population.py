"""Record 5 in miniature: "Benchmarking: 1-TB table population, part 5", one change upon the other.

    python benchmarks/records/population.py

Frames of 9000 bytes, a device for the log, a second path by least queue, then by round robin; and a
setting that was believed to be on. About 9 minutes. Needs root. Raw data and the page are written
to benchmarks/records/population.
"""

from __future__ import annotations

import shutil
import statistics
from dataclasses import dataclass

import loads
import page
from lab import SCRATCH, run
from links import inside, preflight_net, wan
from servers import REPLICA, Server
from trial import Stage, table

OUT = loads.HERE / "population"
RTT_MS, MEGABITS = 1, 100
BLOCKS = 5
MEGABYTES = 90
# A clustered index is a table in the order of its key; ours has the key's index.
KEY = "ALTER TABLE lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber)"


@dataclass(frozen=True)
class Step:
    """What is in force."""

    name: str
    theirs: str
    mtu: int = 1500
    has_own_log: bool = False
    paths: int = 1
    policy: str = "least-queue"


STEPS = (
    Step("baseline", "20,317 s"),
    Step("frames of 9000", "-8.4%", 9000),
    Step("and for the log: a device of its own", "-10.0%", 9000, True),
    Step("and two paths, least queue", "-10.5%", 9000, True, 2),
    Step("and two paths, round robin", "-12.8%", 9000, True, 2, "round-robin"),
)


def populated(stage: Stage, step: Step) -> dict:
    """One load of the table with its key, in the key's order."""
    queue = 250_000
    with wan(RTT_MS, f"{MEGABITS},{MEGABITS}", queue_bytes=queue, mtu=step.mtu) as hosts:
        server = Server(
            f"pop-{hosts.server[-8:]}",
            settings=REPLICA,
            host=(hosts.server, ",".join(hosts.server_addresses)),
            wal=stage.disk("log", 3000).path if step.has_own_log else None,
        )
        try:
            url = f"postgresql://postgres@{hosts.server_address}:5432/postgres"
            table(server, KEY)
            arguments = ["--to", url, "--table", "lineitem", "--format", "tbl", "--method", "copy"]
            arguments += ["--streams", "8", "--piece-size", "2MB", "--compress", "none"]
            for address in hosts.server_addresses[: step.paths]:
                arguments += ["--endpoint", address]
            if step.paths > 1:
                arguments += ["--endpoint-policy", step.policy]
            done = loads.loaded(arguments, stage.files(MEGABYTES), inside(hosts.client))
        finally:
            server.remove()
            if step.has_own_log:
                for left in stage.disk("log", 3000).path.glob("*-wal"):
                    shutil.rmtree(left)
    return {"seconds": done["load_s"], "rate": done["rate"], "verdict": done["verdict"]}


def believed() -> dict:
    """A frame size that is set at one end only: what is configured, and what is in effect."""
    with wan(RTT_MS, MEGABITS, mtu=9000) as hosts:
        run([*inside(hosts.server), "ip", "link", "set", "wan0", "mtu", "1500"])
        device = run([*inside(hosts.client), "cat", "/sys/class/net/wan0/mtu"]).strip()
        report = preflight_net(hosts, "--streams", "1", "--seconds", "3")
    stream = report["cells"][0]["each"][0]
    return {"configured": int(device), "mss": stream["mss_bytes"], "report": report}


def measured() -> dict:
    stage = Stage()
    ways = {step.name: lambda step=step: populated(stage, step) for step in STEPS}
    try:
        return {"steps": loads.blocks(ways, BLOCKS, said="seconds"), "believed": believed()}
    finally:
        stage.end()
        shutil.rmtree(SCRATCH, ignore_errors=True)


def written(raw: dict) -> None:
    found, off = raw["steps"], raw["believed"]
    seconds = {name: [one["seconds"] for one in its] for name, its in found.items()}
    base = seconds[STEPS[0].name]
    head = ["cumulative", "2009", "seconds", "MB/s", "against the baseline", "verdict"]
    rows = [
        [
            step.name,
            step.theirs,
            f"{statistics.median(seconds[step.name]):.2f}",
            f"{statistics.median(one['rate'] for one in found[step.name]):.1f}",
            "baseline" if step is STEPS[0] else loads.change(base, seconds[step.name]),
            loads.shares(found[step.name][0]["verdict"], 2),
        ]
        for step in STEPS
    ]
    in_effect = [
        ["the device of the near end", str(off["configured"])],
        ["in effect: segments, as preflight net reports them", str(off["mss"])],
    ]
    page.show((head, rows), (["frames believed to be on", "bytes"], in_effect))
    page.write(
        OUT / "page.html",
        "Record 5: a table is populated over a network",
        [
            ("Theirs and ours", page.table(head, rows)),
            (
                "A setting that was believed to be on",
                page.table(["frames", "bytes"], in_effect),
            ),
            ("What came of it", _words(seconds, found)),
        ],
    )


def _words(seconds: dict[str, list[float]], found: dict[str, list[dict]]) -> str:
    middle = {name: statistics.median(its) for name, its in seconds.items()}
    names = [step.name for step in STEPS]
    frames, log, least, round_robin = (middle[name] / middle[names[0]] - 1 for name in names[1:])
    before, after = (loads.shares(found[name][0]["verdict"], 2) for name in (names[2], names[3]))
    return (
        f"<p>Larger frames change the time by {frames:+.1%}: fewer headers and packets."
        f" A device for the log, {log:+.1%} in all: here the path is the limit, not the log."
        f" A second path takes it to {least:+.1%} by least queue and {round_robin:+.1%} by round"
        f" robin: the paths are equal, so the policies are. Before it, the verdict was {before};"
        f" with it, {after}. In the record one path was not full, so a second one brought"
        " little.</p>"
        "<p>Frames of 9000 bytes that one end does not take are no use: the value in effect is what"
        " preflight reports, whatever the device says.</p>"
    )


if __name__ == "__main__":
    page.record(OUT, measured, written)
