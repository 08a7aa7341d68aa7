"""TPC-H files, and the description of a data set that every peer is given."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from lab import DATA, FULLBORE, ROOT, run_text, size_of

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
KINDS = {"bigint": "int64", "integer": "int32", "float8": "float64", "boolean": "bool"}
KINDS |= {"date": "date", "timestamp": "timestamp"}
COLUMN = re.compile(r"^\s*(\w+) ([a-z0-9]+(?:\([\d,]+\))?)", re.MULTILINE)


@dataclass(frozen=True)
class DataSet:
    """Files of one table, how they are written, and how the table is made.

    ``schema`` is a CREATE TABLE statement with ``{table}`` in place of the name; ``files`` are
    what we load, ``plain`` what the others load: the same bytes, but that COPY and most readers
    take no trailing delimiter.
    """

    table: str
    schema: str
    files: list[Path]
    plain: list[Path]
    copy: str
    ours: tuple[str, ...]
    delimiter: str
    quote: str = ""
    header: bool = False

    @property
    def size(self) -> int:
        """Bytes that we load."""
        return size_of(self.files)

    @property
    def columns(self) -> dict[str, str]:
        """Each column's type, as the schema has it."""
        return dict(COLUMN.findall(self.schema.partition("(")[2]))

    def create(self, table: str | None = None) -> str:
        """The statement that makes the table."""
        return self.schema.format(table=table or self.table)

    def described(self) -> str:
        """For programs that are not part of this one: JSON."""
        kinds = {name: KINDS.get(kind, kind) for name, kind in self.columns.items()}
        return json.dumps(
            {
                "table": self.table,
                "columns": {n: k if k in KINDS.values() else _other(k) for n, k in kinds.items()},
                "files": [str(path) for path in self.plain],
                "delimiter": self.delimiter,
                "quote": self.quote,
                "header": self.header,
            }
        )

    def typed(self) -> tuple[str, ...]:
        """Our options where no table says what the columns are."""
        types = (f"--type={name}={kind}" for name, kind in self.columns.items())
        if self.header:
            return (*self.ours, *types)
        return (*self.ours, "--header", "none", "--columns", ",".join(self.columns), *types)


def _other(kind: str) -> str:
    return kind.replace("numeric", "decimal") if kind.startswith("numeric") else "text"


def generated(scale: str, streams: int, tables: tuple[str, ...]) -> Path:
    """The folder with TPC-H files, generated once."""
    folder = DATA / f"tpch-{scale}-{streams}"
    for table in tables:
        done = folder / f".{table}.done"
        if not done.exists():
            folder.mkdir(parents=True, exist_ok=True)
            command = [str(FULLBORE), "gen", "tpch", "--scale", scale, "--streams", str(streams)]
            run_text([*command, "--tables", table, "--out", str(folder)])
            done.touch()
    return folder


def tpch(scale: str, streams: int, table: str = "lineitem", with_plain: bool = True) -> DataSet:
    """One table of TPC-H; without plain files where nobody but us loads them."""
    folder = generated(scale, streams, (table,))
    schema = (ROOT / "demo" / "schema" / f"{table}.sql").read_text().strip().rstrip(";")
    files = sorted(
        path for path in folder.glob(f"{table}.tbl*") if re.fullmatch(r"\.tbl|\.\d+", path.suffix)
    )
    return DataSet(
        table=table,
        schema=schema.replace(f"TABLE {table}", "TABLE {table}", 1),
        files=files,
        plain=[_without_trailing_delimiter(path) for path in files] if with_plain else [],
        copy="DELIMITER '|'",
        ours=("--format", "tbl"),
        delimiter="|",
    )


def _without_trailing_delimiter(path: Path) -> Path:
    """The same rows as plain COPY takes them."""
    folder = path.parent / "plain"
    plain = folder / path.name
    if not plain.exists():
        folder.mkdir(exist_ok=True)
        unfinished = plain.with_suffix(".unfinished")
        with unfinished.open("wb") as out:
            subprocess.run(["sed", "s/|$//", str(path)], stdout=out, check=True)
        unfinished.rename(plain)
    return plain


def in_parts(data: DataSet, parts: int) -> Iterator[DataSet]:
    """The files of a data set dealt out to sessions."""
    for number in range(parts):
        mine = data.plain[number::parts]
        if mine:
            yield replace(data, files=mine, plain=mine)
