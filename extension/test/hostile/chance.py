"""Mutants by chance: one kind of change drawn for each, from one seed."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import replace

import bodies

from hostile import compress
from hostile.mutants import (
    EDGES,
    HEADER_BYTES,
    TEXTS,
    Mutant,
    before_and_after,
    extreme,
    neighbour,
    patched,
    with_payload,
)
from hostile.streams import Frame, Stream

Change = Callable[[random.Random, Stream, list[Stream]], Mutant | None]
CHANGES: list[tuple[int, str, Change]] = []


def change(weight: int) -> Callable[[Change], Change]:
    def keep(function: Change) -> Change:
        CHANGES.append((weight, function.__name__.replace("_", " "), function))
        return function

    return keep


def pick(numbers: random.Random, stream: Stream) -> tuple[int, Frame]:
    number = numbers.randrange(len(stream.frames))
    return number, stream.frames[number]


def changed(numbers: random.Random, stream: Stream, number: int, payload: bytes) -> Mutant:
    return with_payload(stream, number, payload, numbers.random() < 0.9, "")


@change(14)
def random_bytes(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    number, frame = pick(numbers, stream)
    if not frame.payload:
        return None
    payload = bytearray(frame.payload)
    for _ in range(numbers.choice((1, 1, 2, 4, 16))):
        payload[numbers.randrange(len(payload))] = numbers.randrange(256)
    return changed(numbers, stream, number, bytes(payload))


@change(10)
def bit_flips(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    number, frame = pick(numbers, stream)
    if not frame.payload:
        return None
    payload = bytearray(frame.payload)
    for _ in range(numbers.choice((1, 1, 2, 3))):
        payload[numbers.randrange(len(payload))] ^= 1 << numbers.randrange(8)
    return changed(numbers, stream, number, bytes(payload))


@change(30)
def extremes(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    """One field or several, each with a content that is at some edge."""
    number, frame = pick(numbers, stream)
    if not frame.fields:
        return None
    payload = frame.payload
    for _ in range(numbers.choice((1, 1, 1, 2, 3))):
        field = numbers.choice(frame.fields)
        old = payload[field.at : field.at + field.length]
        payload = patched(payload, field.at, extreme(numbers, field, old))
    return changed(numbers, stream, number, payload)


@change(6)
def cut_payload(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    number, frame = pick(numbers, stream)
    if not frame.payload:
        return None
    payload = frame.payload[: numbers.randrange(len(frame.payload))]
    rows = numbers.choice([frame.rows, max(frame.rows - 1, 0), frame.rows + 1])
    stream = stream.with_frame(number, replace(frame, rows=rows))
    return with_payload(stream, number, payload, True, "")


@change(4)
def cut_stream(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    data = stream.render()
    cut = numbers.randrange(len(data))
    ends = {0}
    for frame in stream.frames:
        ends.add(max(ends) + len(frame.render()))
    return Mutant("", data[:cut], may_be_taken=cut in ends)


@change(8)
def insert_or_delete(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    number, frame = pick(numbers, stream)
    at = numbers.randrange(len(frame.payload) + 1)
    count = numbers.choice((1, 1, 2, 4, 8, 100))
    if numbers.random() < 0.5:
        inserted = bytes(numbers.choice((0, 0xFF, numbers.randrange(256))) for _ in range(count))
        payload = frame.payload[:at] + inserted + frame.payload[at:]
    else:
        payload = frame.payload[:at] + frame.payload[at + count :]
    return changed(numbers, stream, number, payload)


@change(8)
def splice(numbers: random.Random, stream: Stream, others: list[Stream]) -> Mutant | None:
    """The begin of one payload and the end of another."""
    number, frame = pick(numbers, stream)
    donor = numbers.choice(numbers.choice(others).frames).payload
    head = frame.payload[: numbers.randrange(len(frame.payload) + 1)]
    tail = donor[numbers.randrange(len(donor) + 1) :]
    rows = numbers.choice([frame.rows, 1, frame.rows + 1])
    stream = stream.with_frame(number, replace(frame, rows=rows))
    return with_payload(stream, number, head + tail, True, "")


@change(3)
def foreign_frames(numbers: random.Random, stream: Stream, others: list[Stream]) -> Mutant | None:
    """Another table's frame among this one's."""
    frames = [*stream.frames, numbers.choice(numbers.choice(others).frames)]
    numbers.shuffle(frames)
    return Mutant("", b"".join(frame.render() for frame in frames))


@change(5)
def row_counts(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    number, frame = pick(numbers, stream)
    rows = numbers.choice([0, 1, frame.rows + 1, frame.rows - 1, 2**31, 2**32 - 1, 65536])
    return Mutant("", stream.with_frame(number, replace(frame, rows=rows & 0xFFFFFFFF)).render())


@change(6)
def announced_lengths(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    """Raw and wire length agree with each other and with the checksum, not with the rows."""
    number, frame = pick(numbers, stream)
    before, after = before_and_after(stream, number)
    good = frame.render()
    wire = good[HEADER_BYTES:] + after
    length = numbers.choice(
        [0, 1, len(frame.payload) - 1, len(frame.payload) + 1, 2**22, 2**22 + 1]
    )
    length = max(length, 0)
    raw = length if frame.codec == compress.NONE else numbers.choice([length, 2**22, 2**30 - 1])
    crc = bodies.crc32c(wire[:length])
    head = struct.pack("<4sBBHIIII", good[:4], good[4], good[5], 0, frame.rows, raw, length, crc)
    return Mutant("", before + head + wire)


@change(4)
def raw_length_of_a_codec(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    """A compressed payload that announces another length, or another codec."""
    number, frame = pick(numbers, stream)
    before, after = before_and_after(stream, number)
    wire = bytearray(compress.encode(frame.codec, frame.payload))
    if wire and numbers.random() < 0.7:
        for _ in range(numbers.choice((1, 1, 2, 8))):
            wire[numbers.randrange(len(wire))] = numbers.randrange(256)
    near = numbers.choice([0, 0, 0, 1, -1, -7, 1000])
    raw = numbers.choice([max(len(frame.payload) + near, 0), 2**22, 0])
    codec = numbers.choice([frame.codec, frame.codec, 0, 1, 2, 3, 255])
    head = struct.pack("<4scBHII", b"FBF1", frame.kind.encode(), codec, 0, frame.rows, raw)
    head += struct.pack("<II", len(wire), bodies.crc32c(bytes(wire)))
    return Mutant("", before + head + bytes(wire) + after)


@change(3)
def another_kind(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    number, frame = pick(numbers, stream)
    kind = numbers.choice([k for k in "BCT" if k != frame.kind])
    return Mutant("", stream.with_frame(number, replace(frame, kind=kind)).render())


@change(12)
def another_layout(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    frame = neighbour(numbers, stream)
    return None if frame is None else Mutant("", frame.render())


@change(2)
def many_frames(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    """Frames without a row among frames with some, a broken one at the end."""
    frames = [*stream.frames, Frame("B", 0, b""), Frame("T", 0, b""), Frame("C", 0, b"")]
    data = b"".join(numbers.choice(frames).render() for _ in range(numbers.randrange(30)))
    return Mutant("", data + numbers.choice((b"", b"FBF1", numbers.randbytes(30))))


@change(2)
def junk(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    payload = numbers.randbytes(numbers.choice((0, 1, 30, 1000)))
    if numbers.random() < 0.3:
        return Mutant("", payload, may_be_taken=not payload)
    return Mutant("", bodies.frame(numbers.choice("BCT"), numbers.randrange(5), payload))


@change(2)
def lines(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    """Rows as text, with what COPY's text form gives a meaning to, anywhere."""
    payload = bytearray(bodies.text_lines(stream.rows))
    for _ in range(numbers.choice((1, 2, 5))):
        piece = numbers.choice(TEXTS)
        at = numbers.randrange(len(payload) + 1)
        payload[at : at + numbers.choice((0, len(piece)))] = piece
    rows = bytes(payload).count(b"\n")
    return Mutant("", bodies.frame("T", rows, bytes(payload)))


