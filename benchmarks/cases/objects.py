"""Objects of a store, beside `object_store` alone that fetches them and does nothing with them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data import tpch
from lab import DATA, FULLBORE, HERE, ROOT, Case, Failed, Measured, Missing, Way, run_text, size_of
from measure import run_measured
from server import Server
from wheels import python_with

from cases.setting import Setting

# A scale of TPC-H whose lineitem takes about 2 GB as CSV.
SCALE = 2.7
# Bytes a second of the link: less than two cores parse, decompress and decode, since otherwise
# these are what is measured.
RATES = {"CSV": 300e6, "8 gzip": 60e6, "Parquet": 60e6}
# What Fullbore has in flight.
REQUESTS, REQUEST_BYTES = "16", str(4 << 20)
KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}


@contextmanager
def objects(setting: Setting) -> Iterator[Case]:
    """lineitem as one CSV, as 8 gzip files and as Parquet, into `null:`."""
    folder = _made(setting)
    shapes = {
        "CSV": [folder / "one.csv"],
        "8 gzip": sorted(folder.glob("packed.*")),
        "Parquet": [folder / "one.parquet"],
    }
    fetch = _built()
    servers = []
    ways = []
    try:
        for shape, files in shapes.items():
            serve = [sys.executable, str(HERE / "tools" / "objects_serve.py"), f"{RATES[shape]}"]
            process = subprocess.Popen(
                [*serve, *map(str, files)], stdout=subprocess.PIPE, text=True
            )
            servers.append(process)
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            size = size_of(files)

            def ours(url: str = url, files: list[Path] = files) -> Measured:
                return _load(setting.server, url, files)

            def alone(url: str = url, files: list[Path] = files) -> Measured:
                return _fetch(setting.server, fetch, url, files)

            name = f"fullbore, {shape}"
            ways.append(Way(name, ours, size))
            ways.append(Way(f"object_store alone, {shape}", alone, size, beside=name))
        rates = ", ".join(f"{shape} {rate / 1e6:.0f} MB/s" for shape, rate in RATES.items())
        notes = [f"objects: the link gives {rates}; requests in flight 16 of 4 MiB, for both."]
        yield Case(size_of(shapes["CSV"]), ways, loads=False, notes=notes)
    finally:
        for process in servers:
            process.kill()
            process.wait()


def _made(setting: Setting) -> Path:
    data = tpch(setting.scale_of(SCALE), 4)
    folder = DATA / f"objects-{data.files[0].parent.name}"
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        unfinished.mkdir(parents=True, exist_ok=True)
        make = str(HERE / "tools" / "objects_make.py")
        run_text([python_with("pyarrow"), make, data.described(), str(unfinished)])
        unfinished.rename(folder)
    return folder


def _built() -> Path:
    build = ["cargo", "build", "--release", "--quiet", "--package", "fullbore-objects"]
    try:
        run_text([*build, "--example", "fetch"])
    except Failed as error:
        raise Missing(f"the example does not build: {error}") from error
    return ROOT / "target" / "release" / "examples" / "fetch"


def _load(server: Server, url: str, files: list[Path]) -> Measured:
    sources = [f"s3://data/{file.name}" for file in files]
    text = [] if files[0].suffix == ".parquet" else ["--format", "csv", "--header", "none"]
    command = [str(FULLBORE), "load", "--quiet", "--to", "null:", "--store", f"endpoint={url}"]
    return run_measured(server, [([*command, *text, "--", *sources], None)], env=KEYS)


def _fetch(server: Server, fetch: Path, url: str, files: list[Path]) -> Measured:
    """One after the other: each with all requests that there may be."""
    commands = [[str(fetch), url, "data", file.name, REQUESTS, REQUEST_BYTES] for file in files]
    script = " && ".join(" ".join(f"'{word}'" for word in command) for command in commands)
    return run_measured(server, [(["sh", "-c", script], None)], env=KEYS)
