"""A destination of dlt: what a pipeline extracted is loaded from the files that it wrote.

>>> pipeline = dlt.pipeline("shop", destination=fullbore.dlt.destination(url))  # doctest: +SKIP
>>> pipeline.run(orders)  # doctest: +SKIP

``append`` appends and ``merge`` merges by the primary key; a file that dlt hands over again, since
it did not hear that it was loaded, is loaded once. ``replace`` is refused: dlt tells a destination
of each file alone, and the second one would replace the first.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import dlt

import fullbore

if TYPE_CHECKING:
    from dlt.common.destination import Destination
    from dlt.common.schema import TTableSchema
    from typing_extensions import Unpack

    from fullbore._options import Options

__all__ = ["destination"]

logger = logging.getLogger(__name__)


def destination(
    to: str | None = None, *, schema: str | None = None, **options: Unpack[Options]
) -> Destination[Any, Any]:
    """A destination that loads into the database at ``to``, as :func:`fullbore.load` has it.

    ``schema`` is where tables are; those that are missing are created. ``options`` are those of
    :func:`fullbore.load`, for every table. A load that fails raises :class:`fullbore.LoadError`,
    and dlt tries it again.
    """

    @dlt.destination(
        name="fullbore", batch_size=0, loader_file_format="parquet", naming_convention="snake_case"
    )
    def load_file(path: str, table: TTableSchema) -> None:
        name = quoted(table["name"])
        result = fullbore.load(
            path,
            to=to,
            table=name if schema is None else f"{quoted(schema)}.{name}",
            **{"create": True, **disposition(table), **options},
        )
        for note in result.notes:
            logger.info("%s: %s", name, note)

    return load_file()


def disposition(table: TTableSchema) -> dict[str, Any]:
    """How rows of a table are published."""
    asked = table.get("write_disposition", "append")
    if asked == "append":
        # In one transaction: dlt hands a file over again that was interrupted.
        return {"if_loaded": "skip", "atomic": True}
    keys = [name for name, column in table["columns"].items() if column.get("primary_key")]
    if asked == "merge" and keys:
        # Merged once more, rows are what they were; and a file may say what an earlier one said.
        return {"publish": "upsert", "key": keys, "if_loaded": "again"}
    if asked == "merge":
        raise ValueError(f"table {table['name']} has no primary_key, which its rows are merged by")
    raise ValueError(
        f"table {table['name']}: write_disposition {asked} is not possible with this destination; "
        "truncate the table and append, or merge by a primary_key"
    )


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'
