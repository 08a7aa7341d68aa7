"""Clusters whose parts are killed, cut off and restarted while they load: nothing lost or doubled.

    python scripts/cluster/trials.py [--count 120] [--only ray|ray-sink|spark] [--fault NAME]

Each trial loads the same rows by one engine's way, breaks one thing at a random moment, lets the
engine or its user repair it, and compares count and checksum with plain COPY. Then nothing but the
target may be left in the database. Needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "faults"))

from data import Data, made
from lab import FULLBORE, PYTHON, Failed, Host, Lab, Missing
from places import Wrong
from ways import TARGET
from world import CHECKSUM

JOBS = Path(__file__).resolve().parent / "jobs"
HOSTS = 4
COLUMNS = "k bigint PRIMARY KEY, n int, day date, amount numeric(12,2), word varchar(20), note text"
HANGS_AFTER_S = 300.0
# In the command line of an executor of Spark.
EXECUTOR = b"CoarseGrainedExecutorBackend"
# How long a host is cut off.
CUT_S = 60.0

STRAYS = (
    "SELECT coalesce(string_agg(c.oid::regclass::text, ', '), '') FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname = 'public'"
    f" AND c.relname NOT IN ('{TARGET}', 'plain')"
)
OPEN = "SELECT count(*) FROM fullbore_ledger.runs WHERE state NOT IN ('finished', 'undone')"
PIECES = "SELECT count(*) FROM fullbore_ledger.pieces"
# What makes a COMMIT wait, and no longer. A piece of a load does not wait for standbys, but for
# triggers that are deferred; a task of a sink has no row in the ledger, and waits for standbys that
# are nowhere, by when its rows are in the log.
SLOW = (
    "CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql"
    " AS 'BEGIN PERFORM pg_sleep(2); RETURN NULL; END';"
    " CREATE CONSTRAINT TRIGGER slow AFTER INSERT OR UPDATE ON fullbore_ledger.pieces"
    " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()",
    "DROP TRIGGER slow ON fullbore_ledger.pieces",
)
UNANSWERED = (
    "ALTER SYSTEM SET synchronous_standby_names = 'nobody';\nSELECT pg_reload_conf()",
    "ALTER SYSTEM RESET synchronous_standby_names;\nSELECT pg_reload_conf()",
)
COMMITTING = (
    "SELECT host(client_addr), client_port FROM pg_stat_activity"
    " WHERE wait_event IN ('SyncRep', 'PgSleep') AND client_addr IS NOT NULL ORDER BY random()"
)
STAGED = "SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_fb\\_%' AND relkind = 'r'"


@dataclass
class Way:
    """A way to load: the engine, and how rows get there."""

    engine: str
    publish: str

    @property
    def name(self) -> str:
        return f"{self.engine}, {self.publish}"


WAYS = {
    "ray": [Way("ray", "append"), Way("ray", "partitions"), Way("ray", "replace")],
    "ray-sink": [Way("ray-sink", "append"), Way("ray-sink", "overwrite")],
    "spark": [Way("spark", "append"), Way("spark", "overwrite")],
}


class Trial:
    """One load, and what happens to it."""

    def __init__(self, lab: Lab, data: Data, way: Way, chance: random.Random) -> None:
        self.lab, self.data, self.way, self.chance = lab, data, way, chance
        self.process: subprocess.Popen[bytes] | None = None
        self.thread: threading.Thread | None = None
        self.homes = 0

    # What is loaded.

    def begin(self) -> None:
        sql = self.lab.server.sql
        strays = sql(STRAYS)
        for table in strays.split(", ") if strays else []:
            sql(f"DROP TABLE {table}")
        tail = " PARTITION BY RANGE (k)" if self.way.publish == "partitions" else ""
        sql(f"DROP TABLE IF EXISTS {TARGET}; DROP SCHEMA IF EXISTS fullbore_ledger CASCADE")
        sql(f"CREATE TABLE {TARGET} ({COLUMNS}){tail}; CREATE INDEX ON {TARGET} (n)")
        if self.way.publish == "overwrite":
            sql(f"INSERT INTO {TARGET} (k, n) VALUES (-1, 0)")

    def command(self, resume: bool = False) -> list[str | Path]:
        url = self.lab.server.network_url
        if self.way.engine == "ray":
            command: list[str | Path] = [FULLBORE, "load", "part-*.csv", "--table", TARGET, "--to"]
            command += [url, "--header", "none", "--publish", self.way.publish, "--on", "ray"]
            command += ["--method", "copy", "--streams", str(HOSTS), "--piece-size", "1MB"]
            command += ["--retry-for", "180", "--quiet"]
            for host in self.lab.sources:
                command += ["--host", f"{host.name}=/mnt/data"]
            return command + (["--resume"] if resume else [])
        if self.way.engine == "ray-sink":
            return [PYTHON, JOBS / "ray_sink.py", url, TARGET, self.way.publish, "/mnt/shared"]
        script = JOBS / "spark_sink.py"
        return self.lab.spark_command(script, url, TARGET, self.way.publish, "/mnt/shared")

    def start(self, resume: bool = False) -> None:
        # A driver that comes after another may be on another machine.
        self.homes += 1
        more = {"FULLBORE_HOME": f"/mnt/home/{self.homes}", "PYSPARK_PYTHON": str(PYTHON)}
        Path(self.lab.driver.folder / "home" / str(self.homes)).mkdir(exist_ok=True)
        environment = {**self.lab.ray_environment(), **more}
        with (self.lab.driver.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.lab.driver.command(*self.command(resume)),
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/", env=environment,
                start_new_session=True,
            )  # fmt: skip

    def run(self, broken: Callable[[Trial], bool | None]) -> tuple[bool, int]:
        """Loads, and breaks something meanwhile: whether that was hit, and how the load ended."""
        self.begin()
        self.start()
        is_hit = self.under_way() and broken(self) is not False
        code = self.ended()
        if self.thread:
            self.thread.join()
        return is_hit, code

    def moving(self) -> bool:
        """Whether rows move."""
        question = PIECES if self.way.engine == "ray" else STAGED
        return int(self.lab.server.sql(question)) > 0

    def under_way(self) -> bool:
        """Waits until rows move; false if the load has ended before."""
        until = time.monotonic() + 200
        while time.monotonic() < until and self.process.poll() is None:
            with suppress(Failed):
                if self.moving():
                    time.sleep(self.chance.random() * 1.5)
                    return self.process.poll() is None
            time.sleep(0.05)
        return False

    def ended(self) -> int:
        try:
            return self.process.wait(HANGS_AFTER_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise Wrong(f"it hangs: {self.log()}") from None

    def log(self) -> str:
        return (self.lab.driver.folder / "log").read_text(errors="replace")[-1500:]

    # What is checked.

    def check(self, expected: str, code: int) -> None:
        """All rows are there once, and nothing else; a load that failed is loaded again."""
        tries = 0
        while code != 0:
            tries += 1
            if tries > 3:
                raise Wrong(f"it fails again and again ({code}): {self.log()}")
            self.without_leftovers()
            self.start(resume=True)
            code = self.ended()
        found = self.lab.server.sql(CHECKSUM.format(table=TARGET))
        if found != expected:
            raise Wrong(f"count|checksum are {found}, plain COPY's {expected}")
        self.nothing_left()

    def without_leftovers(self) -> None:
        """What a dead driver of a sink has left is rolled back as its user would."""
        if self.way.engine == "ray":
            return
        sql = self.lab.server.sql
        rows = sql(f"SELECT count(*) FROM {TARGET} WHERE k >= 0")
        if rows != "0":
            raise Wrong(f"{rows} rows of a write that failed are there")
        marks = sql("SELECT DISTINCT substring(relname FROM '_fb_([0-9a-z]{20})_') FROM pg_class"
                    " WHERE relname LIKE '%\\_fb\\_%' AND relkind = 'r'")  # fmt: skip
        for write in marks.split():
            self.lab.run(FULLBORE, "runs", "abort", write, "--to", self.lab.server.network_url)

    def nothing_left(self) -> None:
        until = time.monotonic() + 60
        while True:
            left = self.lab.server.sql(STRAYS)
            unfinished = self.lab.server.sql(OPEN)
            if left == "" and unfinished == "0":
                return
            if time.monotonic() > until:
                raise Wrong(f"left: tables {left!r}, {unfinished} runs that have not ended")
            time.sleep(0.5)

    # What is broken.

    def workers(self, host: Host) -> list[int]:
        """Processes on a host that may be writing."""
        marks = {"ray": (b"ray::load_part",), "ray-sink": (b"ray::",)}
        found = []
        for pid in host.pids():
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
                if self.way.engine == "spark":
                    if b"pyspark" in words and b"daemon" in words:
                        found.append(pid)
                elif words.startswith(marks[self.way.engine]) and b"IDLE" not in words:
                    found.append(pid)
        # Spark's daemon is the parent of its workers: the youngest ones write.
        return sorted(found)[1:] if self.way.engine == "spark" and len(found) > 1 else found

    def busy(self) -> list[tuple[Host, int]]:
        return [(host, pid) for host in self.lab.sources for pid in self.workers(host)]

    def kill_worker(self) -> bool:
        busy = self.busy()
        if busy:
            with suppress(ProcessLookupError):
                os.kill(self.chance.choice(busy)[1], signal.SIGKILL)
        return bool(busy)

    def kill_worker_unheard(self) -> bool:
        """A worker dies once its COMMIT is sent, and does not hear what came of it."""
        hold, release = SLOW if self.way.engine == "ray" else UNANSWERED
        self.lab.server.sql(hold)
        try:
            until = time.monotonic() + 120
            while time.monotonic() < until and self.process.poll() is None:
                if self.kill_committing():
                    return True
                time.sleep(0.02)
            return False
        finally:
            self.lab.server.sql(release)

    def kill_committing(self) -> bool:
        """Kills a process of a source host whose COMMIT waits; false if there is none."""
        for row in self.lab.server.sql(COMMITTING).split():
            address, port = row.split("|")
            for host in self.lab.sources:
                if host.address == address and (pid := host.pid_of(int(port))):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    return True
        return False

    def kill_host(self) -> None:
        """All of a host: raylet, or Spark's worker with its executors."""
        host = self.chance.choice(self.lab.sources)
        host.switch_off()
        self.later(3, lambda: self.switch_on(host))

    def kill_executor(self) -> None:
        for host in self.chance.sample(self.lab.sources, len(self.lab.sources)):
            for pid in host.having(EXECUTOR):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    return

    def cut_off(self) -> None:
        """A host's link is down for a minute, and comes back with all that still runs there."""
        host = self.chance.choice(self.lab.sources)
        self.lab.network.down(host.number)
        self.later(CUT_S, lambda: self.come_back(host))

    def come_back(self, host: Host) -> None:
        self.lab.network.mend(host.number)
        # What the engine has given up ends by itself; the host is used again.
        time.sleep(10)
        host.switch_off()
        self.switch_on(host)

    def kill_driver(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)

    def restart_server(self) -> None:
        self.lab.server.stop("immediate")
        time.sleep(self.chance.random() * 3)
        self.lab.server.revive()

    def switch_on(self, host: Host) -> None:
        if self.way.engine == "spark":
            self.lab.start_spark_worker(host)
        else:
            self.lab.start_node(host)

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Does something after the fault, by a thread that is waited for at the end."""

        def do() -> None:
            time.sleep(seconds)
            what()

        self.thread = threading.Thread(target=do)
        self.thread.start()


FAULTS: dict[str, tuple[str, ...]] = {
    "ray": ("worker", "worker-unheard", "host", "driver", "server", "cut"),
    "ray-sink": ("worker", "worker-unheard", "host", "driver", "server", "cut"),
    "spark": ("worker", "worker-unheard", "executor", "host", "driver", "server", "cut"),
}
BREAK: dict[str, Callable[[Trial], bool | None]] = {
    "worker": Trial.kill_worker,
    "worker-unheard": Trial.kill_worker_unheard,
    "executor": Trial.kill_executor,
    "host": Trial.kill_host,
    "driver": Trial.kill_driver,
    "server": Trial.restart_server,
    "cut": Trial.cut_off,
}


def tried(trial: Trial, fault: str, expected: str) -> str:
    """One trial; how it went, in words."""
    is_hit, code = trial.run(BREAK[fault])
    trial.check(expected, code)
    return "" if is_hit else " (ended before)"


def kept(out: Path | None, done: list[dict[str, Any]]) -> None:
    """Writes what came of all trials so far."""
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text("".join(json.dumps(one) + "\n" for one in done))


@contextmanager
def lab_of(engine: str, data: Data) -> Iterator[Lab]:
    """Hosts on which an engine runs, with all files, and the table that plain COPY makes."""
    lab = Lab(HOSTS)
    try:
        for number, file in enumerate(data.files):
            (lab.sources[number % HOSTS].folder / "data" / file.name).hardlink_to(file)
            (lab.shared / file.name).hardlink_to(file)
        lab.server.sql(f"CREATE TABLE plain ({COLUMNS})")
        lab.server.copy("plain", data.files)
        if engine == "spark":
            lab.start_spark()
            time.sleep(8)
        else:
            lab.start_ray()
        yield lab
    finally:
        lab.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--megabytes", type=int, default=120)
    parser.add_argument("--only", action="append", choices=list(WAYS))
    parser.add_argument("--fault", action="append", choices=list(BREAK))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    engines = asked.only or list(WAYS)
    data = made(asked.megabytes)
    failed, done = 0, []
    for engine in engines:
        faults = [fault for fault in FAULTS[engine] if not asked.fault or fault in asked.fault]
        share = asked.count // len(engines) + (engines.index(engine) < asked.count % len(engines))
        with lab_of(engine, data) as lab:
            expected = lab.server.sql(CHECKSUM.format(table="plain"))
            for number in range(share):
                way = WAYS[engine][number % len(WAYS[engine])]
                # A cut takes a minute: one of them for each three of the others.
                fault = faults[(number // len(WAYS[engine])) % len(faults)]
                if engine != "spark":
                    lab.mend_ray()
                began = time.monotonic()
                name = f"{way.name}: {fault}"
                try:
                    trial = Trial(lab, data, way, random.Random(f"{asked.seed} {number}"))
                    words = tried(trial, fault, expected)
                except (Wrong, Failed) as wrong:
                    failed += 1
                    words = f" FAILED: {wrong}"
                took = time.monotonic() - began
                done.append({"way": way.name, "fault": fault, "said": words, "seconds": took})
                kept(asked.out, done)
                print(f"{len(done):4} {name}{words} ({took:.1f} s)", file=sys.stderr, flush=True)
    hit = sum(not one["said"] for one in done)
    print(f"{len(done)} faults, {hit} of them while rows moved, {failed} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Missing as missing:
        print(f"SKIP faults of clusters: {missing}", file=sys.stderr)
