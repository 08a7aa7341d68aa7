"""Loads from Airflow, dlt and Dagster, each the real package, in an environment of their own.

Each test is a program that this environment runs: what these tools need is not for the others.
"""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path

import fullbore
import pytest
from embedded import Server

pytestmark = pytest.mark.usefixtures("own_state")

ROOT = Path(__file__).parents[2]
THEIRS = ROOT / ".cache" / "orchestrators" / "bin" / "python"


def needs(module: str) -> pytest.MarkDecorator:
    is_there = (
        THEIRS.exists()
        and not subprocess.run(
            [
                THEIRS,
                "-c",
                f"import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)",
            ]
        ).returncode
    )
    return pytest.mark.skipif(
        not is_there, reason=f"{module.upper()} IS MISSING: make orchestrators"
    )


def program(text: str, *arguments: str, url: str, home: Path) -> str:
    """What a program says that runs with their packages and ours."""
    file = home / "program.py"
    file.write_text(textwrap.dedent(text))
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "PATH": f"{fullbore.find_command().parent}:{os.environ['PATH']}",
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW_CONN_PLACE": url.replace("postgresql:", "postgres:", 1),
        "DAGSTER_HOME": "",
        "DLT_DATA_DIR": str(home / "dlt"),
        "RUNTIME__DLTHUB_TELEMETRY": "false",
        "URL": url,
    }
    ended = subprocess.run(
        [THEIRS, file, *arguments],
        capture_output=True,
        encoding="utf-8",
        env=environment,
        cwd=home,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@needs("airflow")
def test_airflow_loads_stops_and_resumes(server: Server, tmp_path: Path) -> None:
    server.sql("DROP TABLE IF EXISTS by_airflow; CREATE TABLE by_airflow (id bigint, v text)")
    rows = "".join(f"{row},text of row {row}\n" for row in range(200_000))
    (tmp_path / "rows.csv").write_text(rows)
    said = program(
        """
        import threading, time
        from fullbore.airflow import FullboreHook, LoadFiles

        class Try:
            def __init__(self, number): self.try_number = number

        slow = {"header": "none", "piece-size": "100kB", "max-rate": "2MB/s"}
        task = LoadFiles(
            task_id="t", source="rows.csv", table="by_airflow", fullbore_conn_id="place",
            options=slow
        )
        many = LoadFiles(task_id="m", source="rows.csv", options={"null": ["NA", "-"]})
        print(many.command(2)[-3:])
        in_order = {"order-by": "id", "publish": "replace"}
        for options in (in_order, {"order-by": "id"}):
            print(LoadFiles(task_id="o", source="rows.csv", options=options).command(2)[-1])
        threading.Timer(2, task.on_kill).start()
        try:
            task.execute({"ti": Try(1)})
            print("ended early")
        except RuntimeError as error:
            print("stopped:", str(error).splitlines()[-1])
        task.options["max-rate"] = None
        told = task.execute({"ti": Try(2)})
        print("rows", told["rows"], "before", told["rows_before"] > 0)
        line = " ".join(task.command(1))
        print("secret" if "postgres" in line.replace("by_airflow", "") else "clean")
        hook = FullboreHook("place")
        print("hook", hook.bulk_load("by_airflow", "rows.csv", if_loaded="again").rows)
        """,
        url=server.url,
        home=tmp_path,
    )
    assert "stopped:" in said and "rows 200000 before True" in said and "clean" in said, said
    assert "hook 200000" in said
    assert "['--null=NA', '--null=-', '--resume']" in said, "each of several is an option"
    assert "--publish=replace\n--resume\n" in said, "what has left nothing begins anew"
    assert server.sql("SELECT count(*), count(DISTINCT id) FROM by_airflow") == [
        ["400000", "200000"]
    ]


@needs("dlt")
def test_dlt_appends_and_merges(server: Server, tmp_path: Path) -> None:
    server.sql("DROP SCHEMA IF EXISTS shop CASCADE; CREATE SCHEMA shop")
    program(
        """
        import os
        import dlt
        from fullbore.dlt import destination

        pipeline = dlt.pipeline(
            "shop", destination=destination(os.environ["URL"], schema="shop", columns=None)
        )
        rows = [{"id": n, "name": f"row {n}", "part": n / 4} for n in range(1000)]
        pipeline.run(rows, table_name="customers")
        pipeline.run(rows[:10], table_name="customers")
        kept = dlt.resource(name="kept", primary_key="id", write_disposition="merge")
        for names in ("ab", "bc", "ab", "bc"):
            pipeline.run(kept(lambda: [{"id": ord(n), "name": n + names} for n in names])())
        try:
            pipeline.run(rows, table_name="customers", write_disposition="replace")
            raise SystemExit("replaced")
        except Exception as error:
            assert "write_disposition replace" in str(error), error
        """,
        url=server.url,
        home=tmp_path,
    )
    found = server.sql("SELECT count(*), count(DISTINCT id), sum(part) FROM shop.customers")
    assert found == [["1010", "1000", "124886.25"]]
    assert server.sql("SELECT name FROM shop.kept ORDER BY id") == [["aab"], ["bbc"], ["cbc"]]


@needs("dagster")
def test_dagster_is_told_of_a_materialization(server: Server, tmp_path: Path) -> None:
    server.sql("DROP TABLE IF EXISTS by_dagster")
    (tmp_path / "by_dagster.csv").write_text("id,v\n" + "".join(f"{n},{n}\n" for n in range(500)))
    (tmp_path / "job.toml").write_text(
        '[[table]]\nsources = ["by_dagster.csv"]\nname = "by_dagster"\ncreate = true\n'
    )
    said = program(
        """
        import json, os, sys
        import dagster

        @dagster.asset
        def by_dagster(context, client: dagster.PipesSubprocessClient):
            command = [sys.executable, "-m", "fullbore.dagster", "job.toml"]
            command += ["--to", os.environ["URL"]]
            return client.run(command=command, context=context).get_materialize_result()

        ended = dagster.materialize(
            [by_dagster], resources={"client": dagster.PipesSubprocessClient()}
        )
        [event] = ended.asset_materializations_for_node("by_dagster")
        print(json.dumps({name: value.value for name, value in event.metadata.items()}))
        """,
        url=server.url,
        home=tmp_path,
    )
    told = json.loads(said.splitlines()[-1])
    assert (told["dagster/row_count"], told["rejected"]) == (500, 0)
    assert server.sql("SELECT count(*) FROM by_dagster") == [["500"]]
