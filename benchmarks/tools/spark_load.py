"""Spark's JDBC writer. ``spark_load.py DESCRIPTION JDBC_URL TRANSFORM``, run by spark-submit."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import expr
from source import Source, described

KINDS = {"int64": "BIGINT", "int32": "INT", "float64": "DOUBLE", "text": "STRING"}
KINDS |= {"bool": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP_NTZ"}


def load(session: SparkSession, source: Source, url: str, done: dict) -> None:
    """Two tasks, batches of 10,000 rows, rewritten by the driver into statements of many rows."""
    schema = ", ".join(
        f"{name} {KINDS.get(kind, kind.upper())}" for name, kind in source.columns.items()
    )
    frame = session.read.csv(
        source.files,
        schema=schema,
        sep=source.delimiter,
        header=source.header,
        quote=source.quote,
        escape=source.quote,
    )
    if done["where"]:
        frame = frame.where(done["where"])
    for column, sql in done["select"].items():
        frame = frame.withColumn(column, expr(sql).cast(frame.schema[column].dataType))
    settings = {"url": url, "dbtable": source.table, "driver": "org.postgresql.Driver"}
    settings |= {"batchsize": "10000", "numPartitions": "2"}
    frame.repartition(2).write.format("jdbc").options(**settings).mode("append").save()


if __name__ == "__main__":
    with SparkSession.builder.appName("bench").getOrCreate() as spark:
        spark.sparkContext.setLogLevel("ERROR")
        load(spark, described(), sys.argv[2], json.loads(sys.argv[3]))
