"""Tables and frames in Python's memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data import DataSet, tpch
from lab import DATA, HERE, ROOT, Case, Measured, Way, run_text
from measure import run_measured, said
from server import Server
from wheels import python_with

from cases.setting import Setting

# A scale of TPC-H whose lineitem takes about 1 GB as Arrow.
SCALE = 1.0
# to_sql would take minutes for all of it.
FEW_ROWS = 100_000


@contextmanager
def frames(setting: Setting) -> Iterator[Case]:
    """About 1 GB of lineitem as a pyarrow table and as a polars frame."""
    server, data = setting.server, tpch(setting.scale_of(SCALE), 4)
    python = python_with("adbc_driver_postgresql")
    frame = _made(python, data)
    notes = [
        "frames: only the load is timed, its CPU counted, and as memory what it adds to the frame;"
        " to_sql loads 100,000 rows."
    ]
    size = _bytes(python, frame, 0)
    few = _bytes(python, frame, FEW_ROWS)

    def way(name: str, kind: str, *more: str) -> Way:
        size_of_it = few if more else size
        return Way(name, lambda: _load(server, data, python, frame, kind, *more), size_of_it)

    ways = [
        way("fullbore, direct", "fullbore-direct"),
        way("fullbore, direct, polars", "fullbore-direct-polars"),
        way("fullbore, copy", "fullbore-copy"),
        way("fullbore, copy, polars", "fullbore-copy-polars"),
        way("ADBC", "adbc"),
        way("ADBC, polars", "adbc-polars"),
        way("pandas to_sql", "to_sql", str(FEW_ROWS)),
        way("pandas to_sql, multi", "to_sql-multi", str(FEW_ROWS)),
    ]
    yield Case(size, ways, [frame], notes=notes)


def _made(python: str, data: DataSet) -> Path:
    """The data as Parquet, made once."""
    path = DATA / f"{data.files[0].parent.name}-{data.table}.parquet"
    if not path.exists():
        part = path.with_suffix(".part")
        run_text([python, str(HERE / "tools" / "frame_make.py"), data.described(), str(part)])
        part.rename(path)
    return path


def _bytes(python: str, frame: Path, rows: int) -> int:
    """Bytes of the values of a frame, or of its first rows."""
    script = (
        "import pyarrow.parquet as pq, sys; t = pq.read_table(sys.argv[1]);"
        " print(t.slice(0, int(sys.argv[2]) or None).nbytes)"
    )
    return int(run_text([python, "-c", script, str(frame), str(rows)]))


def _load(
    server: Server, data: DataSet, python: str, frame: Path, kind: str, *more: str
) -> Measured:
    server.sql(data.create())
    script = str(HERE / "tools" / "frame_load.py")
    command = [python, script, data.described(), server.url, kind, str(frame), *more]
    ours = {"PYTHONPATH": str(ROOT / "python")}
    measured = run_measured(server, [(command, None)], env=ours)
    told = json.loads(said().strip().splitlines()[-1])
    # Without Python's start and the making of the frame.
    before = float(str(measured.notes["seconds_before_checkpoint"]))
    measured.seconds += told["seconds"] - before
    measured.client_cpu, measured.client_memory = told["cpu"], told["memory"]
    return measured
