"""Spark's JDBC writer, over the same unix socket as the others.

It needs Java, a wheel, and three jars that Maven fetches: the PostgreSQL driver, and junixsocket,
with which Java connects to a unix socket.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from data import DataSet
from lab import DATA, HERE, SCRATCH, Failed, Measured, Missing, run_text
from measure import run_measured
from server import Server
from wheels import python_with

JARS = {
    "postgresql-42.7.8.jar": "org.postgresql:postgresql:42.7.8",
    "junixsocket-common-2.10.1.jar": "com.kohlschutter.junixsocket:junixsocket-common:2.10.1",
    "junixsocket-native-common-2.10.1.jar": (
        "com.kohlschutter.junixsocket:junixsocket-native-common:2.10.1"
    ),
}
FACTORY = "org.newsclub.net.unix.AFUNIXSocketFactory$FactoryArg"


def spark(
    server: Server, data: DataSet, select: dict[str, str] | None = None, condition: str = ""
) -> Callable[[], Measured]:
    """Two tasks into a table that is there already; columns may be computed and rows left out."""
    if shutil.which("java") is None:
        raise Missing("Java is not installed (Debian: apt-get install default-jre-headless)")
    jars = ",".join(str(path) for path in _jars())
    python = python_with("pyspark", "requirements-spark.txt")
    submit = str(Path(python).parent / "spark-submit")

    def load() -> Measured:
        server.sql(data.create())
        where = parse_qs(urlsplit(server.url).query)
        socket = f"{where['host'][0]}/.s.PGSQL.{where['port'][0]}"
        url = (
            f"jdbc:postgresql://localhost/postgres?user=postgres&socketFactory={FACTORY}"
            f"&socketFactoryArg={socket}&reWriteBatchedInserts=true&stringtype=unspecified"
        )
        command = [submit, "--master", "local[2]", "--driver-memory", "2g", "--jars", jars]
        command += ["--conf", f"spark.local.dir={SCRATCH / 'spark'}"]
        command += ["--conf", "spark.driver.host=127.0.0.1"]
        command += ["--conf", "spark.driver.bindAddress=127.0.0.1"]
        command += ["--conf", "spark.ui.enabled=false", str(HERE / "tools" / "spark_load.py")]
        env = {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
        done = json.dumps({"select": select or {}, "where": condition})
        return run_measured(server, [([*command, data.described(), url, done], None)], env=env)

    return load


def _jars() -> list[Path]:
    folder = DATA / "jars"
    for name, artifact in JARS.items():
        if not (folder / name).exists():
            if shutil.which("mvn") is None:
                raise Missing("Maven, which fetches its jars, is not installed")
            fetch = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}"]
            try:
                run_text([*fetch, f"-DoutputDirectory={folder}"])
            except Failed as error:
                raise Missing(f"Maven could not fetch {artifact}: {error}") from error
    return [folder / name for name in JARS]
