"""What other ways of writing from Spark and Ray do when executors die.

    python scripts/cluster/peers.py [--count 12] [--only JDBC|write_sql]

Spark's JDBC writer and Ray Data's write_sql write the rows that trials.py writes, and have their
writers killed as there: in the middle of a task, and after a task's COMMIT was done. The table has
no primary key, as tables have none that are filled for the first time. What is then in it is
compared with the rows there are; nothing fails here, and ours are in trials.py. Needs root.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from pathlib import Path

from lab import PYTHON, ROOT, Failed, Host, Lab, Missing
from trials import (
    BREAK,
    COLUMNS,
    EXECUTOR,
    JOBS,
    TARGET,
    Trial,
    Way,
    Wrong,
    kept,
    lab_of,
    made,
)

DRIVER = ROOT / "benchmarks" / "data" / "jars" / "postgresql-42.7.8.jar"
WAYS = [Way("spark", "JDBC"), Way("ray-sink", "write_sql")]
FAULTS = ("worker", "worker-unheard")
SENDING = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO%'"
# The share of rows in the table that are there more than once, and of those that are missing.
FOUND = f"SELECT count(*), count(DISTINCT k) FROM {TARGET}"


def fetch() -> None:
    """Fetches what the peers need: PostgreSQL's driver for Java, and one for Python."""
    if not DRIVER.exists():
        artifact = "-Dartifact=org.postgresql:postgresql:42.7.8"
        command = ["mvn", "-q", "-B", "dependency:copy", artifact]
        subprocess.run([*command, f"-DoutputDirectory={DRIVER.parent}"], check=True)
    if subprocess.run([PYTHON, "-c", "import psycopg2"], capture_output=True).returncode != 0:
        install = [PYTHON, "-m", "pip", "install", "--quiet", "psycopg2-binary==2.9.13"]
        subprocess.run(install, check=True)


def jdbc(lab: Lab) -> str:
    """The address of the lab's server for Java, with what makes its inserts fast."""
    return (
        f"jdbc:postgresql://{lab.server.address}:5432/faults?user=postgres"
        "&reWriteBatchedInserts=true&stringtype=unspecified"
    )


class Peer(Trial):
    """A write by a peer, and what happens to it."""

    def begin(self) -> None:
        columns = COLUMNS.replace(" PRIMARY KEY", "")
        self.lab.server.sql(f"DROP TABLE IF EXISTS {TARGET}; CREATE TABLE {TARGET} ({columns})")

    def command(self, resume: bool = False) -> list[str | Path]:
        if self.way.engine == "spark":
            script = JOBS / "spark_sink.py"
            folder = "/mnt/shared"
            return self.lab.spark_command(
                script, jdbc(self.lab), TARGET, "append", folder, str(DRIVER)
            )
        url = self.lab.server.network_url
        return [PYTHON, JOBS / "ray_sink.py", url, TARGET, "write_sql", "/mnt/shared"]

    def moving(self) -> bool:
        return int(self.lab.server.sql(SENDING)) > 0

    def workers(self, host: Host) -> list[int]:
        """What writes: an executor of Spark, a worker of Ray."""
        if self.way.engine != "spark":
            return super().workers(host)
        return host.having(EXECUTOR)

    def judged(self, rows: int, code: int) -> str:
        """What the user has now, in words."""
        count, keys = map(int, self.lab.server.sql(FOUND).split("|"))
        said = "succeeds" if code == 0 else "fails"
        wrong = [f"{number} rows {what}" for number, what in
                 ((count - keys, "twice"), (rows - keys, "missing")) if number]  # fmt: skip
        return f"the write {said}: {' and '.join(wrong) or 'every row once'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--megabytes", type=int, default=120)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", choices=[way.publish for way in WAYS])
    asked = parser.parse_args()
    data = made(asked.megabytes)
    done = []
    fetch()
    for way in WAYS:
        if asked.only not in (None, way.publish):
            continue
        with lab_of(way.engine, data) as lab:
            rows = int(lab.server.sql("SELECT count(*) FROM plain"))
            for number in range(asked.count // len(WAYS)):
                fault = FAULTS[number % len(FAULTS)]
                if way.engine != "spark":
                    lab.mend_ray()
                trial = Peer(lab, data, way, random.Random(f"{asked.seed} {number}"))
                try:
                    is_hit, code = trial.run(BREAK[fault])
                    said = trial.judged(rows, code)
                except (Wrong, Failed) as wrong:
                    is_hit, said = True, str(wrong)
                said += "" if is_hit else " (it ended before)"
                done.append({"way": way.name, "fault": fault, "said": said})
                kept(asked.out, done)
                print(f"{len(done):4} {way.name}: {fault}: {said}", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Missing as missing:
        print(f"SKIP faults of peers: {missing}", file=sys.stderr)
