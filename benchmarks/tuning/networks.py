"""What a load makes of networks: `--compress auto`, `--max-rate`, `--polite`, 180 ms of distance.

    python benchmarks/tuning/networks.py --out FOLDER [--only PART] [--blocks 2] [--rtt MS]

Parts are compress, text, rate, polite and far; with --rtt, compress takes only links so far away.

All of it over the WAN lab; needs root, and iperf3 for `polite`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "injected"))

from files import Files, carried_out
from lab import FULLBORE, SCRATCH, lineitem
from links import Hosts, inside, preflight_net, wan
from servers import Server
from trial import DIRECT, PARTITIONS, Stage, table

# Round trips in ms, and Mb/s.
LINKS = ((2, 50), (2, 100), (2, 300), (20, 100), (90, 200), (180, 400))
SECONDS, SECONDS_AUTO = 12.0, 45.0
COPY = ("--table", "lineitem", "--method", "copy")


@dataclass
class Far:
    """A server at the far end, and what is loaded into it."""

    stage: Stage
    hosts: Hosts
    server: Server
    number: int = 0

    def load(self, megabytes: float, *options: str, timeout: float = 400) -> dict:
        """Loads so much; the summary, with the rate of its load phase in MB/s, and the record."""
        self.number += 1
        home = SCRATCH / f"home-{self.hosts.server}-{self.number}"
        self.server.sql("DROP TABLE IF EXISTS lineitem CASCADE")
        if "--partition-by" not in options:
            table(self.server)
        command = ["ip", "netns", "exec", self.hosts.client, str(FULLBORE), "load", "--json"]
        command += [
            "--statistics=none",
            "--no-ledger",
            "--to",
            self.server.url,
            "--format",
            "tbl",
            *options,
        ]
        if "--partition-by" in options:
            # Partitions hold each key once.
            files = lineitem("4", 256)[: max(2, round(megabytes / 11.9))]
        else:
            files = Files(self.stage).of(megabytes)
        return carried_out(command, files, home, timeout)


def sent_rate(done: dict, begin: float, end: float) -> float:
    """What the sockets of a load carried, in MB/s, without its first and its last seconds. What was
    lost and sent again counts once."""
    seen = []
    for event in done["events"]:
        if event["event"] == "observed":
            sockets = [stream.get("socket") or {} for stream in event["observation"]["streams"]]
            carried = sum(s.get("sent_bytes", 0) - s.get("resent_bytes", 0) for s in sockets)
            seen.append((event["at"], carried))
    inside = [(at, sent) for at, sent in seen if begin <= at <= seen[-1][0] - end]
    (first, before), (last, after) = inside[0], inside[-1]
    return (after - before) / (last - first) / 1e6


@contextmanager
def far(stage: Stage, rtt_ms: float, megabits: float, queue_s: float = 0.02) -> Iterator[Far]:
    """A server so far away; the queue before the link is a round trip long, or so many seconds."""
    queue = round(megabits * 1e6 / 8 * max(queue_s, rtt_ms / 1e3))
    with wan(rtt_ms, megabits, queue_bytes=max(queue, 250_000)) as hosts:
        # Hundreds of partitions are dropped at once.
        server = Server(
            f"far-{hosts.server[-8:]}",
            settings={"max_locks_per_transaction": "4096"},
            host=(hosts.server, hosts.server_address),
        )
        try:
            server.sql("CREATE EXTENSION IF NOT EXISTS fullbore")
            yield Far(stage, hosts, server)
        finally:
            server.remove()


def compress(stage: Stage, blocks: int, keep, links: tuple = LINKS) -> None:
    """`auto` against each fixed choice, over six links."""
    draw = Random(3)
    for rtt, megabits in links:
        rates: dict[str, list[float]] = {name: [] for name in ("none", "lz4", "zstd", "auto")}
        with far(stage, rtt, megabits) as there:
            # Laid out, a row of lineitem is 1.3 times its text; what codecs leave of it.
            guess = {"none": 1.3, "lz4": 0.75, "zstd": 0.45, "auto": 0.45}
            for block in range(blocks):
                for name in draw.sample(list(rates), len(rates)):
                    seconds = SECONDS_AUTO if name == "auto" else SECONDS
                    megabytes = min(megabits / 8 / guess[name] * seconds, 3000)
                    options = ["--table", "lineitem", *PARTITIONS, *DIRECT, "--compress", name]
                    options += ["--streams", "8", "--piece-size", "8MB"]
                    done = there.load(megabytes, *options)
                    changes = [
                        (round(e["at"], 1), e["form"])
                        for e in done["events"]
                        if e["event"] == "form_changed"
                    ]
                    rates[name].append(done["rate"])
                    keep(part="compress", rtt_ms=rtt, megabits=megabits, block=block, codec=name,
                         rate=done["rate"], seconds=done["load_s"], changes=changes,
                         limit=done["verdict"]["limit"])  # fmt: skip
        mean = {name: round(statistics.mean(found), 2) for name, found in rates.items()}
        best = max(found for name, found in mean.items() if name != "auto")
        of_best, of_none = mean["auto"] / best, mean["auto"] / mean["none"]
        print(f"{rtt} ms, {megabits} Mb/s: {mean}", flush=True)
        print(f"    auto {of_best:.3f} of the best, {of_none:.2f} x none", flush=True)


def text(stage: Stage, blocks: int, keep) -> None:
    """COPY at 100 Mb/s: binary, as text, and `auto`."""
    rates: dict[str, list[float]] = {"none": [], "text": [], "auto": []}
    with far(stage, 2, 100) as there:
        for block in range(blocks):
            for name in rates:
                options = {"none": ["--compress", "none"], "text": ["--as-text"], "auto": []}[name]
                megabytes = (
                    7 * SECONDS if name == "none" else 11 * SECONDS * (2 if name == "auto" else 1)
                )
                done = there.load(
                    megabytes, *COPY, "--streams", "8", "--piece-size", "8MB", *options
                )
                rates[name].append(done["rate"])
                keep(part="text", block=block, form=name, rate=done["rate"], seconds=done["load_s"])
    print({name: round(statistics.mean(found), 2) for name, found in rates.items()}, flush=True)


def rate(stage: Stage, blocks: int, keep) -> None:
    """`--max-rate` against what the sockets sent in the middle of a load."""
    with far(stage, 2, 400) as there:
        for wanted in (2, 8, 25):
            for streams in (1, 8):
                done = there.load(
                    wanted / 1.7 * 15, *COPY, "--compress", "none", "--streams", str(streams),
                    "--max-rate", f"{wanted}MB/s", "--piece-size", "2MB",
                )  # fmt: skip
                sent = sent_rate(done, 3, 2)
                keep(part="rate", wanted=wanted, streams=streams, sent=sent)
                print(
                    f"--max-rate {wanted}MB/s, {streams} streams: {sent / wanted:.3f} of it",
                    flush=True,
                )


def polite(stage: Stage, blocks: int, keep) -> None:
    """A flow of iperf3 beside a load of 8 streams, with and without manners; and the load alone."""
    for rtt, megabits in ((20, 100), (60, 100)):
        shares: dict[str, list[float]] = {"plain": [], "polite": []}
        with far(stage, rtt, megabits) as there:
            base = [*COPY, "--compress", "none", "--streams", "8", "--piece-size", "4MB"]
            for block in range(blocks):
                for name in shares:
                    more = ["--polite"] if name == "polite" else []
                    megabytes = megabits / 8 / 1.7 * (40 if name == "plain" else 8)
                    server = subprocess.Popen(
                        [*inside(there.hosts.server), "iperf3", "-s", "-1"],
                        stdout=subprocess.DEVNULL,
                    )
                    time.sleep(0.5)
                    client = [*inside(there.hosts.client), "iperf3", "-t", "25", "-O", "8", "-J"]
                    client += ["-c", there.hosts.server_address]
                    flow = subprocess.Popen(client, stdout=subprocess.PIPE, text=True)
                    done = there.load(megabytes, *base, *more)
                    said = json.loads(flow.communicate()[0])
                    server.wait()
                    carried = said["end"]["sum_received"]["bits_per_second"] / 1e6
                    shares[name].append(carried / megabits)
                    network = done["verdict"].get("network")
                    keep(part="polite", rtt_ms=rtt, load=name, block=block, flow=carried / megabits,
                         rate=done["rate"], seconds=done["load_s"], network=network)  # fmt: skip
            alone = {}
            for name, more in (("plain", []), ("polite", ["--polite"])):
                done = there.load(megabits / 8 / 1.7 * 20, *base, *more)
                alone[name] = done["rate"]
                keep(
                    part="polite alone",
                    rtt_ms=rtt,
                    load=name,
                    rate=done["rate"],
                    network=done["verdict"].get("network"),
                )
        mean = {name: round(statistics.mean(found), 3) for name, found in shares.items()}
        ratio = alone["polite"] / alone["plain"]
        print(f"{rtt} ms: the flow had {mean} of the link", flush=True)
        print(f"{rtt} ms: alone, a polite load has {ratio:.2f} of a plain one", flush=True)


def distant(stage: Stage, blocks: int, keep) -> None:
    """180 ms away: the load beside what `preflight net` measures on the same path."""
    with far(stage, 180, 400) as there:
        for block in range(blocks):
            report = preflight_net(there.hosts, "--streams", "32", "--seconds", "30")
            found = report["cells"][0]["bytes_per_second"] / 1e6
            done = there.load(
                30 * 60, *COPY, "--streams", "32", "--piece-size", "8MB", "--compress", "none"
            )
            sent = sent_rate(done, 10, 8)
            keep(part="far", block=block, preflight=found, sent=sent, rate=done["rate"])
            print(
                f"180 ms: preflight {found:.1f} MB/s, the load {sent:.1f}: {sent / found:.3f}",
                flush=True,
            )


PARTS = {"compress": compress, "text": text, "rate": rate, "polite": polite, "far": distant}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", action="append", choices=list(PARTS))
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--rtt", type=float, action="append", help="ms of a link of `compress`")
    args = parser.parse_args()
    links = tuple(link for link in LINKS if not args.rtt or link[0] in args.rtt)
    args.out.mkdir(parents=True, exist_ok=True)
    stage = Stage()

    def keep(**line: object) -> None:
        with (args.out / "networks.jsonl").open("a") as out:
            out.write(json.dumps(line) + "\n")
        print(f"  {line}", flush=True)

    try:
        parts = PARTS | {"compress": partial(compress, links=links)}
        for name in args.only or parts:
            parts[name](stage, args.blocks, keep)
    finally:
        stage.end()
        shutil.rmtree(SCRATCH, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
