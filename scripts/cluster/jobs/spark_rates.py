"""How fast Spark writes lineitem: spark_rates.py MASTER ADDRESS WAY JDBC_URL URL JARS FILES...

WAY is a format and a mode: `fullbore append`, `jdbc overwrite`, `nothing append`, which is a Python
sink that writes nothing. What is written is a frame in memory, or with `csv jdbc append` files.
Prints seconds and rows as JSON; only the write is timed.
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
    *source, form, mode = way.split()
    if not source:
        frame = frame.cache()
        rows = frame.count()
    began = time.monotonic()
    if form == "jdbc":
        settings = {"url": jdbc, "dbtable": "lineitem", "driver": "org.postgresql.Driver"}
        settings |= {"batchsize": "10000", "truncate": "true"}
    else:
        settings = {"to": url, "table": "lineitem"}
    frame.write.format(form).options(**settings).mode(mode).save()
    print(json.dumps({"seconds": time.monotonic() - began, "rows": rows}))
    spark.stop()


if __name__ == "__main__":
    main()
