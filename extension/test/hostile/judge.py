"""Sends mutants and judges what becomes of each.

A mutant that is refused must leave the session as it was. One that is taken must be such that
COPY could have written it: every row is read, COPY of its text gives the same rows (so it holds
nothing that an input function would refuse or write otherwise), which on their pages are the same
bit for bit, and amcheck finds nothing. Now and then an index is built on it and it is vacuumed.
"""

from __future__ import annotations

import random
import socket
import struct
from collections import Counter
from dataclasses import dataclass, field

from loads import copy_sql
from wire import Connection, ServerError, fields_of

from hostile.mutants import Mutant
from hostile.streams import Stream

OPTIONS = ["", ", FREEZE true", ", IO 'direct'", ", IO 'buffered'", ", IO 'direct', FREEZE true"]
MESSAGE_BYTES = [1, 13, 500, 65536, 65536]

# The share of loads that an index is built on.
MAINTAINED = 0.02
SUM = (
    "SELECT count(*) || '/' || coalesce(sum(hashtextextended(whole::text, 0)), 0) FROM {} AS whole"
)
# What receive functions of the server itself refuse as an internal error, in any COPY.
OWN_INTERNAL = ("unsupported jsonb version number",)
# Without TOAST pointers these are the bits that the data itself decides.
BITS = """SELECT coalesce(md5(string_agg(concat_ws('/', t_infomask & 7, t_infomask2 & 2047, t_hoff,
    t_bits, encode(t_data, 'hex')), ';' ORDER BY block, lp)), '')
  FROM generate_series(0, pg_relation_size('{0}') / 8192 - 1) AS block,
       heap_page_items(get_raw_page('{0}', block::int))"""


class Hostile(Connection):
    """A session that sends a whole COPY without waiting for leave."""

    def outcome(self) -> tuple[str, ServerError | None]:
        """Reads to the end of a command: its tag, or its error."""
        tag, error = "", None
        while True:
            kind, body = self.message()
            if kind == b"Z":
                return tag, error
            if kind == b"C":
                tag = body[:-1].decode()
            elif kind == b"E":
                error = error or ServerError(fields_of(body))

    def attempt(self, statement: str, data: bytes, message_bytes: int) -> ServerError | str:
        """A COPY into the table, truncated before; its tag or its error."""
        sent = query("ROLLBACK; BEGIN; TRUNCATE t") + query(statement)
        for at in range(0, len(data), message_bytes):
            piece = data[at : at + message_bytes]
            sent += b"d" + struct.pack(">I", len(piece) + 4) + piece
        self.socket.sendall(sent + b"c\0\0\0\4")
        tag, error = self.outcome()
        if error is not None:
            raise error
        tag, error = self.outcome()
        return tag if error is None else error

    def copy_out(self, table: str) -> bytes:
        """The table's rows as COPY writes them."""
        self.socket.sendall(query(f"COPY {table} TO STDOUT"))
        lines, error = [], None
        while True:
            kind, body = self.message()
            if kind == b"d":
                lines.append(body)
            elif kind == b"E":
                error = ServerError(fields_of(body))
            elif kind == b"Z":
                if error is not None:
                    raise error
                return b"".join(lines)


def query(sql: str) -> bytes:
    body = sql.encode() + b"\0"
    return b"Q" + struct.pack(">I", len(body) + 4) + body


class SessionLostError(Exception):
    """A mutant ended its session, or the server: nothing after it can be judged."""


@dataclass
class Tally:
    """What happened so far."""

    refused: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    lost_sessions: int = 0
    findings: list[str] = field(default_factory=list)


