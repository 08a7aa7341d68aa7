"""All phases and victims on servers of their own, and the account of it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from urllib.parse import quote

from server import Installation

from crash.matrix import SETTINGS, VICTIMS, Account, Matrix
from crash.phases import PHASES
from crash.shim import shimmed_server


class Orphans:
    """Asks ``fullbore server orphans``, where that command is built, what it finds."""

    def __init__(self, command: Path) -> None:
        self.command = command
        self.asked = 0
        self.named = 0
        self.soon = 0

    def compare(self, matrix: Matrix) -> None:
        """It names exactly the files that no catalog knows."""
        unknown = matrix.unknown_files()
        if not self.command.exists():
            return
        url = f"postgresql://postgres@{quote(str(matrix.server.socket_dir), safe='')}/matrix"
        done = subprocess.run(
            [str(self.command), "server", "orphans", url, "--json"], capture_output=True, text=True
        )
        assert done.returncode in (0, 1), done.stderr
        answer = json.loads(done.stdout)
        named = {relation["path"] for relation in answer["orphans"]}
        # Empty, and changed in the second before the last checkpoint: not told from a table that
        # was dropped after it, whose file the next one removes.
        soon = {relation["path"]: relation["bytes"] for relation in answer["removed_soon"]}
        assert not any(soon.values()), f"{matrix.level}: {soon} are not empty"
        assert named | set(soon) == unknown, f"{matrix.level}: {answer}, unknown are {unknown}"
        self.soon += len(soon)
        assert done.returncode == (1 if named else 0)
        self.asked += 1
        self.named += len(named)
        matrix.remove(unknown)


def run(
    installation: Installation,
    levels: list[str],
    times: int,
    seed: int,
    orphans: Orphans,
    progress: bool = False,
    short: bool = False,
) -> tuple[Account, str]:
    """The matrix, phase by phase; an AssertionError ends it and names the case.

    Its short form kills the postmaster, which takes longest, in a third of the phases, and looks
    at all files once.
    """
    account = Account()
    version = ""
    for level in levels:
        server, shim = shimmed_server(installation, {**SETTINGS, "wal_level": level})
        try:
            version = server.program("postgres", "--version").strip()
            matrix = Matrix(server, shim, seed, account)
            phases = [p for p in PHASES if level in p.levels and installation.name in p.versions]
            for number, phase in enumerate(phases):
                for victim in VICTIMS:
                    if short and victim == "postmaster" and number % 3 != seed % 3:
                        continue
                    for _ in range(times):
                        matrix.case(phase, victim)
                if short and phase is not phases[-1]:
                    continue
                orphans.compare(matrix)
                matrix.end_of_group()
                if progress:
                    print(f"  {level}: {phase.name}", flush=True)
        except BaseException:
            print(f"seed {seed}; the server's log ends with:\n{server.log[-3000:]}")
            raise
        finally:
            shim.let_go()
            server.close()
    return account, version


def report(
    account: Account, version: str, times: int, seed: int, orphans: Orphans, seconds: float
) -> str:
    """The account, for people and for the file that is kept."""
    cases = sum(sum(outcomes.values()) for outcomes in account.outcomes.values())
    asked = (
        f"asked {orphans.asked} times, `fullbore server orphans` told of exactly the relation "
        f"files that no catalog knew: {orphans.named} as orphans, {orphans.soon}, just emptied, "
        "as removed soon"
        if orphans.asked
        else "`fullbore` was not at hand: orphans were not compared with its answer"
    )
    lines = [
        f"seed {seed}; {version}; {times} of each phase and victim; {seconds:.0f} s",
        f"{cases} kills; moments that were passed by and tried again: {account.missed}",
        "after each: the piece absent or complete (count and checksum) as its moment demands, "
        "amcheck where the server has it, another table unchanged; after each phase: all "
        "earlier pieces again, pg_checksums over all files",
        f"pieces that left a file behind: {account.orphans}; {asked}",
        "",
        f"{'WAL level':9} {'client':>16} {'backend':>16} {'postmaster':>16}  killed",
        f"{'':9} {'absent complete':>16} {'absent complete':>16} {'absent complete':>16}",
    ]
    for level, phase in dict.fromkeys((key[0], key[1]) for key in account.outcomes):
        found = [account.outcomes[level, phase, victim] for victim in VICTIMS]
        counts = " ".join(f"{one['absent']:>7} {one['complete']:>8}" for one in found)
        lines.append(f"{level:9} {counts}  {phase}")
    return "\n".join(lines) + "\n"
