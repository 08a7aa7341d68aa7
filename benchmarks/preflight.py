"""`fullbore preflight` beside fio and iperf3, in turn, on the same machine and the same settings;
and beside loads, what it predicts of them.

Raw figures, the peers' own output among them, are kept under runs/ like those of bench.py.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import preflight_all
import preflight_net
from lab import DATA, FULLBORE, Failed, Missing, run_folder, run_text

MEGABYTE = 1e6
# Before each measurement of a disk: many give more for a moment to who has rested.
REST_SECONDS = 2.0
BLOCKS_AND_DEPTHS = [(65536, 1), (65536, 16), (1 << 20, 1), (1 << 20, 16)]

Keep = Callable[[dict[str, object]], None]


def main() -> int:
    """Runs the chosen parts and keeps what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts: dict[str, Callable[[argparse.Namespace, Keep], list[str]]] = {
        "disk": disk,
        "net": preflight_net.veth,
        "wan": preflight_net.wan,
        "all": preflight_all.part,
    }
    parser.add_argument("--part", action="append", choices=parts, help="only this part")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--size", type=int, default=1 << 30, help="of the file for disks, in bytes")
    parser.add_argument("--scale", default="2", help="of TPC-H, for jobs")
    parser.add_argument("--name", default=f"{platform.node()}-preflight")
    parser.add_argument("--job", type=int, action="append", help="only this job, from 1")
    parser.add_argument("--into", type=Path, help="go on with the part `all` of this folder")
    args = parser.parse_args()
    # So that whatever was set up is taken down again on a polite kill too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    args.folder = folder = args.into or run_folder(args.name)
    lines = [f"# {folder.name}\n", *about()]
    whole = True
    with (folder / "raw.jsonl").open("a") as raw:

        def keep(figures: dict[str, object]) -> None:
            raw.write(json.dumps(figures) + "\n")
            raw.flush()

        for name in args.part or parts:
            lines.append(f"\n## {name}\n")
            try:
                lines += parts[name](args, keep)
            except Missing as reason:
                lines.append(f"not available: {reason}")
            except Failed as error:
                whole = False
                lines.append(f"failed: {error}")
            (folder / "summary.md").write_text("\n".join(lines) + "\n")
    print((folder / "summary.md").read_text())
    return 0 if whole else 1


def about() -> list[str]:
    """What it ran on."""
    versions = [run_text([str(FULLBORE), "--version"]).strip()]
    for program in ("fio", "iperf3"):
        if shutil.which(program):
            versions.append(run_text([program, "--version"]).splitlines()[0].strip())
    cores = run_text(["nproc"]).strip()
    kernel = platform.release()
    return [f"{', '.join(versions)}; Linux {kernel}, {cores} cores for both ends. Medians; ranges"]


def disk(args: argparse.Namespace, keep: Keep) -> list[str]:
    """Reads of one file by both, writes into files of the same size."""
    if shutil.which("fio") is None:
        raise Missing("fio is not installed (Debian: apt-get install fio)")
    place = DATA / "preflight"
    place.mkdir(parents=True, exist_ok=True)
    file = place / "file"
    try:
        # Written once by fio itself, so that no block of it is new to the disk.
        fio(file, "write", 1 << 20, 16, args, "--end_fsync=1")
        return _disk(args, keep, place, file)
    finally:
        file.unlink(missing_ok=True)


def _disk(args: argparse.Namespace, keep: Keep, place: Path, file: Path) -> list[str]:
    lines = [
        "| | block | in flight | ours MB/s | fio MB/s | ours / fio | ours CPU s/GB | fio CPU s/GB |"
        " ours p99 us | fio p99 us |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    timed = [f"--runtime={args.seconds}", "--time_based"]
    for operation in ("read", "write"):
        for block, depth in BLOCKS_AND_DEPTHS:
            ours: list[dict[str, float]] = []
            theirs: list[dict[str, float]] = []
            for repeat in range(args.repeats):
                setting = (operation, block, depth, args)
                # Who comes second finds what the first one did to the device.
                if repeat % 2:
                    theirs.append(their_disk(file, *setting, *timed))
                    ours.append(our_disk(place, file, *setting))
                else:
                    ours.append(our_disk(place, file, *setting))
                    theirs.append(their_disk(file, *setting, *timed))
                keep(
                    {"part": "disk", "operation": operation, "block": block, "depth": depth}
                    | {"repeat": repeat, "ours": ours[-1], "fio": theirs[-1]}
                )
            rates = [our["rate"] / their["rate"] for our, their in zip(ours, theirs, strict=True)]
            cells = [
                f"{median(ours, 'rate') / MEGABYTE:.0f}",
                f"{median(theirs, 'rate') / MEGABYTE:.0f}",
                f"{statistics.median(rates):.2f} ({min(rates):.2f}-{max(rates):.2f})",
                f"{median(ours, 'cpu'):.3f}",
                f"{median(theirs, 'cpu'):.3f}",
                f"{median(ours, 'p99'):.0f}",
                f"{median(theirs, 'p99'):.0f}",
            ]
            lines.append(f"| {operation} | {block} | {depth} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines


def median(runs: list[dict[str, float]], figure: str) -> float:
    """Of one figure over repeats."""
    return statistics.median(run[figure] for run in runs)


def our_disk(
    place: Path, file: Path, operation: str, block: int, depth: int, args: argparse.Namespace
) -> dict[str, float]:
    """One setting by ours: reads of the file, or writes of a scratch file beside it."""
    target = file if operation == "read" else place
    command = [str(FULLBORE), "preflight", "disk", str(target), f"--{operation}", "--json"]
    command += ["--block", str(block), "--depth", str(depth), "--seconds", str(args.seconds)]
    time.sleep(REST_SECONDS)
    report = json.loads(run_text([*command, "--size", str(args.size)]))
    if report["engine"] != "io_uring":
        raise Missing(f"io_uring: {report['engine_reason']}")
    cell = report["cells"][0]
    return {
        "rate": cell["bytes_per_second"],
        "cpu": cell["cpu_seconds_per_gigabyte"],
        "p50": cell["latency_us"]["p50"],
        "p99": cell["latency_us"]["p99"],
    }


def their_disk(
    file: Path, operation: str, block: int, depth: int, args: argparse.Namespace, *more: str
) -> dict[str, float]:
    """One setting by fio. What it writes over was written just before, as our scratch file is."""
    time.sleep(REST_SECONDS)
    if operation == "write":
        fio(file, "write", 1 << 20, 16, args, "--end_fsync=1")
    return fio(file, operation, block, depth, args, *more)


def fio(
    file: Path, operation: str, block: int, depth: int, args: argparse.Namespace, *more: str
) -> dict[str, float]:
    """One setting by fio."""
    command = ["fio", "--name=peer", f"--filename={file}", f"--rw={operation}", f"--bs={block}"]
    command += [f"--iodepth={depth}", "--ioengine=io_uring", "--direct=1", f"--size={args.size}"]
    report = json.loads(run_text([*command, "--output-format=json", *more]))
    job = report["jobs"][0]
    side = job[operation]
    cpu_percent = job["usr_cpu"] + job["sys_cpu"]
    seconds = side["runtime"] / 1e3
    percentiles = side["clat_ns"].get("percentile", {})
    return {
        "rate": side["io_bytes"] / seconds,
        "cpu": cpu_percent / 100 * seconds / (side["io_bytes"] / 1e9),
        "p50": percentiles.get("50.000000", 0) / 1e3,
        "p99": percentiles.get("99.000000", 0) / 1e3,
    }


if __name__ == "__main__":
    sys.exit(main())
