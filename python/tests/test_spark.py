"""DataFrames of Spark written by tasks, in a Spark of this machine."""

from __future__ import annotations

import datetime
import decimal
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faulty
import pytest
from embedded import Server

pytest.importorskip("pyspark", reason="SPARK IS NOT TESTED: it is not installed")
JAVA = subprocess.run(["sh", "-c", "java -version"], capture_output=True, encoding="utf-8").stderr
if not re.search(r'"(1[7-9]|2\d)', JAVA):
    pytest.skip("SPARK IS NOT TESTED: it needs Java 17", allow_module_level=True)

from pyspark.sql import SparkSession  # noqa: E402

import fullbore.spark  # noqa: E402 isort: skip
import faulty_spark  # noqa: E402 isort: skip

ROWS = 100_000


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # What workers import: a broken sink, too.
        places = [str(Path(fullbore.__file__).parent.parent), str(Path(__file__).parent)]
        patch.setenv("PYTHONPATH", os.pathsep.join(places))
        patch.setenv("FULLBORE_HOME", str(folder / "home"))
        builder = SparkSession.builder.master("local[2,4]")
        settings = {
            "spark.ui.enabled": "false",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "Asia/Kolkata",
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        fullbore.spark.register(session)
        session.dataSource.register(faulty_spark.FaultySource)
        yield session
        session.stop()


@pytest.fixture
def target(server: Server, own_state: None) -> Server:
    server.sql(
        "DROP SCHEMA IF EXISTS fullbore_ledger CASCADE; DROP TABLE IF EXISTS sparks;"
        "CREATE TABLE sparks (id bigint PRIMARY KEY, word text)"
    )
    return server


def frame(spark: SparkSession, rows: int = ROWS) -> Any:
    return spark.range(0, rows, 1, 4).selectExpr("id", "concat('word ', id % 97) AS word")


def found(server: Server) -> list[str]:
    """Rows, distinct keys; staged tables; writes that have not ended."""
    staged = "SELECT count(*) FROM pg_class WHERE relname LIKE 'sparks\\_fb\\_%' AND relkind = 'r'"
    open_ = "SELECT count(*) FROM fullbore_ledger.runs WHERE state NOT IN ('finished', 'undone')"
    counts = server.sql("SELECT count(*), count(DISTINCT id) FROM sparks")[0]
    return counts + server.sql(staged)[0] + server.sql(open_)[0]


def save(writer: Any, server: Server, **options: str) -> None:
    options = {"to": server.url, "table": "sparks", **options}
    writer.options(**options).save()


def test_frames_are_appended_and_overwritten(spark: SparkSession, target: Server) -> None:
    save(frame(spark).write.format("fullbore").mode("append"), target)
    assert found(target) == [str(ROWS), str(ROWS), "0", "0"]
    save(frame(spark, 10).write.format("fullbore").mode("overwrite"), target)
    assert found(target) == ["10", "10", "0", "0"]
    save(frame(spark, 0).write.format("fullbore").mode("append"), target)
    assert found(target) == ["10", "10", "0", "0"]
    # The table is what it was.
    assert target.sql("SELECT count(*) FROM pg_index WHERE indrelid = 'sparks'::regclass") == [
        ["1"]
    ]


def test_every_type_arrives_as_it_was(spark: SparkSession, target: Server) -> None:
    moment = datetime.datetime(2026, 2, 3, 4, 5, 6, 789012)
    row = {
        "small": 1,
        "amount": decimal.Decimal("12345678901234567890.12345678"),
        "real": 1.5,
        "flag": True,
        "text": 'a\tb\n"c\\',
        "bytes": bytearray(b"\x00\xff"),
        "day": datetime.date(1999, 12, 31),
        "at": moment.replace(tzinfo=datetime.timezone.utc),
        "local": moment,
        "list": [1, None, 3],
    }
    schema = (
        "small smallint, amount decimal(38,8), real double, flag boolean, text string, "
        "bytes binary, day date, at timestamp, local timestamp_ntz, list array<int>"
    )
    rows = spark.createDataFrame([row, dict.fromkeys(row)], schema)
    target.sql("DROP TABLE IF EXISTS sparks")
    save(rows.write.format("fullbore").mode("append"), target, create="true")
    (said,) = target.sql(
        "SET timezone = 'UTC'; SELECT small, amount, real, flag, text, bytes, day, at, local, list"
        " FROM sparks WHERE small IS NOT NULL"
    )
    assert said == [
        "1",
        "12345678901234567890.12345678",
        "1.5",
        "t",
        'a\tb\n"c\\',
        "\\x00ff",
        "1999-12-31",
        "2026-02-03 04:05:06.789012+00",
        "2026-02-03 04:05:06.789012",
        "{1,NULL,3}",
    ]
    nulls = "SELECT count(*) FROM sparks WHERE small IS NULL AND list IS NULL AND local IS NULL"
    assert target.sql(nulls) == [["1"]]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("moment", faulty.MOMENTS)
def test_workers_that_are_killed_double_nothing(
    spark: SparkSession, target: Server, tmp_path: Path, moment: str, mode: str
) -> None:
    writer = frame(spark).write.format("faulty").mode(mode)
    save(writer, target, moment=moment, folder=str(tmp_path))
    assert len(list(tmp_path.glob("task-*"))) == 4
    assert found(target) == [str(ROWS), str(ROWS), "0", "0"]


def test_a_write_that_fails_leaves_nothing(spark: SparkSession, target: Server) -> None:
    target.sql("INSERT INTO sparks VALUES (5, 'was there')")
    with pytest.raises(Exception, match="duplicate key"):
        save(frame(spark).write.format("fullbore").mode("append"), target)
    assert found(target) == ["1", "1", "0", "0"]
    bad = frame(spark).selectExpr("CASE WHEN id = 70000 THEN NULL ELSE id END AS id", "word")
    with pytest.raises(Exception, match="id"):
        save(bad.write.format("fullbore").mode("overwrite"), target)
    assert found(target) == ["1", "1", "0", "0"]


@pytest.mark.parametrize("kind", ["fullbore", "faulty"])
def test_a_stream_that_is_replayed_loads_nothing_twice(
    spark: SparkSession, target: Server, tmp_path: Path, kind: str
) -> None:
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    for number in range(3):
        part = spark.range(number * 1000, (number + 1) * 1000, 1, 2)
        part.selectExpr("id", "'w' AS word").write.mode("append").parquet(str(source))

    def run() -> None:
        stream = spark.readStream.schema("id bigint, word string")
        stream = stream.option("maxFilesPerTrigger", 2).parquet(str(source))
        writer = stream.writeStream.format(kind).trigger(availableNow=True)
        options = {"to": target.url, "table": "sparks", "checkpointLocation": str(checkpoint)}
        options |= (
            {"moment": faulty.MOMENTS[1], "folder": str(tmp_path)} if kind == "faulty" else {}
        )
        query = writer.options(**options).start()
        query.awaitTermination(120)
        assert query.exception() is None

    run()
    assert found(target) == ["3000", "3000", "0", "0"]
    # The query ended after our commit and before Spark's: its last batch is replayed.
    for log in (checkpoint / "commits").iterdir():
        if log.name.strip(".").startswith("2"):
            log.unlink()
    run()
    assert found(target) == ["3000", "3000", "0", "0"]
    # Another query is another one.
    shutil.rmtree(checkpoint)
    target.sql("TRUNCATE sparks")
    run()
    assert found(target) == ["3000", "3000", "0", "0"]
