"""The combinations of method and publish that faults are spread over."""

from __future__ import annotations

from dataclasses import dataclass

from data import COLUMNS

TARGET = "target"
# What --atomic is for.
ATOMIC = ("append", "upsert")


@dataclass(frozen=True)
class Way:
    """A method and a publish; `atomic` is for append and upsert."""

    method: str
    publish: str

    @property
    def name(self) -> str:
        return f"{self.method}-{self.publish}"

    def options(self, atomic: bool) -> list[str]:
        options = ["--method", self.method, "--publish", self.publish]
        return [*options, "--atomic"] if atomic and self.publish in ATOMIC else options

    def make(self, tablespace: str = "", key: str = " PRIMARY KEY") -> str:
        """The statements that make the target; without a key a row can come twice."""
        is_parted = self.publish == "partitions"
        tail = " PARTITION BY RANGE (k)" if is_parted else ""
        space = f" TABLESPACE {tablespace}" if tablespace and not is_parted else ""
        columns = COLUMNS.format(key=key)
        return f"CREATE TABLE {TARGET} ({columns}){tail}{space}; CREATE INDEX ON {TARGET} (n);"


WAYS = (
    Way("copy", "append"),
    Way("copy", "replace"),
    Way("copy", "partitions"),
    Way("direct", "replace"),
    Way("direct", "partitions"),
)
# Struck by what strikes any load.
UPSERT = Way("copy", "upsert")
