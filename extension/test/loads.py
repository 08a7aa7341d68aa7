"""What most tests do: load rows directly and by COPY, and compare."""

from __future__ import annotations

from typing import Any

import bodies
from wire import Connection


def descriptor(session: Connection, table: str) -> dict[str, Any]:
    text = session.value(f"SELECT fullbore.descriptor('{table}'::regclass)")
    assert text is not None
    return bodies.read_descriptor(text)


def copy_sql(table: str, hash_: str, options: str = "", columns: str = "") -> str:
    return f"COPY {table} {columns} FROM STDIN (FORMAT fullbore, DESCRIPTOR '{hash_}'{options})"


def load(session: Connection, table: str, stream: bytes, options: str = "", **how: Any) -> str:
    """One direct COPY into a table of this transaction."""
    hash_ = descriptor(session, table)["hash"]
    return session.copy(copy_sql(table, hash_, options), stream, **how)


def load_rows(session: Connection, table: str, rows: list[list[str | None]], **how: Any) -> str:
    columns = descriptor(session, table)["columns"]
    return load(session, table, bodies.body_frame(columns, rows), **how)


def copy_text(session: Connection, table: str, rows: list[list[str | None]]) -> None:
    session.copy(f"COPY {table} FROM STDIN", bodies.text_lines(rows))


# An option of loads into tables whose indexes are filled as rows pass.
INDEXED = ", INDEXES true"


def begin_indexed(session: Connection, table: str, shape: str) -> None:
    """Makes a table, of columns k and v, with two indexes, in a transaction."""
    session.query(f"BEGIN; CREATE TABLE {table} {shape}; CREATE INDEX {table}_k ON {table} (k)")
    session.query(f'CREATE INDEX {table}_v ON {table} (v COLLATE "C", k)')


def load_indexed(session: Connection, table: str, stream: bytes, options: str = "") -> None:
    """Loads rows into it, and writes its indexes."""
    load(session, table, stream, options + INDEXED)
    fill_indexes(session, table)


def fill_indexes(session: Connection, table: str) -> None:
    """All is loaded: its indexes are written."""
    assert session.value(f"SELECT fullbore.finish('{table}')") == "{}"


# All rows by the index on (v, k), in its order.
READ_INDEX = """SET enable_seqscan = off; SET enable_bitmapscan = off;
    SELECT count(*) || ' ' || coalesce(sum(hashtextextended(v, k)), 0)
      FROM (SELECT v COLLATE "C" AS v, k FROM {} WHERE v COLLATE "C" > '') AS read"""


def assert_indexes_sound(session: Connection, table: str) -> None:
    """Its indexes are valid, and have all rows in order, as far as the server has a checker."""
    found = session.query(
        "SELECT indexrelid::regclass, indisvalid AND indisready FROM pg_index"
        f" WHERE indrelid = '{table}'::regclass"
    )
    checks = session.query("SELECT 1 FROM pg_extension WHERE extname = 'amcheck'")
    for index, is_valid in found:
        assert is_valid == "t", index
        if checks:
            session.query(f"SELECT bt_index_parent_check('{index}', true, true)")


SUM = "SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM {} t"


def checksum(session: Connection, table: str) -> str | None:
    return session.value(SUM.format(table))


def assert_equal(session: Connection, direct: str, copied: str) -> None:
    """The same rows, by every way of reading them."""
    expected = checksum(session, copied)
    assert checksum(session, direct) == expected
    session.query("SET jit_above_cost = 0; SET jit_optimize_above_cost = 0")
    assert checksum(session, direct) == expected
    session.query("RESET jit_above_cost; RESET jit_optimize_above_cost")
    # As text: not every type can be compared.
    rows = "SELECT t::text FROM {} t"
    for one, other in ((direct, copied), (copied, direct)):
        missing = f"{rows.format(one)} EXCEPT ALL {rows.format(other)}"
        assert session.query(missing) == []


CHECKERS = ("amcheck", "pg_visibility")


def make_checkers(session: Connection) -> set[str]:
    """The server's own checkers, those of them that it has."""
    available = session.query("SELECT name FROM pg_available_extensions")
    there = {name for (name,) in available if name in CHECKERS}
    for name in there:
        session.query(f"CREATE EXTENSION IF NOT EXISTS {name}")
    return there


def assert_sound(session: Connection, table: str, frozen: bool = False) -> None:
    """What the server's own checkers say of the table."""
    there = make_checkers(session)
    if "amcheck" in there:
        assert session.query(f"SELECT * FROM verify_heapam('{table}')") == []
    assert_indexes_sound(session, table)
    if "pg_visibility" in there:
        assert session.query(f"SELECT * FROM pg_check_visible('{table}')") == []
        assert session.query(f"SELECT * FROM pg_check_frozen('{table}')") == []
        if frozen:
            summary = session.query(
                f"SELECT all_visible, all_frozen, pg_relation_size('{table}') / 8192"
                f" FROM pg_visibility_map_summary('{table}')"
            )[0]
            assert summary[0] == summary[1] == summary[2]
