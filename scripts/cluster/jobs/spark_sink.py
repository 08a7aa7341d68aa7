"""A frame written by our data source: spark_sink.py MASTER ADDRESS URL TABLE MODE FOLDER [JARS].

With JARS, Spark's JDBC writer is used, and URL is one of JDBC.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import fullbore.spark
import pyarrow
import pyarrow.csv
from rows import COLUMNS, reading
from session import session


def read(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """The rows of files, by their paths: as COPY reads CSV."""
    for batch in batches:
        for path in batch.column("path").to_pylist():
            table = pyarrow.csv.read_csv(
                path.removeprefix("file:"),
                **reading(),
            )
            yield from table.to_batches()


def main() -> None:
    master, address, url, table, mode, folder, *jars = sys.argv[1:]
    spark = session(master, address, **({"spark.jars": jars[0]} if jars else {}))
    fullbore.spark.register(spark)
    paths = [(f"{folder}/part-{number}.csv",) for number in range(6)]
    schema = ", ".join(f"{name} string" for name in COLUMNS)
    rows = spark.createDataFrame(paths, "path string").repartition(6).mapInArrow(read, schema)
    if jars:
        settings = {"url": url, "dbtable": table, "driver": "org.postgresql.Driver"}
        writer = rows.write.format("jdbc").options(**settings)
    else:
        writer = rows.write.format("fullbore").options(to=url, table=table)
    writer.mode(mode).save()
    spark.stop()


if __name__ == "__main__":
    main()
