"""Bodies and frames, laid out slowly and plainly, from values as COPY's text form writes them.

Shares nothing with the Rust encoder and nothing with the extension: what all three agree on is the
protocol's text.
"""

from __future__ import annotations

import datetime
import json
import struct
import uuid
from typing import Any

EPOCH = datetime.datetime(2000, 1, 1)
Column = dict[str, Any]


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = crc_table()


def digits_of_numeric(text: str) -> tuple[bool, str, str]:
    """Sign, digits before and after the point."""
    whole, _, fraction = text.lstrip("+-").partition(".")
    return text.startswith("-"), whole, fraction


def numeric(text: str) -> bytes:
    special = {"NaN": 0xC000, "Infinity": 0xD000, "-Infinity": 0xF000}
    if text in special:
        return struct.pack("<H", special[text])
    negative, whole, fraction = digits_of_numeric(text)
    scale = len(fraction)
    whole = whole.zfill((len(whole) + 3) // 4 * 4)
    fraction = fraction.ljust((len(fraction) + 3) // 4 * 4, "0")
    both = whole + fraction
    digits = [int(both[at : at + 4]) for at in range(0, len(both), 4)]
    weight = len(whole) // 4 - 1
    while digits and digits[0] == 0:
        del digits[0]
        weight -= 1
    while digits and digits[-1] == 0:
        del digits[-1]
    if not digits:
        weight, negative = 0, False
    if scale <= 63 and -64 <= weight <= 63:
        header = 0x8000 | (0x2000 if negative else 0) | scale << 7
        packed = struct.pack("<H", header | (0x40 if weight < 0 else 0) | (weight & 0x3F))
    else:
        packed = struct.pack("<Hh", (0x4000 if negative else 0) | scale, weight)
    return packed + b"".join(struct.pack("<H", digit) for digit in digits)


def microseconds(text: str) -> int:
    if text in ("infinity", "-infinity"):
        return 2**63 - 1 if text == "infinity" else -(2**63)
    text = text.removesuffix("+00")
    if text.endswith(" BC"):
        # Only the first moment of all is written so in these tests.
        assert text == "4714-11-24 00:00:00 BC", text
        return -211813488000000000
    if text == "294276-12-31 23:59:59.999999":
        return 9223371331200000000 - 1
    since = datetime.datetime.fromisoformat(text) - EPOCH
    return since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds


def days(text: str) -> int:
    known = {"infinity": 2**31 - 1, "-infinity": -(2**31), "4714-11-24 BC": -2451545}
    known["5874897-12-31"] = 2147483494 - 2451545 - 1
    if text in known:
        return known[text]
    return (datetime.date.fromisoformat(text) - EPOCH.date()).days


def time_of_day(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    return (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 1_000_000 + int(
        fraction.ljust(6, "0") or "0"
    )


def enum(column: Column, text: str) -> bytes:
    return struct.pack("<I", dict(map(tuple, column["labels"]))[text])


FIXED = {
    "bool": lambda text: struct.pack("<B", text == "t"),
    "int2": lambda text: struct.pack("<h", int(text)),
    "int4": lambda text: struct.pack("<i", int(text)),
    "int8": lambda text: struct.pack("<q", int(text)),
    "oid": lambda text: struct.pack("<I", int(text)),
    "float4": lambda text: struct.pack("<f", float(text)),
    "float8": lambda text: struct.pack("<d", float(text)),
    "date": lambda text: struct.pack("<i", days(text)),
    "time": lambda text: struct.pack("<q", time_of_day(text)),
    "timestamp": lambda text: struct.pack("<q", microseconds(text)),
    "timestamptz": lambda text: struct.pack("<q", microseconds(text)),
    "uuid": lambda text: uuid.UUID(text).bytes,
}


def varlena_content(column: Column, text: str) -> bytes:
    if column["form"] == "numeric":
        return numeric(text)
    if column["form"] == "bytea":
        return bytes.fromhex(text.removeprefix("\\x"))
    if column["form"] == "bpchar" and column["modifier"] > 0:
        text = text.ljust(column["modifier"] - 4)
    return text.encode()


def align(data: bytes, to: int) -> bytes:
    return data + b"\0" * (-len(data) % to)


def data_area(columns: list[Column], values: list[str | None]) -> bytes:
    data = b""
    for column, value in zip(columns, values, strict=True):
        if value is None:
            continue
        if column["form"] == "enum":
            data = align(data, 4) + enum(column, value)
        elif column["form"] in FIXED:
            data = align(data, column["align"]) + FIXED[column["form"]](value)
        else:
            content = varlena_content(column, value)
            if column["storage"] != "plain" and len(content) + 1 <= 127:
                data += bytes([(len(content) + 1) << 1 | 1]) + content
            else:
                data = align(data, column["align"])
                data += struct.pack("<I", (len(content) + 4) << 2) + content
    return data


def body(columns: list[Column], values: list[str | None]) -> tuple[bytes, bool]:
    """A body, and whether it begins with a bitmap."""
    if None not in values:
        return b"\0" + data_area(columns, values), False
    bitmap = bytearray((len(columns) + 7) // 8)
    for number, value in enumerate(values):
        if value is not None:
            bitmap[number // 8] |= 1 << number % 8
    room = (23 + len(bitmap) + 7) // 8 * 8 - 23
    return bytes(bitmap).ljust(room, b"\0") + data_area(columns, values), True


def row(columns: list[Column], values: list[str | None]) -> bytes:
    """A body behind its 16 bits."""
    content, has_bitmap = body(columns, values)
    return struct.pack("<H", len(content) | (0x8000 if has_bitmap else 0)) + content


def frame(
    kind: str,
    rows: int,
    payload: bytes,
    codec: int = 0,
    wire: bytes | None = None,
    crc: int | None = None,
) -> bytes:
    wire = payload if wire is None else wire
    crc = crc32c(wire) if crc is None else crc
    header = struct.pack(
        "<4scBHIIII", b"FBF1", kind.encode(), codec, 0, rows, len(payload), len(wire), crc
    )
    return header + wire


def body_frame(columns: list[Column], rows: list[list[str | None]]) -> bytes:
    return frame("B", len(rows), b"".join(row(columns, values) for values in rows))


def escape(value: str | None) -> str:
    """A value in COPY's text form."""
    if value is None:
        return "\\N"
    for plain, escaped in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        value = value.replace(plain, escaped)
    return value


def text_lines(rows: list[list[str | None]]) -> bytes:
    return "".join("\t".join(map(escape, values)) + "\n" for values in rows).encode()


def text_frame(rows: list[list[str | None]]) -> bytes:
    return frame("T", len(rows), text_lines(rows))


def read_descriptor(text: str) -> dict[str, Any]:
    return json.loads(text)
