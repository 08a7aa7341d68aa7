"""`fullbore preflight net` beside iperf3 over a veth pair, and its prediction over the WAN lab."""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from lab import FULLBORE, ROOT, Failed, Missing, environment, run_text
from veth import SERVER_ADDRESS, inside, pair, received_bytes

MEGABYTE = 1e6
PORT = 5201
TOKEN = "a token for two namespaces of ours"
# The rate of the link, what both write at a time (iperf3: 128 KiB), and the window that both
# ask for. Where the link is the limit, it is no matter what is written at a time; where processors
# are, the kernel's own window wanders, and a fixed one gives both the same to do.
CASES = [
    (None, 128 << 10, "auto"),
    (None, 1 << 20, "auto"),
    (None, 1 << 20, "256k"),
    ("1gbit", 128 << 10, "auto"),
    ("100mbit", 128 << 10, "auto"),
]
STREAMS = [1, 4]
ROUND_TRIPS_MS = [10, 90, 180]
# The kernel's own window, and one that is the limit at short round trips too.
WINDOWS = ["auto", "256k", "1M"]
# How often the link's own counter is read, and what part of its best interval an interval has to
# carry to be one of the measurement, not of its beginning or end.
LOOK_SECONDS = 0.1
BUSY_SHARE = 0.5

Keep = Callable[[dict[str, object]], None]
Figures = dict[str, float]


def veth(args: argparse.Namespace, keep: Keep) -> list[str]:
    """Both over one pair, shaped and not."""
    if shutil.which("iperf3") is None:
        raise Missing("iperf3 is not installed (Debian: apt-get install iperf3)")
    lines = [
        "CPU is of both ends together, in s/GB. The last two columns are each one's rate over what"
        " the kernel counted on the link meanwhile.\n",
        "| link | message KiB | window | streams | ours MB/s | iperf3 MB/s | ours / iperf3"
        " | ours CPU | iperf3 CPU | ours / link | iperf3 / link |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for rate, message, window in CASES:
        with pair(rate) as (host, client):
            for streams in STREAMS:
                way = Way(rate, host.name, client.name, host.device, streams, message, window)
                lines.append(_beside(args, keep, way))
                print(lines[-1], flush=True)
    return lines


@dataclass(frozen=True)
class Way:
    """A link, the namespaces at its ends, and how bytes are sent over it."""

    rate: str | None
    host: str
    client: str
    # The host's end of the link.
    device: str
    streams: int
    message: int
    window: str


@dataclass
class Link:
    """What the link's own counter says while somebody measures: who measures is not asked."""

    device: str
    # Of a process in the namespace of the device.
    pid: int
    rates: list[float] = field(default_factory=list)

    @contextmanager
    def watched(self) -> Iterator[None]:
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(over,))
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def _watch(self, over: threading.Event) -> None:
        at, before = time.monotonic(), received_bytes(self.pid, self.device)
        while not over.wait(LOOK_SECONDS):
            now, count = time.monotonic(), received_bytes(self.pid, self.device)
            self.rates.append((count - before) / (now - at))
            at, before = now, count

    def rate(self) -> float:
        """Bytes per second, headers included, in the middle one of the intervals that were busy."""
        busy = max(self.rates) * BUSY_SHARE
        return statistics.median(rate for rate in self.rates if rate >= busy)


def _beside(args: argparse.Namespace, keep: Keep, way: Way) -> str:
    ours: list[Figures] = []
    theirs: list[Figures] = []
    for repeat in range(args.repeats):
        if repeat % 2:
            theirs.append(iperf3(args, way))
            ours.append(our_rate(args, way))
        else:
            ours.append(our_rate(args, way))
            theirs.append(iperf3(args, way))
        keep(
            {"part": "net", "link": way.rate, "message": way.message, "window": way.window}
            | {"streams": way.streams, "repeat": repeat, "ours": ours[-1], "iperf3": theirs[-1]}
        )
    ratios = [our["rate"] / their["rate"] for our, their in zip(ours, theirs, strict=True)]
    cells = [
        f"{_median(ours, 'rate') / MEGABYTE:.1f}",
        f"{_median(theirs, 'rate') / MEGABYTE:.1f}",
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})",
        f"{_median(ours, 'cpu'):.3f}",
        f"{_median(theirs, 'cpu'):.3f}",
        _of_link(ours),
        _of_link(theirs),
    ]
    link = way.rate or "unshaped"
    setting = [link, str(way.message >> 10), way.window, str(way.streams)]
    return f"| {' | '.join(setting + cells)} |"


def _median(runs: list[Figures], figure: str) -> float:
    return statistics.median(run[figure] for run in runs)


def _of_link(runs: list[Figures]) -> str:
    shares = [run["rate"] / run["link_rate"] for run in runs]
    return f"{statistics.median(shares):.2f} ({min(shares):.2f}-{max(shares):.2f})"


def our_rate(args: argparse.Namespace, way: Way) -> Figures:
    """The steady rate and CPU of both ends by ours."""
    options = ["--streams", str(way.streams), "--message", str(way.message)]
    options += ["--window", way.window]
    with listening(way.host, SERVER_ADDRESS) as listener:
        link = Link(way.device, listener.pid)
        with link.watched():
            report = measure(args, way.client, SERVER_ADDRESS, options)
    cell = report["cells"][0]
    cpu = cell["send_cpu_seconds_per_gigabyte"] + cell["receive_cpu_seconds_per_gigabyte"]
    return {"rate": cell["bytes_per_second"], "cpu": cpu, "link_rate": link.rate()}


