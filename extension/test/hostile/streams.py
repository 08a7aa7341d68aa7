"""Good streams of many shapes, with a map of their fields: what mutants are made from."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import bodies
from bodies import Column
from loads import descriptor
from wire import Connection

from hostile import compress
from hostile.fields import Field, fields_of

Row = list[str | None]


@dataclass(frozen=True)
class Frame:
    """One frame before it is written; a payload that is no longer good has the old map."""

    kind: str
    rows: int
    payload: bytes
    codec: int = compress.NONE
    fields: list[Field] = field(default_factory=list, compare=False)

    def wire(self) -> bytes:
        return compress.encode(self.codec, self.payload)

    def render(self) -> bytes:
        return bodies.frame(self.kind, self.rows, self.payload, self.codec, self.wire())


@dataclass(frozen=True)
class Shape:
    """A table, and what can be asked of rows that it took."""

    name: str
    create: str
    options: str = ""
    # Bits of a float's NaN are lost in text, and TOAST pointers differ: not compared bit for bit.
    comparable: bool = True


@dataclass(frozen=True)
class Stream:
    """Frames for a shape's table."""

    shape: Shape
    hash: str
    columns: list[Column]
    rows: list[Row]
    frames: list[Frame]

    def render(self) -> bytes:
        return b"".join(frame.render() for frame in self.frames)

    def with_frame(self, number: int, frame: Frame) -> Stream:
        frames = list(self.frames)
        frames[number] = frame
        return replace(self, frames=frames)


NUMBERS = "a int2, b int4, c int8, d oid, e numeric, f numeric(4,0), g numeric(5,5), h numeric(9,3)"
TIMES = "a date, b time, c time(2), d timestamp, e timestamp(0), f timestamptz, g timestamptz(3)"
TEXTS = "a text, b varchar, c varchar(5), d bpchar, e char(6), f bytea, g json"
PLAIN = "a text NOT NULL, b bytea, c numeric, d int2"
MIXED = "k int8 NOT NULL, d date, n numeric(12,2), v varchar(20), c char(4), b bool, u uuid, w text"
SET_PLAIN = "; ".join(f"ALTER TABLE t ALTER {c} SET STORAGE PLAIN" for c in "abc")

BODY_SHAPES: list[tuple[Shape, list[Row]]] = [
    (
        Shape("mixed", f"CREATE TABLE t ({MIXED})"),
        [
            ["1", "2024-02-29", "12345.50", "value", "abcd", "t", str(bodies.uuid.UUID(int=7)), ""],
            ["2", None, "-0.01", "käse", None, "f", None, "x" * 130],
            ["3", "infinity", "9999999999.99", "", "ab", None, None, None],
        ],
    ),
    (
        Shape("numbers", f"CREATE TABLE t ({NUMBERS})"),
        [
            ["-1", "7", "-9", "9", "123456789.987654321", "9999", "0.00001", "1.100"],
            ["32767", None, "0", None, "1" + "0" * 300, "0", None, "-999999.999"],
            [None, "0", None, "1", "0." + "1" * 70, None, "NaN", "NaN"],
            ["0", None, None, None, "-Infinity", None, None, "0.000"],
        ],
    ),
    (
        Shape("floats", "CREATE TABLE t (a float4, b float8, c bool)", comparable=False),
        [["1.5", "-0", "t"], ["nan", "inf", None], [None, "5e-324", "f"]],
    ),
    (
        Shape("times", f"CREATE TABLE t ({TIMES})"),
        [
            [
                "2024-02-29",
                "12:00:00",
                "23:59:59.99",
                "2024-02-29 12:34:56.789",
                "1969-07-20 20:17:40",
                "infinity",
                "1900-01-01 00:00:00.001+00",
            ],
            ["-infinity", "24:00:00", None, "4714-11-24 00:00:00 BC", None, None, "-infinity"],
        ],
    ),
    (
        Shape("texts", f"CREATE TABLE t ({TEXTS})"),
        [
            ["", "plain", "äöü€", "a  ", "abc", "\\x00ff", '{"a": [1, -2.5e+3, true, null]}'],
            ["x" * 125, "y" * 126, None, "z" * 127, "äöüß€😀", "\\x" + "ab" * 127, ' "\\u00e9" '],
            ["x" * 900, None, "", None, None, "\\x", "[]"],
        ],
    ),
    (
        Shape(
            "aligned",
            "CREATE TABLE t (a bool, b int8, c bool, d int2, e uuid, f bool, g int4, h text,"
            " i int8, j numeric, k int2)",
        ),
        [
            ["t", "-1", "f", "2", str(bodies.uuid.UUID(int=1)), "t", "7", "é", "9", "0.5", "1"],
            ["t", "-1", None, "2", None, "t", None, "w" * 140, "9", "70000.5", None],
        ],
    ),
    (
        Shape("plain storage", f"CREATE TABLE t ({PLAIN}); {SET_PLAIN}"),
        [["abc", "\\x0102", "12.5", "3"], ["", None, "-1", None], ["x" * 200, "\\x", None, "1"]],
    ),
    (
        Shape("wide", f"CREATE TABLE t ({', '.join(f'c{n} int2' for n in range(70))})"),
        [[str(n) if n % 3 else None for n in range(70)], [str(n) for n in range(70)], [None] * 70],
    ),
    (
        Shape(
            "enum",
            "DROP TYPE IF EXISTS mood CASCADE; CREATE TYPE mood AS ENUM ('sad', 'so so', 'happy');"
            " CREATE TABLE t (a mood NOT NULL, b mood)",
        ),
        [["sad", "happy"], ["so so", None]],
    ),
    (
        Shape(
            "checked",
            "CREATE TABLE t (k int4, v text CHECK (length(v) < 100), n numeric CHECK (n <> 7))",
            ", RANGE_COLUMN 'k', RANGE_FROM '0', RANGE_TO '1000'",
        ),
        [["1", "abc", "1.5"], ["999", None, None], ["2", "", "-123456789"]],
    ),
    (
        Shape(
            "checked by text",
            "CREATE TABLE t (v text, k int8)",
            ", RANGE_COLUMN 'v', RANGE_FROM 'a', RANGE_TO 'q'",
        ),
        [["abc", "1"], ["b", None]],
    ),
    (Shape("no columns", "CREATE TABLE t ()"), [[], []]),
]

