"""Ray Data's own way into a database: ray_sql.py URL FILES..."""

from __future__ import annotations

import sys

import pyarrow
import pyarrow.csv
import ray

COLUMNS = 16


def main() -> None:
    url, *files = sys.argv[1:]
    ray.init(log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    names = [f"c{n}" for n in range(COLUMNS + 1)]
    read = pyarrow.csv.ReadOptions(column_names=names)
    # Dates as text: the database reads them.
    dates = {f"c{n}": pyarrow.string() for n in (10, 11, 12)}
    rows = ray.data.read_csv(
        files,
        read_options=read,
        parse_options=pyarrow.csv.ParseOptions(delimiter="|"),
        convert_options=pyarrow.csv.ConvertOptions(column_types=dates),
    ).drop_columns([names[-1]])

    def connect() -> object:
        import psycopg2

        return psycopg2.connect(url)

    marks = ", ".join(["%s"] * COLUMNS)
    rows.write_sql(f"INSERT INTO lineitem VALUES ({marks})", connect)


if __name__ == "__main__":
    main()
