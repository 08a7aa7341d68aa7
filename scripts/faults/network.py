"""A server's namespace, clients' namespaces, and a link between them that can be broken.

All names carry this process's id and are removed by these names. Packets are dropped by giving a
neighbour the wrong hardware address, which every kernel can do: what is sent then goes to nobody.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from places import Failed, Missing, output_of

NETWORK = "10.213.78"
SERVER = f"{NETWORK}.1"
# A second path, which the first client has.
SECOND = "10.213.79.1"
SECOND_CLIENT = "10.213.79.10"
NOBODY = "02:00:00:00:00:99"


class Network:
    """A bridge with the server on one side and `clients` hosts on the other."""

    def __init__(self, clients: int = 1) -> None:
        if os.geteuid() != 0:
            raise Missing("network namespaces need root")
        for program in ("ip", "nsenter"):
            if shutil.which(program) is None:
                raise Missing(f"{program} is not installed (Debian: iproute2, util-linux)")
        pid = os.getpid()
        self.server = f"fbfs-{pid}"
        self.clients = [f"fbfc{n}-{pid}" for n in range(clients)]
        self.links = [f"fbc{n}x{pid}" for n in range(clients)]
        self.server_ends = [f"fbs{n}x{pid}" for n in range(clients)]
        self.addresses = [f"{NETWORK}.{10 + n}" for n in range(clients)]
        try:
            self._make()
        except Failed as error:
            self.close()
            raise Missing(f"no network namespaces here: {error}") from error

    def _make(self) -> None:
        for name in (self.server, *self.clients):
            output_of(["ip", "netns", "add", name])
        self.inside(self.server, "ip", "link", "set", "lo", "up")
        self.inside(self.server, "ip", "link", "add", "hub", "type", "bridge")
        self.inside(self.server, "ip", "address", "add", f"{SERVER}/24", "dev", "hub")
        self.inside(self.server, "ip", "link", "set", "hub", "up")
        for n, client in enumerate(self.clients):
            pair = ["type", "veth", "peer", "name", self.links[n], "netns", client]
            end = self.server_ends[n]
            output_of(["ip", "link", "add", end, "netns", self.server, *pair])
            self.inside(self.server, "ip", "link", "set", end, "master", "hub", "up")
            self.inside(client, "ip", "link", "set", "lo", "up")
            self.inside(client, "ip", "link", "set", self.links[n], "up")
            self.inside(client, "ip", "address", "add", f"{self.addresses[n]}/24",
                        "dev", self.links[n])  # fmt: skip
        pair = ["type", "veth", "peer", "name", "second", "netns", self.clients[0]]
        output_of(["ip", "link", "add", "second", "netns", self.server, *pair])
        for namespace, address in ((self.server, SECOND), (self.clients[0], SECOND_CLIENT)):
            self.inside(namespace, "ip", "address", "add", f"{address}/24", "dev", "second")
            self.inside(namespace, "ip", "link", "set", "second", "up")

    @staticmethod
    def inside(namespace: str, *command: str) -> str:
        return output_of(["ip", "netns", "exec", namespace, *command])

    def prefix(self, client: int = 0) -> list[str]:
        """What stands before a client's command."""
        return ["ip", "netns", "exec", self.clients[client]]

    def down(self, client: int = 0) -> None:
        """Takes the link down at the server's side; both ends see it."""
        self.inside(self.server, "ip", "link", "set", self.server_ends[client], "down")

    def drop(self, client: int = 0, to_server: bool = True, to_client: bool = True) -> None:
        """Lets packets vanish; the link stays up, and nobody is told."""
        if to_server:
            self._misdirect(self.clients[client], SERVER, self.links[client])
        if to_client:
            self._misdirect(self.server, self.addresses[client], "hub")

    def drop_second(self) -> None:
        """The same on the second path."""
        self._misdirect(self.clients[0], SECOND, "second")
        self._misdirect(self.server, SECOND_CLIENT, "second")

    def _misdirect(self, namespace: str, address: str, device: str) -> None:
        self.inside(namespace, "ip", "neighbour", "replace", address, "lladdr", NOBODY,
                    "nud", "permanent", "dev", device)  # fmt: skip

    def move(self, client: int = 0) -> None:
        """Gives the client another address: what it had open is open at the server's side only."""
        old, link = self.addresses[client], self.links[client]
        host = int(old.rpartition(".")[2])
        new = f"{NETWORK}.{10 + (host - 10 + 20) % 200}"
        self.inside(self.clients[client], "ip", "address", "flush", "dev", link)
        self.inside(self.clients[client], "ip", "address", "add", f"{new}/24", "dev", link)
        self.addresses[client] = new

    def mend(self, client: int = 0) -> None:
        """Everything goes through again."""
        self.inside(self.server, "ip", "link", "set", self.server_ends[client], "up")
        ways = [(self.clients[client], self.links[client]), (self.server, "hub")]
        ways += [(self.clients[0], "second"), (self.server, "second")]
        for namespace, device in ways:
            self.inside(namespace, "ip", "neighbour", "flush", "nud", "permanent", "dev", device)
            self.inside(namespace, "ip", "neighbour", "flush", "dev", device)

    def close(self) -> None:
        for name in (self.server, *self.clients):
            # With its namespace goes an end of the pair, and the other end with that.
            with suppress(Failed):
                output_of(["ip", "netns", "del", name])
