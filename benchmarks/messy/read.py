"""Reads files with DuckDB or what Fullbore wrote as Parquet: ``read.py TASKS.json``; runs among the
peers' wheels, and prints names and rows, all of them as text.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def text(value: object) -> str | None:
    """A value as text."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def of_duckdb(path: str, options: dict[str, object]) -> dict[str, object]:
    """What read_csv makes of a file."""
    import duckdb

    try:
        relation = duckdb.read_csv(path, **options)
        rows = relation.fetchall()
    except Exception as error:
        # An option that it does not have would make it look worse than it is.
        if "do not have the" in str(error):
            raise
        return {"error": str(error).splitlines()[0]}
    return {"names": relation.columns, "rows": [[text(value) for value in row] for row in rows]}


def of_parquet(folder: str) -> dict[str, object]:
    """What was written into a folder, in order."""
    import pyarrow.parquet

    names: list[str] = []
    rows: list[list[str | None]] = []
    # table.run.piece.parquet
    for path in sorted(Path(folder).glob("*.parquet"), key=lambda path: path.name.split(".")[-2]):
        table = pyarrow.parquet.read_table(path)
        names = table.column_names
        columns = [
            [value.hex() if isinstance(value, bytes) else value for value in column.to_pylist()]
            for column in table.columns
        ]
        rows += [[text(value) for value in row] for row in zip(*columns, strict=True)]
    return {"names": names, "rows": rows}


def main() -> None:
    results = []
    for task in json.loads(Path(sys.argv[1]).read_text()):
        if "folder" in task:
            results.append(of_parquet(task["folder"]))
        else:
            tried = [of_duckdb(task["path"], options) for options in task["options"]]
            results.append({"tried": tried})
    print(json.dumps(results))


if __name__ == "__main__":
    main()
