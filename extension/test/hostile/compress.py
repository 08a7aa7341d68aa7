"""lz4 blocks and zstd frames by the libraries that the extension itself is linked with."""

from __future__ import annotations

import ctypes
import ctypes.util

NONE, LZ4, ZSTD = 0, 1, 2
NAMES = ("none", "lz4", "zstd")
LIBRARIES = {LZ4: "lz4", ZSTD: "zstd"}


def library(codec: int) -> ctypes.CDLL | None:
    name = ctypes.util.find_library(LIBRARIES[codec])
    return None if name is None else ctypes.CDLL(name)


def available(known_to_server: list[str]) -> list[int]:
    """Codecs that both sides have."""
    return [c for c in LIBRARIES if NAMES[c] in known_to_server and library(c) is not None]


def encode(codec: int, raw: bytes) -> bytes:
    """The wire's form of a payload."""
    if codec not in LIBRARIES:
        return raw
    loaded = library(codec)
    assert loaded is not None
    room = len(raw) + len(raw) // 128 + 1024
    target = ctypes.create_string_buffer(room)
    if codec == LZ4:
        size = loaded.LZ4_compress_default(raw, target, len(raw), room)
    else:
        loaded.ZSTD_compress.restype = ctypes.c_size_t
        size = loaded.ZSTD_compress(
            target, ctypes.c_size_t(room), raw, ctypes.c_size_t(len(raw)), 3
        )
    assert 0 < size <= room
    return target.raw[:size]
