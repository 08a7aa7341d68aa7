"""Fullbore."""

from __future__ import annotations

from pathlib import Path

from lab import FULLBORE, Measured, Server, run_measured


def load(server: Server, files: list[Path], *options: str, to: str | None = None) -> Measured:
    """Loads the files into lineitem; statistics are left out, as the peers leave them out."""
    command = [str(FULLBORE), "load", "--to", to or server.url, "--table", "lineitem"]
    command += ["--no-analyze", "--quiet", *options, "--", *map(str, files)]
    return run_measured(server, [(command, None)])
