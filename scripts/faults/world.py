"""What all faults share: data, servers, a network, and what plain COPY makes of the data."""

from __future__ import annotations

import shutil
from contextlib import suppress

from data import COLUMNS, Data, made
from network import SECOND, SERVER, Network
from places import Missing
from server import Server, folder_for_servers

# With a minimal log what is new in its transaction is not logged; with the other all of it is.
LEVELS = {
    "minimal": {"wal_level": "minimal", "max_wal_senders": "0"},
    "replica": {"wal_level": "replica"},
}

# The schema of what trials compare with.
REFERENCE = "reference"

CHECKSUM = "SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {table} t"


class World:
    """Servers by their name, made when first asked for."""

    def __init__(self, megabytes: int, levels: tuple[str, ...] = tuple(LEVELS)) -> None:
        self.megabytes = megabytes
        self.levels = levels
        self.data = made(megabytes)
        self.folder = folder_for_servers()
        self.network: Network | None = None
        self.why_no_network = ""
        try:
            self.network = Network()
        except Missing as missing:
            self.why_no_network = str(missing)
        self._servers: dict[str, Server] = {}
        self._expected: dict[str, str] = {}

    def server(self, level: str) -> Server:
        """The server with this level of its log."""
        if level not in self._servers:
            # One of them listens on the network.
            is_first = level == self.levels[0]
            namespace = self.network.server if self.network and is_first else None
            address, also = (SERVER, (SECOND,)) if namespace else (None, ())
            server = Server(self.folder, level, LEVELS[level], namespace, address, also)
            self._servers[level] = server
        return self._servers[level]

    def expected(self, data: Data) -> str:
        """Count and checksum of what plain COPY makes of the good rows."""
        if data.name not in self._expected:
            server = self.server(self.levels[0])
            server.sql(f"DROP TABLE IF EXISTS plain; CREATE TABLE plain ({COLUMNS.format(key='')})")
            server.copy("plain", data.good_files)
            found = server.sql(CHECKSUM.format(table="plain"))
            server.sql("DROP TABLE plain")
            if int(found.split("|")[0]) != data.rows:
                raise RuntimeError(f"plain COPY loaded {found} of {data.rows} rows")
            self._expected[data.name] = found
        return self._expected[data.name]

    def bad_data(self) -> Data:
        """The same kind of data with rows that are to be rejected."""
        return made(self.megabytes, with_bad=True)

    def networked(self) -> Server:
        """The server that can be reached over the network."""
        if self.network is None:
            raise Missing(self.why_no_network)
        return self.server(self.levels[0])

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
        if self.network is not None:
            self.network.close()
        with suppress(OSError):
            shutil.rmtree(self.folder)
