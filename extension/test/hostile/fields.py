"""Where the fields of a good frame are: found by walking its bytes, as the server would."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from bodies import Column

HEADER = (
    ("magic", 0, 4),
    ("kind", 4, 1),
    ("codec", 5, 1),
    ("zero", 6, 2),
    ("rows", 8, 4),
    ("raw", 12, 4),
    ("wire", 16, 4),
    ("crc", 20, 4),
)
FIXED_BYTES = {
    "bool": 1, "int2": 2, "int4": 4, "int8": 8, "oid": 4, "float4": 4, "float8": 8, "date": 4,
    "time": 8, "timestamp": 8, "timestamptz": 8, "uuid": 16, "enum": 4,
}  # fmt: skip
# What a value's reader trusts, as opposed to the value itself.
STRUCTURE = {
    "row length", "bitmap", "padding", "varlena", "numeric", "columns", "value length",
}  # fmt: skip


@dataclass(frozen=True)
class Field:
    """Bytes of a frame's payload that mean something together."""

    kind: str
    at: int
    length: int
    column: int = -1


class Walk:
    """Collects fields one behind the other."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at
        self.fields: list[Field] = []

    def take(self, kind: str, length: int, column: int = -1) -> bytes:
        if length > 0:
            self.fields.append(Field(kind, self.at, length, column))
        taken = self.data[self.at : self.at + length]
        assert len(taken) == length, "a good stream ends too early"
        self.at += length
        return taken


def walk_body(walk: Walk, columns: list[Column]) -> None:
    """One row of a frame of bodies."""
    (head,) = struct.unpack("<H", walk.take("row length", 2))
    end = walk.at + (head & 0x7FFF)
    present = [True] * len(columns)
    if head & 0x8000:
        bytes_ = (len(columns) + 7) // 8
        bitmap = walk.take("bitmap", bytes_)
        present = [bitmap[n // 8] >> n % 8 & 1 == 1 for n in range(len(columns))]
        walk.take("padding", (23 + bytes_ + 7) // 8 * 8 - 23 - bytes_)
    else:
        walk.take("padding", 1)
    start = walk.at
    for number, column in enumerate(columns):
        if not present[number]:
            continue
        short = column["form"] not in FIXED_BYTES and walk.data[walk.at] & 1
        if not short:
            walk.take("padding", -(walk.at - start) % column["align"], number)
        if column["form"] in FIXED_BYTES:
            walk.take(column["form"], FIXED_BYTES[column["form"]], number)
            continue
        if short:
            length = (walk.take("varlena", 1, number)[0] >> 1) - 1
        else:
            length = (struct.unpack("<I", walk.take("varlena", 4, number))[0] >> 2) - 4
        if column["form"] == "numeric":
            header = 2 if walk.data[walk.at + 1] & 0x80 else 4
            walk.take("numeric", header, number)
            length -= header
        walk.take(column["form"], length, number)
    assert walk.at == end, "a good body is not what it should be"


def walk_binary(walk: Walk) -> None:
    """One row as in COPY's binary form."""
    (count,) = struct.unpack(">H", walk.take("columns", 2))
    for number in range(count):
        (length,) = struct.unpack(">i", walk.take("value length", 4, number))
        walk.take("binary", max(length, 0), number)


def fields_of(kind: str, payload: bytes, columns: list[Column]) -> list[Field]:
    """The fields of a good payload."""
    walk = Walk(payload)
    if kind == "T":
        walk.take("text", len(payload))
    while walk.at < len(payload):
        if kind == "B":
            walk_body(walk, columns)
        else:
            walk_binary(walk)
    return walk.fields