@change(1)
def messages(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    """Broken below the frames: lengths and kinds of protocol messages."""
    data = stream.render()
    sent = b""
    while data:
        piece, data = data[:200], data[200:]
        length = len(piece) + 4
        kind = b"d"
        if numbers.random() < 0.2:
            length = numbers.choice([0, 3, 4, length + 1, length - 1, 2**31 - 1, 2**32 - 1, 2**30])
        if numbers.random() < 0.2:
            kind = numbers.choice([b"H", b"S", b"c", b"f", b"Q", b"X", b"\0", b"\xff", b"P"])
        sent += kind + struct.pack(">I", length) + piece
    return Mutant("", sent + numbers.choice((b"", b"c\0\0\0\4", b"c\0\0\0\5x")), raw_messages=True)


@change(1)
def descriptor_hash(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    changed_hash = numbers.choice([stream.hash[:-1], "", stream.hash.upper() + "0", "\x01"])
    return Mutant("", stream.render(), may_be_taken=False, hash=changed_hash)


@change(2)
def edges_of_rows(numbers: random.Random, stream: Stream, _: list[Stream]) -> Mutant | None:
    """Rows of nothing but fixed values at their edges, whatever the columns are."""
    count = numbers.randrange(1, 6)
    payload = b""
    for _ in range(count):
        content = b"\0" + b"".join(
            (numbers.choice(EDGES) & 2**64 - 1).to_bytes(8, "little")
            for _ in range(numbers.randrange(12))
        )
        payload += struct.pack("<H", len(content)) + content
    return Mutant("", bodies.frame("B", count, payload))


def draw(numbers: random.Random, stream: Stream, others: list[Stream]) -> Mutant:
    """A mutant of some kind that this stream can have."""
    weights = [weight for weight, _, _ in CHANGES]
    while True:
        _, name, function = numbers.choices(CHANGES, weights)[0]
        mutant = function(numbers, stream, others)
        if mutant is not None:
            return replace(mutant, what=name + mutant.what)
