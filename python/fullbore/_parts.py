"""How the files of a load are divided into parts."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Fewer bytes are less than ten seconds of work for one stream: a task would not pay.
PART_BYTES_MIN = 1 << 30
PARTS_MAX = 1000

# Files whose size says nothing of their rows' size.
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip", ".parquet")

Listed = list[list[dict[str, Any]]]


@dataclass
class Part:
    """A share of a load: files that one host loads as one run."""

    number: int
    # The host that has its files, as the job calls it; None if any host can read them.
    host: str | None
    # Paths by table of the job.
    sources: list[list[str]]
    bytes: list[int]
    # All files with their sizes, as the ledger keeps them.
    files: list[list[Any]]

    def job(self, whole: Mapping[str, Any], parts: int, streams: int | None) -> dict[str, Any]:
        """The job of this part alone."""
        job = alone(whole, self.sources)
        job["part"] = f"{self.number}/{parts}"
        if streams is not None:
            job["streams"] = streams
        return job

    def expected(self) -> list[int | None]:
        """Bytes of each table, where they are those of its rows."""
        pairs = zip(self.sources, self.bytes, strict=True)
        return [None if any(map(_is_packed, paths)) else size for paths, size in pairs]


def _is_packed(path: str) -> bool:
    return path.lower().endswith(_PACKED)


def alone(job: Mapping[str, Any], sources: Sequence[Sequence[str]]) -> dict[str, Any]:
    """A job as one host runs it, with these sources by table."""
    job = copy.deepcopy({name: job[name] for name in job if name not in ("on", "hosts")})
    tables = zip(job["table"], sources, strict=True)
    job["table"] = [{**table, "sources": list(paths)} for table, paths in tables]
    return job


def sources_of(job: Mapping[str, Any], directories: Sequence[str]) -> list[list[str]]:
    """The job's sources on a host, by table: relative ones are looked for in its directories."""
    found = []
    for table in job["table"]:
        paths = []
        for source in table["sources"]:
            if source.startswith("/") or "://" in source or not directories:
                paths.append(source)
            else:
                paths += [f"{directory.rstrip('/')}/{source}" for directory in directories]
        found.append(paths)
    return found


def divided(listed: Mapping[str | None, Listed]) -> list[Part]:
    """The parts of a load: one for each host with files of its own, groups of what all can read.

    It follows from the files alone, so that another driver comes to the same parts.
    """
    parts: list[Part] = []
    for host, tables in listed.items():
        groups = [tables] if host is not None else _grouped(tables)
        for group in groups:
            sources = [[file["path"] for file in files] for files in group]
            sizes = [sum(file["size"] for file in files) for files in group]
            files = [[file["path"], file["size"]] for files in group for file in files]
            parts.append(Part(len(parts) + 1, host, sources, sizes, files))
    return parts


def _grouped(tables: Listed) -> list[Listed]:
    """Groups of files, in their order, each large enough to be worth a task.

    Each has files of every table: all parts load the same tables.
    """
    total = sum(file["size"] for files in tables for file in files)
    least = max(PART_BYTES_MIN, -(-total // PARTS_MAX))
    count = max(1, min(total // least, *(len(files) for files in tables)))
    shares = [_shared(files, count) for files in tables]
    return [[share[group] for share in shares] for group in range(count)]


def _shared(files: list[dict[str, Any]], count: int) -> list[list[dict[str, Any]]]:
    """A table's files in so many groups of about the same size, none of them empty."""
    groups: list[list[dict[str, Any]]] = [[] for _ in range(count)]
    left = sum(file["size"] for file in files)
    group, size = 0, 0
    for number, file in enumerate(files):
        groups_left, files_left = count - group, len(files) - number
        is_full = size > 0 and size + file["size"] / 2 > left / groups_left
        if groups[group] and groups_left > 1 and (is_full or files_left < groups_left):
            left -= size
            group, size = group + 1, 0
        groups[group].append(file)
        size += file["size"]
    return groups
