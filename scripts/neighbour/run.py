"""A hostile neighbour: a role with the documented grants against a superuser's load, resume, undo,
abort, verify and publish. Nothing of what it puts into the database may run with the superuser's
rights.

    python scripts/neighbour/run.py                  # 14 to 18
    python scripts/neighbour/run.py 14 18 --short    # some of the attacks on rows
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import attacks
from attacks import LEDGER, Attack
from servers import PLACES, ROOT, Failed, Missing, Server, environment

FULLBORE = Path(os.environ.get("FULLBORE_BIN") or ROOT / ".venv/bin/fullbore").absolute()
SECONDS_MAX = 90
ROWS = 3000

TARGETS = """
CREATE TABLE t (k bigint PRIMARY KEY, n int, v text);
CREATE TABLE a (k bigint PRIMARY KEY, n int, v text);
CREATE TABLE r (k bigint PRIMARY KEY, n int, v text);
CREATE TABLE p (k bigint, n int, v text) PARTITION BY RANGE (k);
GRANT SELECT, INSERT ON t, a, r, p TO evil;
GRANT CREATE ON SCHEMA public TO evil;
"""

# docs/guides/resume.md has them; CREATE on the database is what the first loader needs.
GRANTS = f"""
GRANT USAGE ON SCHEMA {LEDGER} TO evil;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {LEDGER} TO evil;
"""

# Of a ledger's role: a path that names the schema of others before the server's own.
PATHS = ("", "-csearch_path%3Dpublic%2Cpg_catalog")


class Escaped(AssertionError):
    """Code of the neighbour's that had other rights than its own."""


