"""A cluster of one machine: source hosts, a driver's host and a database host, each in a namespace.

Each host has its own /tmp, its own files under /mnt/data, its own home under /mnt/home, and sees
those of no other host; /mnt/shared is a storage that all see. All have their own links, whose
counters say what went over them.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "faults"))

from network import SERVER, Network
from places import FULLBORE, ROOT, VENV, Failed, Missing, environment, folder_for, output_of
from server import Server

CACHE = ROOT / ".cache" / "cluster"
PYTHON = VENV / "bin" / "python"

# What drivers and workers import: the package, broken sinks, the scripts of the lab.
PLACES = os.pathsep.join(
    str(ROOT / folder) for folder in ("python", "python/tests", "scripts/cluster/jobs")
)

# What a host's processes see: its own files, and none of the others'.
MOUNTS = """
set -e
mount --make-rprivate /
mount -t tmpfs none /mnt
mkdir /mnt/data /mnt/home /mnt/shared
mount --bind "$0/data" /mnt/data
mount --bind "$0/../shared" /mnt/shared
mount --bind "$0/home" /mnt/home
mount --bind "$0/tmp" /tmp
mount -t tmpfs none "$1"
shift
exec "$@"
"""

PORT = 6379


class Host:
    """A host: its namespace, and its folder."""

    def __init__(self, number: int, name: str, folder: Path, network: Network) -> None:
        self.number, self.name, self.network = number, name, network
        self.folder = folder / name
        for part in ("data", "home", "tmp"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        return self.network.addresses[self.number]

    def command(self, *words: str | Path) -> list[str]:
        """A command as it is run on this host."""
        inside = [*self.network.prefix(self.number), "unshare", "--mount", "sh", "-c", MOUNTS]
        return [*inside, str(self.folder), str(CACHE), *map(str, words)]

    def environment(self, **more: str) -> dict[str, str]:
        # A token of Ray's in somebody's home is known to some of its processes, and not to others.
        return environment(
            RAY_AUTH_MODE="disabled",
            FULLBORE_HOME="/mnt/home",
            FULLBORE_PYTHON=str(PYTHON),
            PYTHONUNBUFFERED="1",
            **more,
        )

    def start(self, *words: str | Path, **more: str) -> subprocess.Popen[bytes]:
        """Starts what runs until the host is switched off; its output goes to a log."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                self.command(*words), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=self.environment(**more), cwd="/", start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def sent(self) -> tuple[int, int]:
        """Bytes that went out of the host and that came in, by its link's counters."""
        link = self.network.links[self.number]
        counters = [f"/sys/class/net/{link}/statistics/{way}_bytes" for way in ("tx", "rx")]
        found = self.network.inside(self.network.clients[self.number], "cat", *counters)
        out, into = found.split()
        return int(out), int(into)

    def pids(self) -> list[int]:
        """All processes in its namespace."""
        with suppress(Failed):
            found = output_of(["ip", "netns", "pids", self.network.clients[self.number]])
            return [int(pid) for pid in found.split()]
        return []

    def having(self, mark: bytes) -> list[int]:
        """The processes in whose command lines this stands."""
        found = []
        for pid in self.pids():
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def pid_of(self, port: int) -> int | None:
        """The process that has a connection from this port of the host's."""
        inside = self.network.clients[self.number]
        found = self.network.inside(inside, "ss", "-Htnp", "sport", "=", f":{port}")
        pid = re.search(r"pid=(\d+)", found)
        return int(pid[1]) if pid else None

    def switch_off(self) -> None:
        """Ends all that runs on it, at once."""
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes:
            process.wait()
        self.processes.clear()


