"""What a kind of injection is handed, and the load that it asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol

from cgroups import Group
from disks import Disk
from lab import SCHEMA, lineitem
from servers import Server

CREATE = ("--create", "--schema", str(SCHEMA))
PARTITIONS = (*CREATE, "--publish", "partitions")
PARTITIONS += ("--partition-by", "l_orderkey")
DIRECT = ("--method", "direct")


class Destination(Protocol):
    """Whatever a load can be sent to."""

    url: str


@dataclass
class Load:
    """One load: where to, which files, by which options, and what is noted of the injection."""

    server: Destination
    files: list[Path]
    options: list[str]
    notes: dict[str, object]
    # What stands before the client's command.
    prefix: list[str] = field(default_factory=list)
    # Limits that begin and end with the load, not before.
    during: AbstractContextManager[object] | None = None


class Stage:
    """Servers, disks and files that kinds share: made when first asked for, gone at the end."""

    def __init__(self) -> None:
        self._made: dict[str, object] = {}

    def _once(self, name: str, make: Callable[[], object]) -> object:
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def server(self, name: str = "plain", **settings: object) -> Server:
        """A server over its unix socket."""
        found = self._once(f"server-{name}", lambda: Server(name, **settings))
        assert isinstance(found, Server)
        found.clear()
        return found

    def disk(self, name: str, megabytes: int) -> Disk:
        """A disk."""
        found = self._once(f"disk-{name}", lambda: Disk(name, megabytes))
        assert isinstance(found, Disk)
        return found

    def client(self) -> Group:
        """The client's cgroup, without limits."""
        found = self._once("client", lambda: Group("client"))
        assert isinstance(found, Group)
        found.cores(None)
        return found

    def files(self, megabytes: float) -> list[Path]:
        """About so much of lineitem, hot, in files of some 48 MB, or smaller ones of less."""
        large = lineitem("1", 16)
        if megabytes >= 150:
            return large[: max(3, min(16, round(megabytes / 47.5)))]
        return lineitem("0.2", 64)[: max(4, min(64, round(megabytes / 2.4)))]

    def end(self) -> None:
        """Takes everything away, the last first."""
        for made in reversed(list(self._made.values())):
            made.remove()  # type: ignore[attr-defined]
        self._made.clear()


def table(server: Server, more: str = "") -> None:
    """Makes the table that rows are appended to."""
    server.sql(SCHEMA.read_text())
    if more:
        server.sql(more)


def drawn(draw: Random, streams: tuple[int, ...] = (2, 3, 4)) -> list[str]:
    """Load settings that don't matter to the injection: drawn, so that they don't decide."""
    options = ["--streams", str(draw.choice(streams)), "--parsers", str(draw.choice((1, 2, 2)))]
    return [*options, *draw.choice(([], ["--as-text"], [], []))]


Kind = Callable[[Stage, Random], AbstractContextManager[Load]]


def kind(function: Callable[[Stage, Random], Iterator[Load]]) -> Kind:
    """A kind of injection is a function that yields a load, and mends what it did afterwards."""
    return contextmanager(function)
