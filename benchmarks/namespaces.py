"""A server in one network namespace, its clients in another, a veth pair between them.

The namespaces and the pair carry this process's id in their names; they are removed by these names
at the end, however that comes. The server has a data folder of its own, and listens on nothing but
its end of the pair.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lab import DATA, Failed, Missing, run_text
from server import Server

SERVER_ADDRESS, CLIENT_ADDRESS = "10.213.77.1", "10.213.77.2"
NETWORK = "10.213.77.0/30"
# A token bucket holds the largest packet that the kernel hands on in one piece, four times over.
BURST, LATENCY = "256kb", "20ms"


@contextmanager
def server_in_namespace(rate: str | None) -> Iterator[Server]:
    """A running server behind a link, shaped to the rate at both ends; Missing says why not."""
    server = _prepared()
    host, client = f"fb-server-{os.getpid()}", f"fb-client-{os.getpid()}"
    host_link, client_link = f"fbs{os.getpid()}", f"fbc{os.getpid()}"
    try:
        try:
            for name in (host, client):
                run_text(["ip", "netns", "add", name])
            pair = ["type", "veth", "peer", "name", client_link, "netns", client]
            run_text(["ip", "link", "add", host_link, "netns", host, *pair])
            _up(host, host_link, SERVER_ADDRESS, rate)
            _up(client, client_link, CLIENT_ADDRESS, rate)
        except Failed as error:
            raise Missing(f"no network namespaces here: {error}") from error
        server.prefix = ["ip", "netns", "exec", host]
        server.client_prefix = ["ip", "netns", "exec", client]
        server.start()
        server.url = f"postgresql://postgres@{SERVER_ADDRESS}:5432/postgres"
        yield server
    finally:
        with suppress(Failed):
            server.stop()
        for name in (host, client):
            # With its namespace goes an end of the pair, and the other end with that.
            with suppress(Failed):
                run_text(["ip", "netns", "del", name])


def _prepared() -> Server:
    """A data folder whose server, from its next start on, listens at its end of the pair."""
    if os.geteuid() != 0:
        raise Missing("network namespaces need root")
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed (Debian: apt-get install iproute2)")
    server = Server(DATA / "home-network")
    prepared = server.home / ".prepared"
    with suppress(Failed):
        server.stop()
    if prepared.exists():
        return server
    if server.home.exists():
        shutil.rmtree(server.home)
    server.start()
    try:
        # The first line that fits an address counts: the clients' network before all others.
        access = server.home / "data" / "pg_hba.conf"
        rules = access.read_text()
        with access.open("w") as out:
            out.write(f"host all postgres {NETWORK} trust\n{rules}")
        server.sql(f"ALTER SYSTEM SET listen_addresses = '{SERVER_ADDRESS}'")
    finally:
        server.stop()
    prepared.touch()
    return server


def _up(namespace: str, link: str, address: str, rate: str | None) -> None:
    inside = ["ip", "netns", "exec", namespace]
    run_text([*inside, "ip", "address", "add", f"{address}/30", "dev", link])
    run_text([*inside, "ip", "link", "set", "lo", "up"])
    run_text([*inside, "ip", "link", "set", link, "up"])
    if rate is not None:
        shape = ["tbf", "rate", rate, "burst", BURST, "latency", LATENCY]
        run_text([*inside, "tc", "qdisc", "add", "dev", link, "root", *shape])
