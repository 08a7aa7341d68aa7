"""How much of a clean table came of a polluted file: precision and recall by cell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?(\.\d+)?(\+00:00)?")


def plain(value: str | None) -> str:
    """A value as it is compared: numbers and moments by what they are, however they are printed.

    Zeros before a number and its sign belong to it: 00501 is not 501.
    """
    if value is None:
        return ""
    if value.lower() in ("true", "false"):
        return value.lower()
    if found := MOMENT.fullmatch(value):
        fraction = (found[4] or "").rstrip("0").rstrip(".")
        return f"{found[1]} {found[2]}{found[3] or ':00'}{fraction}"
    digits = value.removeprefix("-")
    if NUMBER.fullmatch(value) and not (
        len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    ):
        number = Decimal(value)
        return str(number.normalize()) if number else "0"
    if re.fullmatch(r"[0-9a-f]{32}", value):
        return "-".join((value[:8], value[8:12], value[12:16], value[16:20], value[20:]))
    return value


@dataclass
class Score:
    """The share of loaded cells that are right, and of the right cells that were loaded."""

    precision: float
    recall: float

    @property
    def is_perfect(self) -> bool:
        return self.precision == self.recall == 1.0


def counted(names: Iterable[str | None], rows: Iterable[Iterable[str | None]]) -> Counter[object]:
    """The cells of a table, each with its column's place."""
    cells: Counter[object] = Counter(
        (place, "name", name) for place, name in enumerate(names) if name is not None
    )
    for row in rows:
        for place, value in enumerate(row):
            cells[place, "value", plain(value)] += 1
    return cells


def score(
    names: list[str | None] | None,
    rows: list[list[str]],
    found_names: list[str],
    found_rows: list[list[str | None]],
) -> Score:
    """How what was found compares with what should have been."""
    wanted = counted(names or [], rows)
    # Names that are for the reader to make up are not compared.
    told = [
        name if names is not None and place < len(names) and names[place] is not None else None
        for place, name in enumerate(found_names)
    ]
    if names is not None:
        told += [name for name in found_names[len(names) :]]
    found = counted(told, found_rows)
    right = sum((wanted & found).values())
    return Score(right / max(1, found.total()), right / max(1, wanted.total()))
