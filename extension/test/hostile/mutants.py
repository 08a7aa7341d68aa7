"""Mutants of good streams: every byte of what a reader trusts, then chance.

A mutant knows what was done to it, and whether it may be taken at all: a payload that was changed
behind the back of its checksum may not.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

import bodies

from hostile.fields import HEADER, STRUCTURE, Field
from hostile.streams import Frame, Row, Stream

HEADER_BYTES = 24


@dataclass(frozen=True)
class Mutant:
    """What is sent, and what is known of it."""

    what: str
    data: bytes
    may_be_taken: bool = True
    # Whole messages instead of well-formed CopyData: for a session of its own.
    raw_messages: bool = False
    hash: str | None = None


def byte_changes(value: int) -> list[int]:
    """All single bits, the extremes, the neighbours."""
    wanted = [value ^ 1 << bit for bit in range(8)]
    wanted += [0, 0xFF, (value + 1) & 0xFF, (value - 1) & 0xFF]
    return [changed for changed in dict.fromkeys(wanted) if changed != value]


def patched(data: bytes, at: int, content: bytes) -> bytes:
    return data[:at] + content + data[at + len(content) :]


def before_and_after(stream: Stream, number: int) -> tuple[bytes, bytes]:
    """The frames around one."""
    before = b"".join(frame.render() for frame in stream.frames[:number])
    return before, b"".join(frame.render() for frame in stream.frames[number + 1 :])


def header_sweep(stream: Stream) -> Iterator[Mutant]:
    """Every byte of every frame's header."""
    for number, frame in enumerate(stream.frames):
        before, after = before_and_after(stream, number)
        good = frame.render()
        for name, at, length in HEADER:
            for byte in range(at, at + length):
                for changed in byte_changes(good[byte]):
                    data = before + patched(good, byte, bytes([changed])) + after
                    # A checksum that is wrong is wrong; other fields can be true by chance.
                    yield Mutant(f"header {name}", data, name not in ("crc", "magic", "zero"))


def with_payload(stream: Stream, number: int, payload: bytes, repaired: bool, what: str) -> Mutant:
    """One frame with another payload, its checksum made good or left as it was."""
    before, after = before_and_after(stream, number)
    frame = stream.frames[number]
    if repaired:
        return Mutant(what, before + replace(frame, payload=payload).render() + after)
    good = frame.render()
    wire = good[HEADER_BYTES:] if frame.codec else payload
    if frame.codec:
        middle = len(wire) // 2
        wire = patched(wire, middle, bytes([wire[middle] ^ 0x10]))
    return Mutant(
        f"{what}, stale CRC",
        before + good[:HEADER_BYTES] + wire + after,
        may_be_taken=wire == good[HEADER_BYTES:],
    )


def structure_sweep(stream: Stream) -> Iterator[Mutant]:
    """Every byte of everything inside of payloads that a reader trusts."""
    for number, frame in enumerate(stream.frames):
        for field in frame.fields:
            if field.kind not in STRUCTURE:
                continue
            for byte in range(field.at, field.at + field.length):
                for changed in byte_changes(frame.payload[byte]):
                    payload = patched(frame.payload, byte, bytes([changed]))
                    yield with_payload(stream, number, payload, True, field.kind)
                payload = patched(frame.payload, byte, bytes([frame.payload[byte] ^ 1]))
                yield with_payload(stream, number, payload, False, field.kind)


def sweep(stream: Stream) -> list[Mutant]:
    """All of the above; where a frame is repeated, a byte of it counts each time."""
    return [*header_sweep(stream), *structure_sweep(stream)]


# What is at the edges of types, as whole values of so many bytes.
EDGES = [
    0, 1, -1, 2, 126, 127, 128, 255, 256, 9999, 10000, 2**15 - 1, 2**15, 2**31 - 1, -(2**31),
    2**63 - 1, -(2**63), 86_400_000_000, 86_400_000_001, -211813488000000000, -211813488000000001,
    9223371331200000000, 9223371331199999999, -2451545, -2451546, 2147483494 - 2451545,
    2147483493 - 2451545,
]  # fmt: skip
NUMERIC_HEADERS = [
    0x8000, 0x8080, 0xA000, 0x9FFF, 0xBFFF, 0x8040, 0xC000, 0xC001, 0xD000, 0xE000, 0xF000,
    0xFFFF, 0x0000, 0x3FFF, 0x4000, 0x7FFF,
]  # fmt: skip
TEXTS = [
    b"\0", b"\x80", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82",
    b"\xc3", b"\\N", b"\\.", b"\t", b"\n", b"\\", b"\r", b'"', b"{", b"\\u0000", b"%s%n", b"9" * 40,
]  # fmt: skip


