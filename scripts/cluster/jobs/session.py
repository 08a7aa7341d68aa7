"""A session of the lab's Spark cluster, for the scripts of this folder."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

# Of lineitem, as Spark calls its types; by COLUMNS of the demo.
SCHEMA = (
    "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int,"
    " l_quantity decimal(15,2), l_extendedprice decimal(15,2), l_discount decimal(15,2),"
    " l_tax decimal(15,2), l_returnflag string, l_linestatus string, l_shipdate date,"
    " l_commitdate date, l_receiptdate date, l_shipinstruct string, l_shipmode string,"
    " l_comment string"
)


def session(master: str, address: str, **settings: str) -> SparkSession:
    """A session of a master, whose driver is on this host."""
    builder = SparkSession.builder.master(master).appName("lab")
    known = {
        "spark.ui.enabled": "false",
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
        "spark.executor.memory": "900m",
        "spark.driver.memory": "1g",
        "spark.local.dir": "/tmp",
        "spark.sql.warehouse.dir": "/tmp/warehouse",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.executorEnv.FULLBORE_HOME": "/mnt/home",
        "spark.task.maxFailures": "6",
        **settings,
    }
    for name, value in known.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    print("session", file=sys.stderr, flush=True)
    return spark
