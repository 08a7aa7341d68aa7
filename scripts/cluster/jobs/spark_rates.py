"""How fast Spark writes lineitem: spark_rates.py MASTER ADDRESS WAY JDBC_URL URL JARS FILES...

WAY is `csv-jdbc`: from files; or, of a frame in the executors' memory, `jdbc`, `fullbore`, `null`
(a Python sink that writes nothing). Prints seconds and rows as JSON; only the write is timed.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import fullbore.spark
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from session import SCHEMA, session


class Nothing(DataSource):
    @classmethod
    def name(cls) -> str:
        return "nothing"

    def writer(self, schema: Any, overwrite: bool) -> Any:
        class Writer(DataSourceArrowWriter):
            def write(self, iterator: Any) -> WriterCommitMessage:
                for _ in iterator:
                    pass
                return WriterCommitMessage()

            def commit(self, messages: Any) -> None:
                pass

        return Writer()


def main() -> None:
    master, address, way, jdbc, url, jars, *files = sys.argv[1:]
    spark = session(master, address, **{"spark.jars": jars})
    fullbore.spark.register(spark)
    spark.dataSource.register(Nothing)
    frame = spark.read.csv(files, schema=SCHEMA + ", nothing string", sep="|").drop("nothing")
    rows = 0
    if way != "csv-jdbc":
        frame = frame.cache()
        rows = frame.count()
    began = time.monotonic()
    if way in ("jdbc", "csv-jdbc"):
        settings = {"url": jdbc, "dbtable": "lineitem", "driver": "org.postgresql.Driver"}
        settings |= {"batchsize": "10000"}
        frame.write.format("jdbc").options(**settings).mode("append").save()
    elif way == "fullbore":
        writer = frame.write.format("fullbore").option("to", url).option("table", "lineitem")
        writer.mode("append").save()
    else:
        frame.write.format("nothing").mode("append").save()
    print(json.dumps({"seconds": time.monotonic() - began, "rows": rows}))
    spark.stop()


if __name__ == "__main__":
    main()
