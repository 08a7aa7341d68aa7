"""The rows of the files of faults, read as COPY reads CSV.

What is unquoted and empty is null, and the server reads every value.
"""

from __future__ import annotations

from typing import Any

import pyarrow
import pyarrow.csv

COLUMNS = ("k", "n", "day", "amount", "word", "note")


def reading() -> dict[str, Any]:
    """Options of pyarrow's reader of CSV, and of engines that use it."""
    return {
        "read_options": pyarrow.csv.ReadOptions(column_names=list(COLUMNS)),
        "parse_options": pyarrow.csv.ParseOptions(newlines_in_values=True),
        "convert_options": pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(COLUMNS, pyarrow.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    }
