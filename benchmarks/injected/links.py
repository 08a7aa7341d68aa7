"""Two hosts of our own and the way between them: a veth pair that is shaped, or the WAN lab."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from lab import ROOT, Failed, Missing, run

SERVER_ADDRESS, CLIENT_ADDRESS = "10.213.79.1", "10.213.79.2"


@dataclass
class Hosts:
    """Names of namespaces, and the server's address; and the client's device."""

    client: str
    server: str
    server_address: str
    device: str

    def set(self, host: str, name: str, value: str) -> None:
        """A kernel setting of one of the two."""
        run(["ip", "netns", "exec", host, "sh", "-c", f"echo {value} > /proc/sys/net/ipv4/{name}"])


@contextmanager
def veth(rate: str | None) -> Iterator[Hosts]:
    """A veth pair, shaped at both ends."""
    if os.geteuid() != 0:
        raise Missing("network namespaces need root")
    names = (f"fbi-server-{os.getpid()}", f"fbi-client-{os.getpid()}")
    links = (f"fbs{os.getpid()}", f"fbc{os.getpid()}")
    try:
        try:
            for name in names:
                run(["ip", "netns", "add", name])
            link = ["ip", "link", "add", links[0], "netns", names[0], "type", "veth"]
            run([*link, "peer", "name", links[1], "netns", names[1]])
            ends = zip(names, links, (SERVER_ADDRESS, CLIENT_ADDRESS), strict=True)
            for name, link_name, address in ends:
                end = ["ip", "-n", name]
                run([*end, "address", "add", f"{address}/30", "dev", link_name])
                run([*end, "link", "set", "lo", "up"])
                run([*end, "link", "set", link_name, "up"])
                if rate is not None:
                    shape = ["tbf", "rate", rate, "burst", "256kb", "latency", "50ms"]
                    run(["tc", "-n", name, "qdisc", "add", "dev", link_name, "root", *shape])
        except (Failed, FileNotFoundError) as error:
            raise Missing(f"no network namespaces here: {error}") from error
        yield Hosts(names[1], names[0], SERVER_ADDRESS, links[1])
    finally:
        for name in names:
            with suppress(Failed):
                run(["ip", "netns", "del", name])


@contextmanager
def wan(
    rtt_ms: float, rate_mbit: float = 0, queue_bytes: int = 4 << 20, loss: float = 0
) -> Iterator[Hosts]:
    """The WAN lab: delay, and perhaps a rate with a queue before it, and loss."""
    program = ROOT / "target" / "release" / "fullbore-wan"
    if not program.exists():
        raise Missing("cargo build --release -p fullbore-testing --bin fullbore-wan")
    numbers = [str(number) for number in (rtt_ms, rate_mbit, queue_bytes, loss)]
    process = subprocess.Popen(
        [str(program), *numbers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin and process.stdout
    try:
        said = process.stdout.readline()
        if not said:
            raise Missing("the WAN lab does not start here: it needs root and /dev/net/tun")
        hosts = json.loads(said)
        yield Hosts(hosts["near"], hosts["far"], hosts["far_address"], "wan0")
    finally:
        process.stdin.close()
        process.stdout.read()
        process.wait()
