"""Connections to Ray, and what is asked of its nodes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fullbore._errors import UsageError


def runtime_env() -> dict[str, Any]:
    """A Ray runtime environment that brings this package to workers that don't have it."""
    return {"py_modules": [os.fspath(Path(__file__).parent.parent)]}


class Connection:
    """A connection to Ray: the one that there is, or our own, with this package on all nodes."""

    def __init__(self, on: str) -> None:
        self.address = "auto" if on == "ray" else on
        self.is_ours = not ray.is_initialized()

    def __enter__(self) -> None:
        if not self.is_ours:
            if not _is_known():
                message = "Ray's workers don't have this version of the package fullbore"
                hint = "ray.init(runtime_env=fullbore.ray.runtime_env()) brings it to them"
                raise refusal(message, hint)
            return
        self._connect(None)
        if not _is_known():
            ray.shutdown()
            self._connect(runtime_env())

    def _connect(self, environment: dict[str, Any] | None) -> None:
        try:
            ray.init(
                address=self.address,
                runtime_env=environment,
                log_to_driver=False,
                logging_level="error",
            )
        except ConnectionError as error:
            hint = "start a cluster with `ray start --head`, or name one: --on ray://HOST:PORT"
            raise refusal(f"can't connect to Ray: {error}", hint) from error

    def __exit__(self, *_: object) -> None:
        if self.is_ours:
            ray.shutdown()


def _is_known() -> bool:
    """Whether all nodes have this package in this version."""

    # A function of this one is sent by its code, not by its name.
    def version() -> tuple[int, bytes, bytes] | None:
        try:
            import hashlib
            from pathlib import Path

            import fullbore._native
        except ImportError:
            return None
        # Builds differ in length, or at the ends, where their tables are. A hash of all of it
        # takes a third of a second of each node, before a row moves.
        with Path(fullbore._native.__file__).open("rb") as library:
            first = library.read(1 << 20)
            size = library.seek(0, 2)
            library.seek(max(0, size - (1 << 20)))
            last = library.read()
        return size, hashlib.sha256(first).digest(), hashlib.sha256(last).digest()

    own = version()
    asked = [
        ray.remote(version).options(num_cpus=0, max_retries=0, **at_node(node)).remote()
        for node in nodes()
    ]
    try:
        return all(found == own for found in ray.get(asked, timeout=60))
    except ray.exceptions.RayError:
        return False


def nodes() -> list[dict[str, Any]]:
    """The nodes that are alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def at_node(node: Mapping[str, Any], soft: bool = False) -> dict[str, Any]:
    """Options of a task that is to run on a node; ``soft``: elsewhere if that is gone."""
    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node["NodeID"], soft=soft)}


def refusal(message: str, hint: str) -> UsageError:
    raw = {"error": message, "error_details": {"kind": "usage", "hint": hint}}
    return UsageError(f"{message}\nhint: {hint}", 2, raw)
