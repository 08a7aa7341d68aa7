"""A server in one network namespace, its clients in another, a veth pair between them.

The server has a data folder of its own, and listens on nothing but its end of the pair.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lab import DATA, Failed
from server import Server
from veth import NETWORK, SERVER_ADDRESS, inside, pair


@contextmanager
def server_in_namespace(rate: str | None) -> Iterator[Server]:
    """A running server behind a link, shaped to the rate at both ends; Missing says why not."""
    with pair(rate) as (host, client):
        server = _prepared()
        server.prefix = inside(host.name)
        server.client_prefix = inside(client.name)
        try:
            server.start()
            server.url = f"postgresql://postgres@{SERVER_ADDRESS}:5432/postgres"
            yield server
        finally:
            with suppress(Failed):
                server.stop()


def _prepared() -> Server:
    """A data folder whose server, from its next start on, listens at its end of the pair."""
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
