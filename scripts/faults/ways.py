"""The combinations of method and publish that faults are spread over."""

from __future__ import annotations

from dataclasses import dataclass

from data import COLUMNS

TARGET = "target"


@dataclass(frozen=True)
class Way:
    """A method and a publish."""

    method: str
    publish: str

    @property
    def name(self) -> str:
        return f"{self.method}-{self.publish}"

    @property
    def may_be_atomic(self) -> bool:
        """Whether --atomic changes anything."""
        return self.method == "copy" and self.publish in ("append", "upsert")

    def options(self, atomic: bool) -> list[str]:
        options = ["--method", self.method, "--publish", self.publish]
        return [*options, "--atomic"] if atomic else options

    def make(self, tablespace: str = "", key: str = " PRIMARY KEY") -> str:
        """The statements that make the target; without a key a row can come twice."""
        is_parted = self.publish == "partitions"
        tail = " PARTITION BY RANGE (k)" if is_parted else ""
        leaves = ""
        if self == LEAVES:
            tail = " PARTITION BY HASH (k)"
            leaves = "".join(
                f"CREATE TABLE {TARGET}_{part} PARTITION OF {TARGET}"
                f" FOR VALUES WITH (MODULUS {PARTS}, REMAINDER {part});"
                for part in range(PARTS)
            )
        space = f" TABLESPACE {tablespace}" if tablespace and not is_parted else ""
        columns = COLUMNS.format(key=key)
        made = f"CREATE TABLE {TARGET} ({columns}){tail}{space}; {leaves}"
        return f"{made} CREATE INDEX ON {TARGET} (n);"


WAYS = (
    Way("copy", "append"),
    Way("copy", "replace"),
    Way("copy", "partitions"),
    Way("direct", "replace"),
    Way("direct", "partitions"),
)
# Struck by what strikes any load.
UPSERT = Way("copy", "upsert")
# Into partitions that are there, and empty.
LEAVES = Way("direct", "append")
PARTS = 5
ALL = (*WAYS, UPSERT, LEAVES)