class Lab:
    """The hosts, a server, and what engines run on them."""

    def __init__(self, sources: int, settings: dict[str, str] | None = None) -> None:
        self.network = Network(sources + 1)
        self.folder = folder_for("fbcluster")
        CACHE.mkdir(parents=True, exist_ok=True)
        for old in CACHE.glob("hosts-*"):
            if not Path("/proc", old.name.removeprefix("hosts-")).exists():
                shutil.rmtree(old, ignore_errors=True)
        # Beside the files that its hosts are given, by links.
        hosts = self.hosts_folder = CACHE / f"hosts-{os.getpid()}"
        self.shared = hosts / "shared"
        self.shared.mkdir(parents=True)
        self.server: Server | None = None
        try:
            names = [f"src{number + 1}" for number in range(sources)]
            self.sources = [Host(n, name, hosts, self.network) for n, name in enumerate(names)]
            self.driver = Host(sources, "driver", hosts, self.network)
            self.server = Server(self.folder, "server", settings or {}, self.network.server, SERVER)
        except BaseException:
            self.close()
            raise

    @property
    def hosts(self) -> list[Host]:
        return [*self.sources, self.driver]

    def server_cpu(self) -> float:
        """Seconds of CPU that the server's processes have used, those that have ended included."""
        postmaster = (self.server.data / "postmaster.pid").read_text().split("\n", 1)[0]
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        ticks = 0
        for pid in [postmaster, *children]:
            with suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                # Its own, of user and kernel; then of children that it has waited for.
                ticks += sum(map(int, fields[11:15] if pid == postmaster else fields[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def start_ray(self, cores: int = 2) -> None:
        """A head on the driver's host, which loads nothing, and a node on each other one."""
        self.start_ray_on(self.driver, ["--head", f"--port={PORT}", "--num-cpus=0",
                                        "--include-dashboard=false"])  # fmt: skip
        time.sleep(3)
        for host in self.sources:
            self.start_node(host, cores)
        self.wait_for_nodes(len(self.hosts))

    def start_node(self, host: Host, cores: int = 2) -> None:
        resources = f'{{"{host.name}": 1}}'
        self.start_ray_on(host, [f"--address={self.driver.address}:{PORT}",
                                 f"--num-cpus={cores}", f"--resources={resources}"])  # fmt: skip

    def start_ray_on(self, host: Host, options: list[str]) -> None:
        host.start(
            VENV / "bin" / "ray", "start", "--block", "--disable-usage-stats",
            f"--node-ip-address={host.address}", "--object-store-memory=200000000", *options,
            PYTHONPATH=PLACES,
            RAY_health_check_initial_delay_ms="2000", RAY_health_check_period_ms="1000",
            RAY_health_check_timeout_ms="2000", RAY_health_check_failure_threshold="5",
        )  # fmt: skip

    def mend_ray(self) -> None:
        """Starts nodes that are gone: on a busy machine all may be given up as dead."""
        gone = [host for host in self.sources if not host.having(b"/raylet/raylet")]
        for host in gone:
            host.switch_off()
            self.start_node(host)
        if gone:
            self.wait_for_nodes(len(self.hosts))

    def start_spark(self, cores: int = 1) -> None:
        """A master on the driver's host, and a worker on each other one."""
        self.spark_on(self.driver, "master.Master", "--host", self.driver.address, "--port", "7077")
        for host in self.sources:
            self.start_spark_worker(host, cores)

    def start_spark_worker(self, host: Host, cores: int = 1) -> None:
        self.spark_on(host, "worker.Worker", f"spark://{self.driver.address}:7077", "--host",
                      host.address, "--cores", str(cores), "--memory", "1g")  # fmt: skip

    def spark_on(self, host: Host, kind: str, *arguments: str) -> None:
        spark = VENV / "lib" / f"python3.{sys.version_info.minor}" / "site-packages" / "pyspark"
        more = {
            "SPARK_LOCAL_DIRS": "/tmp", "SPARK_WORKER_DIR": "/tmp/work", "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": str(PYTHON), "SPARK_DAEMON_MEMORY": "300m",
            "PYTHONPATH": PLACES,
        }  # fmt: skip
        start = spark / "bin" / "spark-class"
        host.start(
            start, f"org.apache.spark.deploy.{kind}", *arguments, "--webui-port", "0", **more
        )

    def spark_command(self, script: Path, *arguments: str) -> list[str | Path]:
        """The command that runs a script with a session of the cluster."""
        return [PYTHON, script, f"spark://{self.driver.address}:7077", self.driver.address,
                *arguments]  # fmt: skip

    def wait_for_nodes(self, count: int, seconds: float = 90) -> None:
        code = (
            "import ray, sys, time\n"
            "ray.init(log_to_driver=False, logging_level='error')\n"
            f"until = time.monotonic() + {seconds}\n"
            f"while sum(node['Alive'] for node in ray.nodes()) < {count}:\n"
            "    time.sleep(0.2)\n"
            "    if time.monotonic() > until: sys.exit('nodes are missing')\n"
        )
        until = time.monotonic() + seconds
        while True:
            try:
                self.run(PYTHON, "-c", code)
                return
            except Failed:
                if time.monotonic() > until:
                    raise
                time.sleep(1)

    def ray_environment(self, **more: str) -> dict[str, str]:
        address = f"{self.driver.address}:{PORT}"
        return self.driver.environment(RAY_ADDRESS=address, PYTHONPATH=PLACES, **more)

    def run(self, *words: str | Path, **more: str) -> str:
        """Runs a command on the driver's host; its output."""
        done = subprocess.run(
            self.driver.command(*words), capture_output=True, text=True, cwd="/",
            env=self.ray_environment(**more), check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise Failed(f"{' '.join(map(str, words[:3]))}: {done.stderr[-3000:]}")
        return done.stdout

    def close(self) -> None:
        for host in getattr(self, "sources", []):
            host.switch_off()
        if hasattr(self, "driver"):
            self.driver.switch_off()
        if self.server is not None:
            self.server.close()
        self.network.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if hasattr(self, "hosts_folder"):
            shutil.rmtree(self.hosts_folder, ignore_errors=True)


def tpch(scale: float, table: str, streams: int) -> list[Path]:
    """Stream files of a table, made when first asked for."""
    folder = CACHE / f"tpch-{scale}-{streams}"
    files = [folder / f"{table}.tbl.{stream + 1}" for stream in range(streams)]
    if not all(file.exists() for file in files):
        output_of([str(FULLBORE), "gen", "tpch", "--scale", str(scale), "--streams", str(streams),
                   "--tables", table, "--out", str(folder)])  # fmt: skip
    return files


__all__ = ["FULLBORE", "PYTHON", "Failed", "Host", "Lab", "Missing", "tpch"]
