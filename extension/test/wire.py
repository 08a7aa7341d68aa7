"""A client as small as possible, speaking the wire protocol by itself.

Drivers hide what these tests are about: when data is sent, what becomes of the connection after
an error, the fields of a NOTICE.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import NoReturn


class ServerError(Exception):
    """An error as the server sent it; ``fields`` by their one-letter codes."""

    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__("; ".join(f"{key}={fields[key]}" for key in "CMDHW" if key in fields))
        self.fields = fields

    @property
    def code(self) -> str:
        return self.fields["C"]


class Connection:
    """One session."""

    def __init__(
        self, socket_dir: Path, database: str = "postgres", user: str = "postgres"
    ) -> None:
        self.database = database
        self.socket_dir = socket_dir
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(120)
        self.socket.connect(str(socket_dir / ".s.PGSQL.5432"))
        self.received = b""
        self.notices: list[dict[str, str]] = []
        body = struct.pack(">I", 196608)
        for word in ("user", user, "database", database, "client_encoding", "UTF8", ""):
            body += word.encode() + b"\0"
        self.socket.sendall(struct.pack(">I", len(body) + 4) + body)
        self.pid = 0
        self.finish()

    @classmethod
    def to(cls, other: Connection, database: str | None = None) -> Connection:
        """Another session on the same server."""
        return cls(other.socket_dir, database or other.database)

    def send(self, kind: bytes, body: bytes = b"") -> None:
        self.socket.sendall(kind + struct.pack(">I", len(body) + 4) + body)

    def take(self, count: int) -> bytes:
        while len(self.received) < count:
            got = self.socket.recv(65536)
            if not got:
                raise ConnectionError("the server closed the connection")
            self.received += got
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def message(self) -> tuple[bytes, bytes]:
        head = self.take(5)
        return head[:1], self.take(struct.unpack(">I", head[1:])[0] - 4)

    def finish(self) -> tuple[list[list[str | None]], str]:
        """Reads on until the server is ready: rows and the last command's tag, or its error."""
        rows: list[list[str | None]] = []
        tag, error = "", None
        while True:
            kind, body = self.message()
            if kind == b"Z":
                break
            if kind == b"D":
                rows.append(columns_of(body))
            elif kind == b"C":
                tag = body[:-1].decode()
            elif kind == b"E":
                error = error or ServerError(fields_of(body))
            elif kind == b"N":
                self.notices.append(fields_of(body))
            elif kind == b"K":
                self.pid = struct.unpack(">I", body[:4])[0]
            elif kind == b"G":
                # Nobody has data for it.
                self.send(b"f", b"the test sends nothing\0")
        if error is not None:
            raise error
        return rows, tag

    def query(self, sql: str) -> list[list[str | None]]:
        """Runs SQL; rows of the result."""
        self.send(b"Q", sql.encode() + b"\0")
        return self.finish()[0]

    def value(self, sql: str) -> str | None:
        """The one value of a query."""
        return self.query(sql)[0][0]

    def begin_copy(self, sql: str) -> None:
        """Starts a COPY and returns when the server asks for data."""
        self.send(b"Q", sql.encode() + b"\0")
        while True:
            kind, body = self.message()
            if kind == b"G":
                return
            if kind == b"E":
                self.refused(body)
            if kind == b"N":
                self.notices.append(fields_of(body))

    def refused(self, body: bytes) -> NoReturn:
        """Raises a statement's error once the server is ready for the next."""
        try:
            self.finish()
        finally:
            raise ServerError(fields_of(body))

    def copy(self, sql: str, data: bytes, message_bytes: int = 65536) -> str:
        """A whole COPY; the command's tag."""
        self.begin_copy(sql)
        for at in range(0, len(data), message_bytes):
            self.send(b"d", data[at : at + message_bytes])
        self.send(b"c")
        return self.finish()[1]

    def copied(self, query: str) -> list[bytes]:
        """The messages of a query's binary COPY."""
        self.send(b"Q", f"COPY ({query}) TO STDOUT (FORMAT binary)".encode() + b"\0")
        messages = []
        while True:
            kind, body = self.message()
            if kind == b"d":
                messages.append(body)
            elif kind == b"E":
                self.refused(body)
            elif kind == b"Z":
                return messages

    def close(self) -> None:
        self.socket.close()


def columns_of(body: bytes) -> list[str | None]:
    (count,) = struct.unpack(">H", body[:2])
    at, values = 2, []
    for _ in range(count):
        (length,) = struct.unpack(">i", body[at : at + 4])
        at += 4
        values.append(None if length < 0 else body[at : at + length].decode(errors="replace"))
        at += max(length, 0)
    return values


def fields_of(body: bytes) -> dict[str, str]:
    parts = (part for part in body.split(b"\0") if part)
    return {chr(part[0]): part[1:].decode(errors="replace") for part in parts}
