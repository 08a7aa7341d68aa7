"""The way to a server on another host: narrow, lossy, or with windows small for its length."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from lab import run
from links import Hosts, shaped, wan
from servers import Server
from trial import Load, Stage, kind, table

TARGET_SECONDS = 12.0
# COPY binary of lineitem is so many times its text.
BINARY = 1.7


@contextmanager
def _load(
    stage: Stage,
    draw: Random,
    hosts: Hosts,
    megabytes_per_second: float,
    streams: int,
    notes: dict[str, object],
) -> Iterator[Load]:
    """A load into a server at the far end, at about this rate on the wire."""
    as_text = draw.random() < 0.5
    server = Server(f"far-{hosts.server[-6:]}", host=(hosts.server, hosts.server_address))
    try:
        table(server)
        size = megabytes_per_second * TARGET_SECONDS / (1 if as_text else BINARY)
        options = ["--streams", str(streams), "--parsers", str(draw.choice((1, 2)))]
        options += ["--as-text"] if as_text else []
        prefix = ["ip", "netns", "exec", hosts.client]
        # One connection before: see capped_flow.
        run([*prefix, *server.psql("-c", "SELECT 1")[:-1], server.url])
        yield Load(server, stage.files(size), options, notes, prefix=prefix)
    finally:
        server.remove()


def _control(draw: Random, hosts: Hosts, *choices: str) -> str:
    control = draw.choice(choices)
    _route(hosts, "congctl", control)
    return control


def _route(hosts: Hosts, *metrics: str) -> None:
    """How the client reaches the server: what a namespace may not set, its routes may."""
    route = ["ip", "-n", hosts.client, "route", "replace", hosts.server_address]
    run([*route, "dev", hosts.device, *metrics])


@kind
def full_link(stage: Stage, draw: Random) -> Iterator[Load]:
    """A link that carries less than the load wants: a token bucket with a queue."""
    rate = draw.randint(60, 180)
    with shaped(f"{rate}mbit") as hosts:
        notes = {"megabits": rate, "control": _control(draw, hosts, "cubic", "reno")}
        with _load(stage, draw, hosts, rate / 8, draw.choice((1, 2, 4)), notes) as load:
            yield load


@kind
def full_wan(stage: Stage, draw: Random) -> Iterator[Load]:
    """A long way with a narrow place that has a queue."""
    rate, rtt = draw.randint(80, 200), draw.randint(10, 60)
    with wan(rtt, rate, queue_bytes=round(rate * 1e6 / 8 * rtt / 1e3)) as hosts:
        notes = {"megabits": rate, "rtt_ms": rtt}
        notes["control"] = _control(draw, hosts, "cubic", "reno")
        with _load(stage, draw, hosts, rate / 8 * 0.9, draw.choice((2, 4)), notes) as load:
            yield load


@kind
def lossy_wan(stage: Stage, draw: Random) -> Iterator[Load]:
    """A way that loses packets."""
    rtt, loss = draw.randint(10, 40), draw.uniform(0.003, 0.008)
    with wan(rtt, loss=loss) as hosts:
        notes = {"loss": loss, "rtt_ms": rtt, "control": _control(draw, hosts, "cubic", "reno")}
        streams = draw.choice((1, 2, 4))
        # Mathis, Semke, Mahdavi and Ott: a segment per round trip, over the root of the loss.
        each = 1448 / (rtt / 1e3) * 0.7 / loss**0.5 / 1e6
        with _load(stage, draw, hosts, each * streams, streams, notes) as load:
            yield load


@contextmanager
def _small_buffers(
    stage: Stage, draw: Random, setting: str, values: str, sizes: tuple[int, ...], divisor: float
) -> Iterator[Load]:
    """A host grants small buffers, for the length of the way: to receive into, the server's, or to
    send from, the client's. A round trip carries a size over ``divisor``."""
    rtt, size = draw.randint(20, 60), draw.choice(sizes)
    with wan(rtt) as hosts:
        host = hosts.server if setting == "tcp_rmem" else hosts.client
        hosts.set(host, setting, values.format(size))
        notes = {"rtt_ms": rtt, setting: size}
        notes["control"] = _control(draw, hosts, "cubic", "bbr")
        streams = draw.choice((1, 2, 4))
        rate = size / divisor / (rtt / 1e3) * streams / 1e6
        with _load(stage, draw, hosts, rate, streams, notes) as load:
            yield load


@kind
def small_receive_window(stage: Stage, draw: Random) -> Iterator[Load]:
    """The server's host grants small windows, for the length of the way."""
    sizes = (131072, 196608, 262144)
    with _small_buffers(stage, draw, "tcp_rmem", "4096 {0} {0}", sizes, 2) as load:
        yield load


@kind
def small_send_buffer(stage: Stage, draw: Random) -> Iterator[Load]:
    """The client's host grants small send buffers, for the length of the way."""
    sizes = (262144, 393216, 524288)
    with _small_buffers(stage, draw, "tcp_wmem", "4096 16384 {0}", sizes, 2.5) as load:
        yield load


@kind
def capped_flow(stage: Stage, draw: Random) -> Iterator[Load]:
    """Each connection may have so many packets on its way, without loss or queue."""
    rtt, segments = draw.randint(20, 60), draw.randint(40, 120)
    with wan(rtt) as hosts:
        _route(hosts, "congctl", "cubic", "cwnd", "lock", str(segments))
        # The kernel takes such a limit over with what it remembers of a way.
        hosts.set(hosts.client, "tcp_no_metrics_save", "0")
        notes = {"rtt_ms": rtt, "segments": segments}
        streams = draw.choice((1, 2, 4))
        rate = segments * 1448 / (rtt / 1e3) * streams / 1e6
        with _load(stage, draw, hosts, rate, streams, notes) as load:
            yield load