class Judge:
    """One server's judge."""

    def __init__(self, session: Hostile, tally: Tally, numbers: random.Random) -> None:
        self.session = session
        self.tally = tally
        self.numbers = numbers
        available = {row[0] for row in session.query("SELECT name FROM pg_available_extensions")}
        self.checkers = available & {"amcheck", "pageinspect"}
        for name in self.checkers:
            session.query(f"CREATE EXTENSION IF NOT EXISTS {name}")

    def finding(self, stream: Stream, mutant: Mutant, why: str) -> None:
        self.tally.findings.append(
            f"{stream.shape.name}: {mutant.what}: {why}\n    {mutant.data.hex()}"
        )

    def judge(self, stream: Stream, mutant: Mutant) -> None:
        """Sends one and keeps account of it."""
        self.tally.sent[mutant.what] += 1
        options = self.numbers.choice(OPTIONS) + stream.shape.options
        hash_ = stream.hash if mutant.hash is None else mutant.hash
        statement = copy_sql("t", hash_, options)
        if mutant.raw_messages:
            self.send_raw(stream, mutant, statement)
            return
        try:
            answer = self.session.attempt(
                statement, mutant.data, self.numbers.choice(MESSAGE_BYTES)
            )
        except (OSError, ServerError) as error:
            self.finding(stream, mutant, f"the session was lost: {error!r}")
            raise SessionLostError from error
        if isinstance(answer, ServerError):
            self.tally.refused[answer.code] += 1
            if answer.code.startswith("XX") and not answer.fields["M"].startswith(OWN_INTERNAL):
                self.finding(stream, mutant, f"an internal error: {answer}")
            return
        self.tally.accepted[stream.shape.name] += 1
        if not mutant.may_be_taken:
            self.finding(stream, mutant, "taken, but must not be")
        try:
            self.check_rows(stream, mutant, answer)
        except ServerError as error:
            self.finding(stream, mutant, f"taken, but reading fails: {error}")

    def check_rows(self, stream: Stream, mutant: Mutant, tag: str) -> None:
        """Everything that is asked of a load that was taken."""
        session = self.session
        count = int(tag.removeprefix("COPY "))
        self.tally.rows += count
        read = session.value(SUM.format("t"))
        if read is None or int(read.split("/")[0]) != count:
            self.finding(stream, mutant, f"{tag} gave {read} rows")
        session.query("COMMIT")
        if count == 0:
            return
        if "amcheck" in self.checkers:
            found = session.query("SELECT * FROM verify_heapam('t')")
            if found:
                self.finding(stream, mutant, f"amcheck: {found}")
        if stream.columns and self.numbers.random() < MAINTAINED:
            session.query(f"CREATE INDEX i ON t ({stream.columns[0]['name']})")
            session.query("VACUUM t")
            session.query("DROP INDEX i")
            if session.value(SUM.format("t")) != read:
                self.finding(stream, mutant, "VACUUM changed rows")
        lines = session.copy_out("t")
        session.query("BEGIN; TRUNCATE u")
        session.copy("COPY u FROM STDIN", lines)
        if session.value(SUM.format("u")) != read:
            self.finding(stream, mutant, "COPY of these rows' text gives others")
        compared = "pageinspect" in self.checkers and stream.shape.comparable
        if compared and session.value(BITS.format("t")) != session.value(BITS.format("u")):
            self.finding(stream, mutant, "COPY lays these values out otherwise")

    def send_raw(self, stream: Stream, mutant: Mutant, statement: str) -> None:
        """In a session of its own, that ends with it."""
        self.session.query("ROLLBACK")
        other = Hostile(self.session.socket_dir, self.session.database)
        try:
            other.query("SELECT fullbore.descriptor('t'::regclass)")
            other.socket.sendall(query("BEGIN; TRUNCATE t") + query(statement) + mutant.data)
            other.socket.shutdown(socket.SHUT_WR)
            error = None
            while True:
                kind, body = other.message()
                if kind == b"E":
                    error = ServerError(fields_of(body))
                    self.tally.refused[error.code] += 1
        except ConnectionError:
            self.tally.lost_sessions += 1
        except OSError as error:
            self.finding(stream, mutant, f"the session does not end: {error!r}")
        finally:
            other.close()
        if self.session.value("SELECT 1") != "1":
            self.finding(stream, mutant, "the server does not go on")