@contextmanager
def listening(host: str, address: str) -> Iterator[subprocess.Popen]:
    """A listener of ours in this namespace, for one measurement."""
    command = [*inside(host), str(FULLBORE), "preflight", "net", "--listen", f"{address}:{PORT}"]
    listener = subprocess.Popen(
        [*command, "--once", "--for", "300", "--json"],
        env=environment(FULLBORE_PREFLIGHT_TOKEN=TOKEN),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert listener.stdout is not None
        if not listener.stdout.readline():
            raise Failed("the listener does not listen")
        yield listener
    finally:
        with suppress(subprocess.TimeoutExpired):
            listener.wait(10)
        if listener.returncode is None:
            listener.kill()
            listener.wait()


def measure(args: argparse.Namespace, client: str, address: str, options: list[str]) -> dict:
    """The report of who sends from this namespace to the listener at this address."""
    command = [*inside(client), str(FULLBORE), "preflight", "net", f"{address}:{PORT}", "--json"]
    command += ["--seconds", str(args.seconds), *options]
    return json.loads(run_text(command, env=environment(FULLBORE_PREFLIGHT_TOKEN=TOKEN)))


def iperf3(args: argparse.Namespace, way: Way) -> Figures:
    """The same by iperf3: what was received, and CPU of both ends."""
    server = subprocess.Popen(
        [*inside(way.host), "iperf3", "-s", "-1", "-B", SERVER_ADDRESS, "--forceflush"],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        while line := server.stdout.readline():
            if "listening" in line:
                break
        command = [*inside(way.client), "iperf3", "-c", SERVER_ADDRESS, "-J"]
        command += ["-P", str(way.streams), "-l", str(way.message)]
        if way.window != "auto":
            command += ["-w", way.window]
        command += ["-t", str(round(args.seconds))]
        link = Link(way.device, server.pid)
        with link.watched():
            end = json.loads(run_text(command))["end"]
    finally:
        # It ends after one client; if that failed, it has to be ended.
        with suppress(subprocess.TimeoutExpired):
            server.communicate(timeout=10)
        if server.returncode is None:
            server.kill()
            server.wait()
    received = end["sum_received"]
    gigabytes = received["bytes"] / 1e9
    percent = end["cpu_utilization_percent"]
    seconds = end["sum_sent"]["seconds"]
    return {
        "rate": received["bits_per_second"] / 8,
        "cpu": (percent["host_total"] + percent["remote_total"]) / 100 * seconds / gigabytes,
        "link_rate": link.rate(),
    }


def wan(args: argparse.Namespace, keep: Keep) -> list[str]:
    """The cap that is predicted for one stream beside what it does."""
    build = ["cargo", "build", "--release", "--quiet", "-p", "fullbore-testing"]
    run_text([*build, "--manifest-path", str(ROOT / "Cargo.toml"), "--bin", "fullbore-wan"])
    lines = [
        "One stream, the link without a limit of its own.\n",
        "| round trip ms | window | control | predicted MB/s | measured MB/s | measured / predicted"
        " | window used MB | limit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for rtt in ROUND_TRIPS_MS:
        for window in WINDOWS:
            lines.append(_predicted(args, keep, rtt, window))
            print(lines[-1], flush=True)
    return lines


def _predicted(args: argparse.Namespace, keep: Keep, rtt: int, window: str) -> str:
    cells = []
    for repeat in range(args.repeats):
        with lab(rtt) as hosts:
            options = ["--streams", "1", "--window", window, "--congestion", "cubic"]
            # Long enough that the ramp is over: it takes ten round trips and more.
            seconds = max(args.seconds, 40 * rtt / 1e3)
            longer = argparse.Namespace(**(vars(args) | {"seconds": seconds}))
            with listening(hosts["far"], hosts["far_address"]):
                report = measure(longer, hosts["near"], hosts["far_address"], options)
        cells.append(report["cells"][0])
        keep(
            {"part": "wan", "rtt_ms": rtt, "window": window, "repeat": repeat}
            | {"lines": hosts["lines"], "report": report}
        )
    measured = [cell["bytes_per_second"] for cell in cells]
    predicted = [cell["predicted_stream_bytes_per_second"] for cell in cells]
    ratios = [has / should for has, should in zip(measured, predicted, strict=True)]
    stream = cells[-1]["each"][0]
    figures = [
        f"{statistics.median(predicted) / MEGABYTE:.2f}",
        f"{statistics.median(measured) / MEGABYTE:.2f}",
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})",
        f"{stream['window_used_bytes'] / MEGABYTE:.2f}",
        stream["limit"],
    ]
    return f"| {rtt} | {window} | {cells[-1]['congestion']} | {' | '.join(figures)} |"


@contextmanager
def lab(rtt_ms: float) -> Iterator[dict]:
    """A WAN lab: its hosts, and once it is left what its lines have counted."""
    program = ROOT / "target" / "release" / "fullbore-wan"
    process = subprocess.Popen(
        [str(program), str(rtt_ms)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout and process.stderr
    said = process.stdout.readline()
    if not said:
        raise Missing(process.stderr.read().strip())
    hosts = json.loads(said)
    hosts["lines"] = []
    try:
        yield hosts
    finally:
        process.stdin.close()
        hosts["lines"] += [json.loads(line) for line in process.stdout]
        process.wait()
