"""dlt: pyarrow tables through its pipeline, loaded by its COPY of CSV files.

``dlt_load.py DESCRIPTION URL FOLDER``: the folder is for what a pipeline leaves. dlt makes the
table itself: text becomes varchar without a length, and columns may be NULL.
"""

from __future__ import annotations

import os
import sys

from source import arrow_batches, decimal_of, described

if __name__ == "__main__":
    os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
    os.environ["RUNTIME__LOG_LEVEL"] = "CRITICAL"
    os.environ["EXTRACT__WORKERS"] = os.environ["LOAD__WORKERS"] = "2"
    import dlt
    import pyarrow as pa

    source = described()
    # It wants a host and a password, which a unix socket has no use for: libpq's last word on the
    # host is the parameter.
    url = sys.argv[2].replace("postgres@/", "postgres:none@localhost/", 1)
    columns = {}
    for name, kind in source.columns.items():
        decimal = decimal_of(kind)
        if decimal:
            columns[name] = {
                "data_type": "decimal",
                "precision": decimal[0],
                "scale": decimal[1],
            }
    pipeline = dlt.pipeline(
        "bench",
        pipelines_dir=sys.argv[3],
        destination=dlt.destinations.postgres(url),
        dataset_name="bench",
    )
    resource = dlt.resource(
        (pa.Table.from_batches([batch]) for batch in arrow_batches(source)),
        name=source.table,
        columns=columns,
        write_disposition="append",
    )
    pipeline.run(resource, loader_file_format="csv").raise_on_failed_jobs()
