"""A dataset written by our sink: ray_sink.py URL TABLE MODE FOLDER."""

from __future__ import annotations

import sys

import fullbore.ray
import pyarrow
import pyarrow.csv
import ray

COLUMNS = ("k", "n", "day", "amount", "word", "note")


def main() -> None:
    url, table, mode, folder = sys.argv[1:]
    ray.init(log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    # As COPY reads CSV: what is unquoted and empty is null, and the server reads every value.
    rows = ray.data.read_csv(
        folder,
        read_options=pyarrow.csv.ReadOptions(column_names=list(COLUMNS)),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(COLUMNS, pyarrow.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
        override_num_blocks=12,
    )
    sink = fullbore.ray.Sink(table, url, mode=mode)
    rows.write_datasink(sink)
    print(sink.result.rows)


if __name__ == "__main__":
    main()
