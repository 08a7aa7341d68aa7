"""Load files from Dagster: this process reports to Dagster by its Pipes.

>>> command = [sys.executable, "-m", "fullbore.dagster", "job.toml"]  # doctest: +SKIP
>>> pipes_subprocess_client.run(command=command, context=context)  # doctest: +SKIP

Without Dagster around it, :func:`load` is :func:`fullbore.load`. A retry of the step resumes the
load that it interrupted, and loads nothing twice.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster_pipes

import fullbore
from fullbore import LoadResult

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fullbore._options import Options
    from fullbore._sources import Source

__all__ = ["load"]


def load(
    source: Source,
    *,
    to: str | None = None,
    table: str | None = None,
    asset_key: str | None = None,
    **options: Unpack[Options],
) -> LoadResult:
    """Load as :func:`fullbore.load` does, and report it as the materialization of an asset.

    ``asset_key`` names it where the step has several. Raises as :func:`fullbore.load` does.
    """
    with dagster_pipes.open_dagster_pipes() as pipes:
        # Without Dagster it is a mock, whose attributes are mocks.
        if isinstance(pipes.retry_number, int) and pipes.retry_number > 0:
            # A try whose rows all were to be shown at once has left none.
            has_none = options.get("order_by") or options.get("no_ledger")
            is_whole = options.get("atomic") or options.get("publish") in ("replace", "partitions")
            options.setdefault("resume", not (has_none and is_whole))
        result = fullbore.load(source, to=to, table=table, **options)
        for note in result.notes:
            pipes.log.info(note)
        pipes.report_asset_materialization(metadata=metadata(result), asset_key=asset_key)
        return result


def metadata(result: LoadResult) -> dict[str, dagster_pipes.PipesMetadataValue | int | str | float]:
    """What Dagster shows of a load; ``dagster/row_count`` is its own name for rows."""
    told: dict[str, dagster_pipes.PipesMetadataValue | int | str | float] = {
        "dagster/row_count": result.rows,
        "rejected": result.rejected,
        "bytes": result.bytes,
        "seconds": round(result.seconds, 3),
        "run": result.run_id,
    }
    if result.bottleneck:
        told["bottleneck"] = result.bottleneck
    return told


def main(arguments: Sequence[str]) -> int:
    """Load files or one job file, and tell Dagster of it."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m fullbore.dagster", description=main.__doc__)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--to")
    parser.add_argument("--table")
    given = parser.parse_args(arguments)
    try:
        load(given.sources, to=given.to, table=given.table)
    except fullbore.LoadError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
