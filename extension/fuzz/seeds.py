"""Seeds for the fuzzer: valid bodies of many shapes, so that it need not guess its way in."""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test"))

import bodies

# In the order of FbForm; a value and its descriptor's words.
FORMS = [
    None, ("bool", "t"), ("int2", "-7"), ("int4", "7"), ("int8", "-1"),
    ("uuid", "12345678-9abc-def0-1234-56789abcdef0"), ("date", "2024-02-29"),
    ("time", "12:00:00"), ("timestamp", "2024-02-29 12:00:00"), None,
    ("text", "käse"), ("varchar", "plain text"), ("bpchar", "ab"), ("bytea", "\\x00ff"),
    ("json", '{"a": [1, -2.5e3, "\\u00e9", true, null]}'), ("numeric", "-12345.678"),
]  # fmt: skip
ALIGN = [1, 1, 2, 4, 8, 1, 4, 8, 8, 4, 4, 4, 4, 4, 4, 4]


def seed(numbers: random.Random) -> bytes:
    chosen = [
        numbers.choice([n for n, f in enumerate(FORMS) if f]) for _ in range(numbers.randrange(24))
    ]
    columns, values, words = [], [], b""
    with_null = bool(chosen) and numbers.random() < 0.5
    for number in chosen:
        form, value = FORMS[number]
        storage = "plain" if form == "int8" else "extended"
        columns.append({"form": form, "align": ALIGN[number], "storage": storage, "modifier": -1})
        if form in ("text", "bytea") and numbers.random() < 0.3:
            value = "\\x" + "5a" * 200 if form == "bytea" else "y" * 200
        values.append(None if with_null and numbers.random() < 0.4 else value)
        words += struct.pack("BB", number, 0)
    body, has_bitmap = bodies.body(columns, values)
    return struct.pack("BB", 0x80 if has_bitmap else 0, len(chosen)) + words + body


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    numbers = random.Random(1)
    for number in range(500):
        (folder / f"seed{number:03}").write_bytes(seed(numbers))


main()