def extreme(numbers: random.Random, field: Field, old: bytes) -> bytes:
    """Another content of the same length for a field."""
    length = field.length
    kind = field.kind
    if kind == "row length":
        (value,) = struct.unpack("<H", old)
        options = [0, 1, 2, value + 1, value - 1, value ^ 0x8000, 0x7FFF, 0x8000, 0xFFFF, 2009]
        return struct.pack("<H", numbers.choice(options) & 0xFFFF)
    if kind == "varlena" and length == 1:
        options = [0, 1, 2, 3, 5, 0xFF, 0xFE, old[0] + 2, old[0] - 2]
        return bytes([numbers.choice(options) & 0xFF])
    if kind == "varlena":
        (value,) = struct.unpack("<I", old)
        length_now = value >> 2
        options = [0, 1, 3, 4, length_now + 1, length_now - 1, 126, 127, 130, 2**29, 2**30 - 1]
        word = numbers.choice(options) << 2 | numbers.choice([0, 0, 0, 1, 2, 3])
        return struct.pack("<I", word & 0xFFFFFFFF)
    if kind == "numeric":
        header = numbers.choice([*NUMERIC_HEADERS, numbers.randrange(65536)])
        rest = struct.pack("<H", numbers.choice([0, 1, 63, 64, 0x7FFF, 0x8000, 0xFFFF, 0xFFC0]))
        return (struct.pack("<H", header) + rest)[:length]
    if kind == "value length":
        (value,) = struct.unpack(">i", old)
        options = [-2, -1, 0, 1, value + 1, value - 1, 2**31 - 1, -(2**31), 2**30]
        return struct.pack(">i", max(-(2**31), min(2**31 - 1, numbers.choice(options))))
    if kind in ("text", "varchar", "bpchar", "bytea", "json", "binary"):
        piece = numbers.choice(TEXTS)[:length]
        at = numbers.randrange(length - len(piece) + 1)
        return patched(old, at, piece)
    if kind == "numeric" or (length % 2 == 0 and numbers.random() < 0.3):
        words = [numbers.choice([0, 1, 10, 9999, 10000, 0xFFFF]) for _ in range(length // 2)]
        return b"".join(struct.pack("<H", word) for word in words).ljust(length, b"\0")
    value = numbers.choice(EDGES) & (1 << 8 * min(length, 8)) - 1
    return value.to_bytes(min(length, 8), "little").ljust(length, b"\xff")


# Values as other modifiers of their types would let them in.
OF_OTHER_MODIFIERS: dict[str, list[str | None]] = {
    "numeric": ["0", "0.1", "-0.001", "1.10", "10000", "99999999999.99", "9" * 30, "Infinity",
                "0.00000", "0.000001", "100000", "0.99999", "NaN"],
    "varchar": ["abcdef", "äöüß€😀", "x" * 21, "x" * 20 + " ", ""],
    "bpchar": ["", "abcd", "abcde", "äöüß€", "äöü", "a  "],
    "time": ["12:00:00.1", "12:00:00.001", "23:59:59.999999"],
    "timestamp": ["2024-02-29 12:34:56.7", "1999-12-31 23:59:59.999999"],
    "timestamptz": ["2024-02-29 12:34:56.0001+00", "1999-12-31 23:59:59.999+00"],
    "enum": ["happy", "sad"],
}  # fmt: skip


def neighbour(numbers: random.Random, stream: Stream) -> Frame | None:
    """Rows laid out for a table that differs in a modifier, a storage, an alignment, a type."""
    columns = [dict(column) for column in stream.columns]
    if not columns:
        return None
    for column in numbers.sample(columns, numbers.choice((1, 1, len(columns)))):
        change = numbers.randrange(4)
        if change == 0:
            # Of bpchar: how far it is padded.
            column["modifier"] = numbers.choice([-1, 5, 6, 7, 8, 9, 10, 11, 24, 30])
        elif change == 1:
            column["storage"] = numbers.choice(["plain", "extended"])
        elif change == 2:
            column["align"] = numbers.choice([1, 2, 4, 8])
        elif change == 3:
            column["form"] = numbers.choice(
                ["int2", "int4", "int8", "text", "numeric", "bpchar", "bool", "bytea", "uuid"]
            )
            column["modifier"] = -1
    rows: list[Row] = []
    for row in stream.rows:
        values: Row = []
        for column, value in zip(columns, row, strict=True):
            try:
                bodies.data_area([column], [value])
            except (ValueError, struct.error, KeyError, IndexError, AssertionError):
                value = numbers.choice(["0", None])
                value = value if column["form"] in ("int2", "int4", "int8", "numeric") else None
            if column["form"] in OF_OTHER_MODIFIERS and numbers.random() < 0.3:
                value = numbers.choice(OF_OTHER_MODIFIERS[column["form"]])
            values.append(None if numbers.random() < 0.1 else value)
        rows.append(values)
    payload = b"".join(bodies.row(columns, row) for row in rows)
    return Frame("B", len(rows), payload)
