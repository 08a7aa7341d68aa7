"""Two hosts of our own and the way between them: a veth pair that is shaped, or the WAN lab."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lab import FULLBORE, ROOT, Missing, environment, run

# The pair is that of the other benchmarks. After our own folder: both have a lab.
sys.path.append(str(ROOT / "benchmarks"))

from veth import inside, pair

# The WAN lab ends by itself after so long.
LAB_S = 1800
# The port of `preflight net`, and its token.
PORT, TOKEN = 5999, "a network of our own"


@dataclass
class Hosts:
    """Names of namespaces, and the server's address; and the client's device."""

    client: str
    server: str
    server_address: str
    device: str
    # By each path, where there are several.
    server_addresses: tuple[str, ...] = ()
    lab: subprocess.Popen[str] | None = None

    def say(self, words: str) -> None:
        """What the WAN lab is to do: cut a path, mend it, lose a packet."""
        assert self.lab and self.lab.stdin
        self.lab.stdin.write(f"{words}\n")
        self.lab.stdin.flush()

    def set(self, host: str, name: str, value: str) -> None:
        """A kernel setting of one of the two."""
        run([*inside(host), "sh", "-c", f"echo {value} > /proc/sys/net/ipv4/{name}"])


@contextmanager
def shaped(rate: str | None) -> Iterator[Hosts]:
    """A veth pair, shaped at both ends."""
    with pair(rate, latency="50ms") as (server, client):
        yield Hosts(client.name, server.name, server.address, client.device)


@contextmanager
def wan(
    rtt_ms: float | str,
    rate_mbit: float | str = 0,
    queue_bytes: int | str = 4 << 20,
    loss: float | str = 0,
    mtu: int = 1500,
) -> Iterator[Hosts]:
    """The WAN lab: delay, and perhaps a rate with a queue before it, and loss. Numbers with commas
    make several paths."""
    program = ROOT / "target" / "release" / "fullbore-wan"
    if not program.exists():
        raise Missing("cargo build --release -p fullbore-testing --bin fullbore-wan")
    numbers = [str(number) for number in (rtt_ms, rate_mbit, queue_bytes, loss, LAB_S, mtu)]
    process = subprocess.Popen(
        [str(program), *numbers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin and process.stdout
    try:
        said = process.stdout.readline()
        if not said:
            raise Missing("the WAN lab does not start here: it needs root and /dev/net/tun")
        hosts = json.loads(said)
        every = tuple(hosts["far_addresses"])
        yield Hosts(hosts["near"], hosts["far"], hosts["far_address"], "wan0", every, process)
    finally:
        process.stdin.close()
        process.stdout.read()
        process.wait()


def preflight_net(hosts: Hosts, *options: str) -> dict:
    """What `preflight net` says of the way from the client to the server."""
    own = [str(FULLBORE), "preflight", "net"]
    address = f"{hosts.server_address}:{PORT}"
    env = environment() | {"FULLBORE_PREFLIGHT_TOKEN": TOKEN}
    listen = [*inside(hosts.server), *own, "--listen", address, "--once", "--json"]
    listener = subprocess.Popen(listen, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
    try:
        assert listener.stdout is not None
        listener.stdout.readline()
        measure = [*inside(hosts.client), *own, address, "--json", *options]
        done = subprocess.run(measure, capture_output=True, text=True, env=env)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-1500:])
        return json.loads(done.stdout)
    finally:
        listener.terminate()
        listener.wait()
