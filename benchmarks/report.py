"""What was measured, as one table."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

from lab import FULLBORE, Case, Measured, run_text
from server import Server

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
HEAD = [
    "| case | way | MB/s | ours / it | server CPU s/GB | client CPU s/GB | client / psql "
    "| client memory MB |",
    "|---|---|---|---|---|---|---|---|",
]


def about(server: Server, scale: str, repeats: int) -> list[str]:
    """What it ran on, and how."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown CPU",
    )
    cores = run_text(["nproc"]).strip()
    settings = ("server_version", "wal_level", "shared_buffers", "data_checksums")
    values = ", ".join(f"{name} {server.sql(f'SHOW {name}').strip()}" for name in settings)
    version = run_text([str(FULLBORE), "--version"]).strip()
    return [
        f"{version}; {cpu}, {cores} cores shared by client and server; {values}; unix socket,",
        f"but for the network cases. Scale {scale}, {repeats} repeats in turn, medians; hot files;",
        "a final CHECKPOINT is in every figure; nobody gathers statistics, but in the cases",
        "`ready`, where all have the same indexes. `ours / it` is our rate",
        "over that of a way with the same final shape, median of the repeats: above 1 we win;",
        "a ratio between two ways of ours says how they differ. `client / psql` is a client's CPU",
        "over what the server spends on the best psql of the case: seconds depend on the machine",
        "and its neighbours, this hardly does.\n",
    ]


def skipped(name: str, reason: str) -> list[str]:
    """A whole case that can't be had."""
    return [f"| {name} | all | not available: {_cell(reason)} | | | | | |"]


def rows(
    name: str, case: Case, measured: dict[str, list[Measured]], errors: dict[str, str]
) -> list[str]:
    """One case's lines; the ratio is ours over the peer, pair by pair."""
    lines = []
    rates_of = {
        way.name: [(way.size or case.size) / each.seconds for each in measured[way.name]]
        for way in case.ways
    }
    psql = _psql_cpu(case, measured)
    for way in case.ways:
        results = measured[way.name]
        size = way.size or case.size
        label = f"| {name}, {size / 1e9:.2f} GB | {way.name} "
        if not results:
            lines.append(f"{label}| failed: {_cell(errors.get(way.name, 'no repeat'))} | | | | | |")
            continue
        rates, ours = rates_of[way.name], rates_of.get(way.beside or case.ways[0].name, [])
        ratios = [our / its for our, its in zip(ours, rates, strict=False)]
        ratio = f"{statistics.median(ratios):.2f}" if ratios else "-"
        gigabytes = size / 1e9
        client = statistics.median(each.client_cpu for each in results) / gigabytes
        lines.append(
            f"{label}| {statistics.median(rates) / 1e6:.0f} | {ratio} "
            f"| {statistics.median(each.server_cpu for each in results) / gigabytes:.2f} "
            f"| {client:.2f} | {f'{client / psql:.3f}' if psql else '-'} "
            f"| {statistics.median(each.client_memory for each in results) / 1e6:.0f} |"
        )
    for peer, reason in case.missing.items():
        lines.append(f"| {name} | {peer} | not available: {_cell(reason)} | | | | | |")
    return lines


def _psql_cpu(case: Case, measured: dict[str, list[Measured]]) -> float | None:
    """The least server CPU of the case's ways by psql, in s/GB; None where there is none."""
    medians = [
        statistics.median(each.server_cpu for each in measured[way.name])
        / ((way.size or case.size) / 1e9)
        for way in case.ways
        if way.name.startswith("psql") and measured[way.name]
    ]
    return min(medians, default=None)


def failed(name: str, reason: str) -> list[str]:
    """A case that could not be set up."""
    return [f"| {name} | all | failed: {_cell(reason)} | | | | | |"]


def _cell(text: str) -> str:
    """The end of a message, where programs say what is wrong, fit for a table."""
    plain = COLOURS.sub("", text)
    return " ".join(plain.replace("|", "/").split())[-200:]