class World:
    """One version's server, and the files that are loaded."""

    def __init__(self, version: int, folder: Path) -> None:
        self.server = Server(version, folder)
        self.home = folder / f"home{version}"
        self.good, self.bad = folder / "good.csv", folder / "bad.csv"
        rows = [f"{k},{k % 7},x\n" for k in range(ROWS)]
        self.good.write_text("".join(rows))
        self.bad.write_text("".join([*rows[: ROWS - 1], "bad,bad,bad\n"]))
        self.count = 0
        self.server.sql("CREATE ROLE evil LOGIN")

    def database(self) -> str:
        """A new one, in which `evil` has the documented grants."""
        self.count += 1
        name = f"d{self.count}"
        self.server.sql(f"CREATE DATABASE {name}; GRANT CREATE ON DATABASE {name} TO evil")
        self.server.sql(TARGETS, name)
        self.server.sql(attacks.ACT, name, "evil")
        return name

    def drop(self, database: str) -> None:
        self.server.sql(f"DROP DATABASE {database} WITH (FORCE)")

    def fullbore(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [str(FULLBORE), *arguments], env=environment(FULLBORE_HOME=str(self.home)),
                capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
                stdin=subprocess.DEVNULL, cwd=self.good.parent,
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            raise Escaped(f"hung for {SECONDS_MAX} s: fullbore {' '.join(arguments)}") from late

    def load(self, database: str, file: Path, table: str, *more: str, path: str = ""):
        url = self.server.url(database) + (f"&options={path}" if path else "")
        return self.fullbore("load", str(file), "--to", url, "--table", table, "--header", "none",
                             "--streams", "2", *more)  # fmt: skip

    def loads(self, database: str, path: str) -> None:
        """Every way of loading, some of which stop."""
        self.load(database, self.good, "t", path=path)
        self.load(database, self.bad, "t", "--resume", path=path)
        self.load(database, self.good, "a", "--atomic", "--verify", "full", path=path)
        self.load(database, self.bad, "a", "--max-rejects", "3", path=path)
        self.load(database, self.good, "r", "--publish", "replace", "--keep-old", path=path)
        self.load(database, self.good, "p", "--publish", "partitions", path=path)
        self.load(database, self.good, "a", "--atomic", "--part", "1/2", path=path)
        self.load(database, self.good, "made", "--create", path=path)

    def runs(self, database: str) -> list[str]:
        """Those that the ledger has, by ids that have the shape of one."""
        try:
            # Not as the superuser: it may be a view of evil's.
            found = self.server.sql(f"SELECT run FROM {LEDGER}.runs", database, "evil").splitlines()
        except Failed:
            found = []
        folder = self.home / "runs"
        here = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        known = dict.fromkeys([*found, *here[-8:]])
        return [run for run in known if re.fullmatch("[0-9a-z]{12,20}", run)]

    def commands(self, database: str, path: str) -> None:
        """Every command about every run."""
        url = self.server.url(database) + (f"&options={path}" if path else "")
        self.fullbore("runs", "list", "--to", url)
        for run in self.runs(database):
            for command in ("show", "verify", "publish", "resume", "undo", "abort"):
                self.fullbore("runs", command, run, "--to", url)

    def check(self, database: str, attack: str) -> None:
        if self.server.sql("SELECT rolsuper FROM pg_roles WHERE rolname = 'evil'") == "t":
            raise Escaped(f"{attack}: evil is a superuser")
        found = self.server.sql("SELECT DISTINCT who, what FROM evil.canary", database)
        if found:
            raise Escaped(f"{attack}: code of evil ran as {found.splitlines()}")

    def forget(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)


def documented(world: World, database: str) -> None:
    """The grants on a ledger that is there, and those of the extension."""
    world.server.sql(GRANTS, database)
    if world.server.has_extension():
        world.server.tries("CREATE EXTENSION fullbore", database, "postgres")
        world.server.tries(
            "GRANT USAGE ON SCHEMA fullbore TO evil;"
            "GRANT EXECUTE ON FUNCTION fullbore.descriptor(regclass) TO evil",
            database,
            "postgres",
        )


def attacked(world: World, attack: Attack) -> int:
    """One attack in a new database; how many of its statements were refused."""
    database = world.database()
    refused = 0
    try:
        if not attack.before:
            world.loads(database, "")
            documented(world, database)
        if attack.prepared:
            world.server.tries(attack.prepared, database, "postgres")
        for statement in attack.statements:
            refused += world.server.tries(statement, database, "evil") is not None
        if attack.before and world.server.has_extension():
            world.server.tries("CREATE EXTENSION fullbore", database, "postgres")
        for path in PATHS if attack.before else PATHS[:1]:
            world.loads(database, path)
            world.commands(database, path)
        world.check(database, attack.name)
    finally:
        world.drop(database)
        world.forget()
    return refused


def peeped(world: World) -> None:
    """Rows that wait, where default privileges would let everybody read new tables."""
    database = world.database()
    try:
        world.server.sql("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC", database)
        world.server.sql("REVOKE ALL ON a, r, p FROM evil", database)
        world.load(database, world.bad, "a", "--atomic", "--resume")
        world.load(database, world.bad, "r", "--publish", "replace", "--resume", "--method", "copy")
        world.load(
            database, world.bad, "p", "--publish", "partitions", "--resume", "--method", "copy"
        )
        seen = world.server.sql(
            f"""SELECT string_agg(c.oid::regclass::text, ', ') FROM pg_class c
                 WHERE (relname ~ '_fb_' OR relnamespace = '{LEDGER}'::regnamespace)
                   AND relkind IN ('r', 'p')
                   AND has_any_column_privilege('evil', c.oid, 'SELECT, INSERT, UPDATE')""",
            database,
        )
        if seen:
            raise Escaped(f"default privileges: evil may read or write {seen}")
    finally:
        world.drop(database)
        world.forget()


def trials(version: int, folder: Path, short: bool) -> int:
    """All attacks on one version; how many."""
    world = World(version, folder)
    try:
        sample = world.database()
        world.loads(sample, "")
        found = attacks.all_attacks(world.server, sample, world.runs(sample)[:3])
        world.drop(sample)
        world.forget()
        rows = [attack for attack in found if attack.name.startswith("rows:")]
        kept = rows[:: max(1, len(rows) // 2)] if short else rows
        chosen = [attack for attack in found if attack not in rows] + kept
        peeped(world)
        for attack in chosen:
            refused = attacked(world, attack)
            of = len(attack.statements)
            print(f"ok   {version}: {attack.name} ({refused} of {of} refused)", file=sys.stderr)
        return len(chosen) + 1
    finally:
        world.server.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="*", type=int, choices=[*PLACES, []], default=[])
    parser.add_argument("--short", action="store_true", help="fewer attacks on the ledger's rows")
    options = parser.parse_args()
    if not FULLBORE.exists():
        print(f"no {FULLBORE}: run `make build`", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="fbevil-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        for version in options.versions or PLACES:
            try:
                count = trials(version, folder, options.short)
            except Missing as missing:
                print(f"SKIP the neighbour on {version}: {missing}", file=sys.stderr)
                continue
            print(f"PostgreSQL {version}: {count} attacks, 0 escalations", file=sys.stderr)
    except Escaped as escaped:
        print(f"FAIL {escaped}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
