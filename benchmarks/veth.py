"""Two hosts of our own making: two network namespaces and a veth pair between them.

The namespaces and the pair carry this process's id in their names; they are removed by these names
at the end, however that comes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab import Missing

NETWORK = "10.213.77.0/30"
SERVER_ADDRESS, CLIENT_ADDRESS = "10.213.77.1", "10.213.77.2"
# A token bucket holds the largest packet that the kernel hands on in one piece, four times over.
BURST = "256kb"


@dataclass(frozen=True)
class Host:
    """A namespace, and its end of the pair."""

    name: str
    device: str
    address: str


def inside(namespace: str) -> list[str]:
    """What stands before a command of this namespace."""
    return ["ip", "netns", "exec", namespace]


def received_bytes(pid: int, device: str) -> int:
    """What the device has received so far, as the kernel counts it in this process's namespace."""
    with Path(f"/proc/{pid}/net/dev").open() as devices:
        for line in devices:
            name, _, counters = line.partition(":")
            if name.strip() == device:
                return int(counters.split()[0])
    raise Missing(f"no device {device} in the namespace of process {pid}")


@contextmanager
def pair(rate: str | None, latency: str = "20ms") -> Iterator[tuple[Host, Host]]:
    """The server's and the client's host, their pair shaped to the rate at both ends, with a queue
    of so many milliseconds; Missing says why not."""
    if os.geteuid() != 0:
        raise Missing("network namespaces need root")
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed (Debian: apt-get install iproute2)")
    pid = os.getpid()
    server = Host(f"fb-server-{pid}", f"fbs{pid}", SERVER_ADDRESS)
    client = Host(f"fb-client-{pid}", f"fbc{pid}", CLIENT_ADDRESS)
    shape = ["tbf", "rate", str(rate), "burst", BURST, "latency", latency]
    try:
        for host in (server, client):
            _make(["ip", "netns", "add", host.name])
        link = ["ip", "link", "add", server.device, "netns", server.name, "type", "veth"]
        _make([*link, "peer", "name", client.device, "netns", client.name])
        for host in (server, client):
            end = ["ip", "-n", host.name]
            _make([*end, "address", "add", f"{host.address}/30", "dev", host.device])
            _make([*end, "link", "set", "lo", "up"])
            _make([*end, "link", "set", host.device, "up"])
            if rate is not None:
                _make(["tc", "-n", host.name, "qdisc", "add", "dev", host.device, "root", *shape])
        yield server, client
    finally:
        for host in (server, client):
            # With its namespace goes an end of the pair, and the other end with that.
            subprocess.run(["ip", "netns", "del", host.name], capture_output=True, check=False)


def _make(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = f"{' '.join(command[:4])}: {done.stderr.strip()}"
        raise Missing(f"no network namespaces here: {said}")
