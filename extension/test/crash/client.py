"""The client of one load, as a process of its own that can be killed."""

from __future__ import annotations

import os
import select
import signal
import sys
import traceback
from pathlib import Path

from loads import INDEXED, begin_indexed, copy_sql, fill_indexes
from wire import Connection, ServerError

SECONDS_MAX = 120


class Client:
    """Does one step of the load when it is told to, and answers when the step is done."""

    def __init__(self, sockets: Path, database: str, table: str, load: Load) -> None:
        self.load = load
        orders, self.orders = os.pipe()
        self.answers, answers = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.orders)
            os.close(self.answers)
            try:
                obey(sockets, database, table, load, orders, answers)
            except (OSError, ServerError):
                pass
            except BaseException:
                traceback.print_exc()
            os._exit(0)
        os.close(orders)
        os.close(answers)
        self.waiting = ""

    def tell(self, step: str) -> None:
        os.write(self.orders, step.encode() + b"\n")

    def answer(self, seconds: float = 0.0) -> str | None:
        """What the step gave: a line, None where it is not done, "" where the client is gone."""
        if not select.select([self.answers], [], [], seconds)[0]:
            return None
        return os.read(self.answers, 4096).decode().strip()

    def do(self, step: str) -> str:
        """A step from its begin to its end."""
        self.tell(step)
        answer = self.answer(SECONDS_MAX)
        assert answer, f"the client does not come to the end of {step}"
        return answer

    def kill(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self.orders)
            os.close(self.answers)
            self.pid = 0


class Load:
    """What is loaded how."""

    def __init__(self, shape: str, hash_: str, options: str, stream: bytes) -> None:
        self.shape = shape
        self.hash = hash_
        self.options = options
        self.stream = stream


# The backend, then the files of the table, of its larger index, and of all that belongs to it.
FILES = """SELECT pg_backend_pid() || ' ' || string_agg(
         pg_relation_filepath(c.oid), ' ' ORDER BY c.oid <> t.oid, c.relname <> '{0}_v')
  FROM pg_class t, pg_class c
 WHERE t.oid = '{0}'::regclass
   AND (c.oid IN (t.oid, t.reltoastrelid) OR c.oid IN (
         SELECT indexrelid FROM pg_index WHERE indrelid IN (t.oid, t.reltoastrelid)))"""


def obey(sockets: Path, database: str, table: str, load: Load, orders: int, answers: int) -> None:
    """The client's life: one order a line."""
    session = Connection(sockets, database)
    half = len(load.stream) // 2
    with os.fdopen(orders) as lines:
        for line in lines:
            step, answer = line.strip(), "done"
            if step == "begin":
                begin_indexed(session, table, load.shape)
                session.query(f"SELECT fullbore.descriptor('{table}'::regclass)")
                answer = session.value(FILES.format(table)) or ""
            elif step == "half":
                session.begin_copy(copy_sql(table, load.hash, load.options + INDEXED))
                session.send(b"d", load.stream[:half])
            elif step == "rest":
                session.send(b"d", load.stream[half:])
                session.send(b"c")
                session.finish()
                fill_indexes(session, table)
            elif step in ("COMMIT", "ROLLBACK"):
                session.query(step)
            os.write(answers, answer.encode() + b"\n")
