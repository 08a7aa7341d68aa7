"""arrow-csv, Rust's CSV reader into Arrow: a small program beside this, built when asked for."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from data import DataSet
from lab import DATA, HERE, Failed, Measured, Missing, run_text
from measure import run_measured
from server import Server


def parser(server: Server, data: DataSet) -> Callable[[], Measured]:
    """Parse only; a thread per core takes file after file."""
    if shutil.which("cargo") is None:
        raise Missing("cargo is not installed")
    target = DATA / "arrow_csv"
    manifest = HERE / "peers" / "arrow_csv" / "Cargo.toml"
    build = ["cargo", "build", "--release", "--locked", "--quiet"]
    try:
        run_text([*build, "--manifest-path", str(manifest), "--target-dir", str(target)])
    except Failed as error:
        raise Missing(f"it does not build: {error}") from error
    command = [str(target / "release" / "arrow_csv_parse"), data.described()]
    return lambda: run_measured(server, [(command, None)])
