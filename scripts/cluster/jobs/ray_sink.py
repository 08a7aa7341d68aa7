"""A dataset written by our sink: ray_sink.py URL TABLE MODE FOLDER."""

from __future__ import annotations

import sys

import fullbore.ray
import ray
from rows import reading


def main() -> None:
    url, table, mode, folder = sys.argv[1:]
    ray.init(log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = ray.data.read_csv(
        folder,
        **reading(),
        override_num_blocks=12,
    )
    sink = fullbore.ray.Sink(table, url, mode=mode)
    rows.write_datasink(sink)
    print(sink.result.rows)


if __name__ == "__main__":
    main()
