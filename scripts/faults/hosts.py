"""Three hosts, each in a network namespace of its own, load one table together: one of them is
killed and goes on, and the rows are shown once.

    python scripts/faults/hosts.py
"""

from __future__ import annotations

import random
import shutil
import signal
import sys
from pathlib import Path

import checks
from data import Data, made
from load import LOADED, Command, record_of
from network import SERVER, Network
from places import Missing, Wrong
from server import Server, folder_for_servers
from trial import clean
from ways import TARGET, WAYS, Way
from world import CHECKSUM

HOSTS = 3


class Host:
    """A namespace, a state folder, and its share of the files."""

    def __init__(self, number: int, folder: Path, network: Network, data: Data) -> None:
        self.part = f"{number + 1}/{HOSTS}"
        self.home = folder / f"host-{number}" / "home"
        self.home.mkdir(parents=True)
        self.prefix = network.prefix(number)
        self.files = data.files[number::HOSTS]

    def load(self, server: Server, way: Way, resume: bool = False) -> Command:
        arguments = ["load", *map(str, self.files), "--to", server.network_url, "--table", TARGET]
        arguments += ["--header", "none", "--streams", "2", "--part", self.part]
        arguments += [*way.options(atomic=False), *(["--resume"] if resume else [])]
        return Command(self.home, arguments, self.prefix)


def together(server: Server, hosts: list[Host], way: Way, data: Data, expected: str) -> None:
    """All hosts at once; one is killed in the middle of its part."""
    clean(server)
    server.sql(way.make())
    for host in hosts:
        # Records of loads before are no sign of this one.
        shutil.rmtree(host.home)
        host.home.mkdir()
    loads = [host.load(server, way) for host in hosts]
    victim = random.Random(way.name).randrange(HOSTS)
    # Once it has begun to send, and before it can have ended.
    while not any(e.get("event") == "sample" for e in record_of(hosts[victim].home)):
        if loads[victim].has_ended():
            break
    loads[victim].send(signal.SIGKILL)
    for number, load in enumerate(loads):
        ended = load.end()
        wanted = {-signal.SIGKILL, LOADED} if number == victim else {LOADED}
        checks.require(ended.code in wanted, f"host {number}: {ended.code}: {ended.said}")
    shown = server.sql(f"SELECT count(*) FROM {TARGET}")
    is_whole = server.sql(checks.RUNS) == f"finished|{HOSTS}"
    if way.publish != "append" and not is_whole:
        checks.require(shown == "0", f"{shown} rows are shown before all parts are loaded")
    ended = hosts[victim].load(server, way, resume=True).end()
    checks.require(ended.code == LOADED, f"the resume: {ended.code}: {ended.said}")
    runs = server.sql(checks.RUNS)
    checks.require(runs == f"finished|{HOSTS}", f"the ledger has runs {runs.split()!r}")
    found = server.sql(CHECKSUM.format(table=TARGET))
    checks.require(found == expected, f"count|checksum are {found}, plain COPY's {expected}")
    checks.no_strays(server)
    rows, size, _ = server.sql(checks.PIECES).split("|")
    checks.require((int(rows), int(size)) == (data.rows, data.bytes), f"pieces: {rows}, {size}")
    again = hosts[victim].load(server, way, resume=True).end()
    checks.require("nothing to do" in again.said, f"again: {again.code}: {again.said}")


def main() -> int:
    try:
        network = Network(HOSTS)
    except Missing as missing:
        print(f"SKIP loads of three hosts: {missing}", file=sys.stderr)
        return 0
    data = made(80)
    folder = folder_for_servers()
    server = None
    try:
        server = Server(folder, "hosts", {}, network.server, SERVER)
        hosts = [Host(number, folder, network, data) for number in range(HOSTS)]
        server.sql(WAYS[0].make())
        server.copy(TARGET, data.files)
        expected = server.sql(CHECKSUM.format(table=TARGET))
        for way in WAYS:
            if way.name == "direct-replace":
                continue  # One session fills such a table: it is refused.
            together(server, hosts, way, data, expected)
            print(f"ok   {way.name}: three hosts, one killed, shown once", file=sys.stderr)
    except Wrong as wrong:
        print(f"FAIL {wrong}", file=sys.stderr)
        return 1
    finally:
        if server is not None:
            server.close()
        network.close()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