BAND = Shape(
    "out of band",
    "CREATE TABLE t (a int4[], j jsonb, i inet, r int4range, v interval, p point, w text)",
    comparable=False,
)
BAND_SEND = [
    "array_send(%s::int4[])", "jsonb_send(%s::jsonb)", "inet_send(%s::inet)",
    "range_send(%s::int4range)", "interval_send(%s::interval)", "point_send(%s::point)",
    "textsend(%s::text)",
]  # fmt: skip
BAND_ROWS: list[Row] = [
    ["{1,NULL,3}", '{"a": [1, 2.5, null]}', "10.0.0.0/8", "[1,5)", "1 day 02:00:00", "(1,2)", "x"],
    [None, '"x"', "::1", None, None, None, "y" * 3000],
]


def binary_rows(session: Connection) -> bytes:
    """Those rows in COPY's binary form, by the server's own send functions."""
    payload = b""
    for row in BAND_ROWS:
        payload += struct.pack(">h", len(row))
        for send, value in zip(BAND_SEND, row, strict=True):
            if value is None:
                payload += struct.pack(">i", -1)
                continue
            literal = f"'{value}'"
            shown = session.value(f"SELECT encode({send % literal}, 'hex')")
            assert shown is not None
            content = bytes.fromhex(shown)
            payload += struct.pack(">i", len(content)) + content
    return payload


def prepare(session: Connection, shape: Shape) -> tuple[str, list[Column]]:
    """Makes the shape's table anew; its hash and its columns."""
    session.query(f"DROP TABLE IF EXISTS t, u; {shape.create}")
    session.query("CREATE TABLE u (LIKE t INCLUDING STORAGE)")
    shown = descriptor(session, "t")
    assert shown["refusal"] is None, shown
    return shown["hash"], shown["columns"]


def frame_of(kind: str, rows: int, payload: bytes, columns: list[Column], codec: int = 0) -> Frame:
    return Frame(kind, rows, payload, codec, fields_of(kind, payload, columns))


def bodies_of(columns: list[Column], rows: list[Row], codec: int = 0) -> Frame:
    payload = b"".join(bodies.row(columns, row) for row in rows)
    return frame_of("B", len(rows), payload, columns, codec)


def band_frames(session: Connection, columns: list[Column]) -> list[Frame]:
    text = bodies.text_lines(BAND_ROWS)
    binary = binary_rows(session)
    return [
        frame_of("T", len(BAND_ROWS), text, columns),
        frame_of("C", len(BAND_ROWS), binary, columns),
    ]


def makers(codecs: list[int]) -> list[tuple[Shape, Callable[[Connection], Stream]]]:
    """Every good stream: its shape, and what makes it once the shape's table is there."""
    made: list[tuple[Shape, Callable[[Connection], Stream]]] = []

    def add(shape: Shape, rows: list[Row], frames: Callable[..., list[Frame]]) -> None:
        def make(session: Connection) -> Stream:
            hash_, columns = prepare(session, shape)
            return Stream(shape, hash_, columns, rows, frames(session, columns))

        made.append((shape, make))

    for shape, rows in BODY_SHAPES:
        add(shape, rows, lambda _, columns, rows=rows: [bodies_of(columns, rows)])
    mixed, rows = BODY_SHAPES[0]
    for codec in codecs:
        shape = replace(mixed, name=f"mixed, {compress.NAMES[codec]}")
        many = rows * 4
        add(shape, many, lambda _, columns, codec=codec, many=many: [
            bodies_of(columns, many, codec), bodies_of(columns, many[:2])
        ])  # fmt: skip
    add(BAND, BAND_ROWS, band_frames)
    several = Shape("all kinds", f"CREATE TABLE t ({MIXED})", comparable=False)
    add(several, rows, lambda _, columns: [
        bodies_of(columns, rows[:2]),
        frame_of("T", len(rows), bodies.text_lines(rows), columns),
        bodies_of(columns, rows[2:]),
    ])  # fmt: skip
    return made
