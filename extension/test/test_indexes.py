"""Indexes filled from rows as they are loaded: what CREATE INDEX makes, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest
from filled import (
    ROWS,
    SHAPE,
    TABLES,
    Row,
    assert_alike,
    assert_found,
    begin,
    finish,
    put,
    refused,
    send,
)
from loads import assert_sound, copy_text, descriptor
from server import Server
from wire import Connection, ServerError


def number(draw: Random, bits: int) -> str:
    """Small ones often, and the ends."""
    most = 1 << (bits - 1)
    return str(draw.choice((0, -1, -most, most - 1, *(draw.randint(-50, 50) for _ in range(12)))))


def word(draw: Random) -> str:
    """Short and long ones, many that begin alike; by some, rows are stored out of line."""
    stem = draw.choice(("", "a", "carefully ", "carefully final ", "ä€", "x" * 130, "z" * 600))
    if draw.random() < 0.05:
        stem = "".join(f"{draw.getrandbits(32):08x}" for _ in range(80))
    return stem + "".join(draw.choice("ab 0") for _ in range(draw.randint(0, 20)))


def decimal(draw: Random) -> str:
    special = (
        "0",
        "0.000",
        "-0.1",
        "10000",
        "9999.9999",
        "1.0",
        "1",
        "NaN",
        "0." + "0" * 19 + "1",
        "-1" + "0" * 40,
    )
    return draw.choice((*special, f"{draw.randint(-(10**6), 10**6)}.{draw.randint(0, 99):02}"))


KINDS = {
    "bool": lambda draw: draw.choice("tf"),
    "int2": lambda draw: number(draw, 16),
    "int4": lambda draw: number(draw, 32),
    "int8": lambda draw: number(draw, 64),
    "oid": lambda draw: str(draw.choice((0, 1, 2**31, 2**32 - 1, draw.randint(0, 99)))),
    "float4": lambda draw: draw.choice(("0", "-0", "1.5", "-1.5", "inf", "-inf", "nan", "1e-30")),
    "float8": lambda draw: draw.choice(
        ("0", "-0", "2.5", "-1e300", "inf", "-inf", "nan", "5e-324")
    ),
    "date": lambda draw: draw.choice(
        ("infinity", "-infinity", f"2024-02-{draw.randint(1, 29):02}")
    ),
    "time": lambda draw: f"{draw.randint(0, 23):02}:{draw.randint(0, 59):02}:00",
    "timestamp": lambda draw: f"19{draw.randint(10, 99)}-01-01 00:00:{draw.randint(0, 59):02}",
    "timestamptz": lambda draw: f"2024-01-01 00:00:{draw.randint(0, 59):02}+00",
    "uuid": lambda draw: f"{draw.randint(0, 30) << draw.choice((0, 64, 120)):032x}",
    'text COLLATE "C"': word,
    'varchar(700) COLLATE "C"': word,
    'char(9) COLLATE "C"': lambda draw: draw.choice(("", "a", "a b", "abcdefghi", " a")),
    "bytea": lambda draw: "\\x" + draw.choice(("", "00", "0000", "00ff", "01", "ff00", "ab" * 200)),
    "numeric": decimal,
    "numeric(12,2)": lambda draw: f"{draw.randint(-999, 999)}.{draw.randint(0, 99):02}",
    # These sort otherwise than by bytes, and can only be included.
    "json": lambda draw: draw.choice(('{"a": 1}', "[]", "null")),
}
SORTED = [kind for kind in KINDS if kind != "json"]


@dataclass
class Table:
    """A random table, with indexes and rows."""

    shape: str
    indexes: list[str]
    rows: list[Row]

    @classmethod
    def drawn(cls, draw: Random, version: int) -> Table:
        kinds = [draw.choice(SORTED) for _ in range(draw.randint(1, 6))]
        included = draw.random() < 0.3
        nullable = [draw.random() < 0.5 for _ in kinds]
        columns = [f"c{n} {kind}" for n, kind in enumerate(kinds)]
        columns = [
            column if may else f"{column} NOT NULL"
            for column, may in zip(columns, nullable, strict=True)
        ]
        shape = ", ".join(["id int8 NOT NULL", *columns, "j json"])
        indexes = [
            cls.index(draw, version, len(kinds), included) for _ in range(draw.randint(1, 4))
        ]
        count = draw.choice((0, 1, 2, 40, 700, 3000, 9000))
        # Some columns have few values, so that equal keys fill pages.
        pools = [
            [KINDS[kind](draw) for _ in range(draw.choice((1, 3, 40, 2000)))] for kind in kinds
        ]
        ids = list(range(count))
        if draw.random() < 0.5:
            draw.shuffle(ids)
        rows: list[Row] = []
        for n in ids:
            values: Row = [
                None if may and draw.random() < 0.1 else draw.choice(pool)
                for pool, may in zip(pools, nullable, strict=True)
            ]
            rows.append([str(n), *values, draw.choice((None, "[]"))])
        return cls(shape, indexes, rows)

    @staticmethod
    def index(draw: Random, version: int, columns: int, included: bool) -> str:
        names = draw.sample([f"c{n}" for n in range(columns)], draw.randint(1, min(3, columns)))
        is_unique = draw.random() < 0.4
        if is_unique:
            names.insert(draw.randint(0, len(names)), "id")
        orders = ("", " DESC", " NULLS FIRST", " DESC NULLS LAST")
        keys = ", ".join(name + draw.choice(orders) for name in names)
        text = f"INDEX ON {{}} ({keys})"
        if included:
            text += (
                f" INCLUDE ({draw.choice(('j', 'id'))})" if "id" not in names else " INCLUDE (j)"
            )
        if is_unique and version >= 15 and draw.random() < 0.3:
            text += " NULLS NOT DISTINCT"
        options = []
        if draw.random() < 0.3:
            options.append(f"fillfactor = {draw.choice((10, 50, 100))}")
        if draw.random() < 0.3:
            options.append("deduplicate_items = off")
        if options:
            text += f" WITH ({', '.join(options)})"
        return f"CREATE {'UNIQUE ' if is_unique else ''}{text}"


def test_they_are_what_create_index_makes(any_session: Connection) -> None:
    session = any_session
    if not session.query("SELECT 1 FROM pg_available_extensions WHERE name = 'amcheck'"):
        pytest.skip("this server has no amcheck")
    session.query("CREATE EXTENSION IF NOT EXISTS pageinspect")
    version = int(session.value("SHOW server_version_num") or 0) // 10000
    for seed in range(TABLES):
        draw = Random(seed)
        table = Table.drawn(draw, version)
        memory = draw.choice(("1MB", "64MB"))
        session.query(f"SET maintenance_work_mem = '{memory}'; CREATE TABLE copied ({table.shape})")
        copy_text(session, "copied", table.rows)
        session.query(";".join(index.format("copied") for index in table.indexes))
        session.query(f"BEGIN; CREATE TABLE filled ({table.shape})")
        session.query(";".join(index.format("filled") for index in table.indexes))
        send(session, "filled", table.rows, draw)
        assert session.value("SELECT fullbore.finish('filled')") == "{}", table.indexes
        session.query("COMMIT")
        try:
            assert_alike(session, "filled", "copied")
        except (AssertionError, ServerError) as error:
            raise AssertionError(f"seed {seed}: {table.shape}; {table.indexes}: {error}") from error
        session.query("DROP TABLE copied, filled")


def test_keys_are_built_and_used(session: Connection) -> None:
    begin(session, "ALTER TABLE filled ADD PRIMARY KEY (k)")
    assert put(session) == "COPY 1000"
    assert put(session, [["5000", None]]) == "COPY 1"
    assert finish(session) == "{}"
    # Found by whoever looks in the same transaction, too; and it works as any other from now on.
    assert_found(session, 1001)
    session.query("INSERT INTO filled VALUES (1001, 'more'); DELETE FROM filled WHERE k = 5000")
    session.query("COMMIT")
    assert_found(session, 1001)
    assert refused(session, "INSERT INTO filled VALUES (7, 'again')").code == "23505"
    session.query("VACUUM filled")
    session.query("REINDEX TABLE filled")
    assert_found(session, 1001)


def test_keys_whose_order_ends(session: Connection) -> None:
    """Those in order need less memory; what comes after them is sorted in what there is."""
    session.query("SET maintenance_work_mem = '1MB'")
    # Of 16 bytes a key, so many as fit in order, more, and fewer than can be sorted.
    for ascending in (30_000, 50_000, 64_000, 70_000, 140_000):
        begin(session, "ALTER TABLE filled ADD PRIMARY KEY (k)")
        rows: list[Row] = [[str(2 * n), None] for n in range(ascending)]
        rows += [[str(2 * n + 1), None] for n in reversed(range(40_000))]
        put(session, rows)
        assert finish(session) == "{}"
        session.query("COMMIT")
        assert_found(session, len(rows))
        assert_sound(session, "filled")
        session.query("DROP TABLE filled")
    session.query("RESET maintenance_work_mem")


def test_uuids_are_sorted_as_two_numbers(any_session: Connection) -> None:
    session, draw = any_session, Random(3)
    if not session.query("SELECT 1 FROM pg_available_extensions WHERE name = 'amcheck'"):
        pytest.skip("this server has no amcheck")
    session.query("CREATE EXTENSION IF NOT EXISTS pageinspect")
    # Many share one half, some both.
    halves = ("0" * 16, "f" * 16, *(f"{draw.getrandbits(64):016x}" for _ in range(200)))
    rows: list[Row] = [[draw.choice(halves) + draw.choice(halves), "v"] for _ in range(60_000)]
    indexes = ("CREATE INDEX ON {} (k)", "CREATE INDEX ON {} (k DESC)", "CREATE INDEX ON {} (k, v)")
    for memory in ("1MB", "64MB"):
        session.query(f"SET maintenance_work_mem = '{memory}'")
        session.query('CREATE TABLE copied (k uuid NOT NULL, v text COLLATE "C")')
        copy_text(session, "copied", rows)
        session.query(";".join(index.format("copied") for index in indexes))
        session.query('BEGIN; CREATE TABLE filled (k uuid NOT NULL, v text COLLATE "C")')
        session.query(";".join(index.format("filled") for index in indexes))
        send(session, "filled", rows, draw)
        assert finish(session) == "{}"
        session.query("COMMIT")
        assert_alike(session, "filled", "copied")
        session.query("DROP TABLE copied, filled")
    session.query("RESET maintenance_work_mem")


def test_no_commit_without_them(any_session: Connection) -> None:
    session = any_session
    begin(session)
    put(session)
    error = refused(session, "COMMIT")
    assert error.code == "55000"
    assert error.fields["M"] == 'index "by_k" lacks the rows of this transaction'
    # Wherever the rows are moved meanwhile.
    begin(session)
    put(session)
    session.query("ALTER TABLE filled SET UNLOGGED")
    assert refused(session, "COMMIT").code == "55000"
    # A table that is gone lacks nothing.
    begin(session)
    put(session)
    session.query("DROP TABLE filled; COMMIT")


def test_what_is_rolled_back_or_truncated_is_forgotten(any_session: Connection) -> None:
    session = any_session
    session.query("BEGIN; SAVEPOINT one")
    session.query(f"CREATE TABLE filled {SHAPE}; CREATE INDEX ON filled (k)")
    put(session)
    session.query("ROLLBACK TO one; SAVEPOINT two")
    session.query(f"CREATE TABLE filled {SHAPE}; CREATE INDEX ON filled (k)")
    put(session)
    session.query("TRUNCATE filled")
    put(session, ROWS[:10])
    session.query("RELEASE two")
    assert finish(session) == "{}"
    session.query("COMMIT")
    assert_found(session, 10)


def test_nothing_else_may_write_meanwhile(any_session: Connection) -> None:
    session = any_session
    for sql in (
        "INSERT INTO filled VALUES (-1, 'mine')",
        "UPDATE filled SET k = -k",
        "REINDEX TABLE filled",
        "DROP INDEX by_k",
        "CREATE INDEX ON filled (v)",
        "ALTER TABLE filled ALTER k DROP NOT NULL",
    ):
        begin(session)
        put(session)
        session.query(sql)
        assert refused(session, "SELECT fullbore.finish('filled')").code in ("55000", "0A000"), sql
        if sql.startswith("DROP"):
            continue
        begin(session)
        put(session)
        session.query(sql)
        assert refused(session, "COMMIT").code == "55000", sql
    # A row that is deleted is in the index, as it is in any. Until then an index finds nothing.
    begin(session)
    put(session)
    session.query("DELETE FROM filled WHERE k + 0 < 10")
    assert finish(session) == "{}"
    session.query("COMMIT")
    assert_found(session, 990)


def test_which_can_be_filled(any_session: Connection) -> None:
    session = any_session
    session.query("CREATE COLLATION IF NOT EXISTS other (provider = libc, locale = 'C.UTF-8')")
    for index, reason in (
        ("(lower(v))", "it has an expression"),
        ("(k) WHERE k > 5", "it is partial"),
        ("USING hash (k)", "it is not a B-tree"),
        ('(v COLLATE "other")', 'its column "v" sorts otherwise than by bytes'),
        ('(v COLLATE "C")', None),
        ("(v text_pattern_ops)", None),
        ("(k DESC) INCLUDE (v)", None),
    ):
        index = index if index.startswith("USING") else f"USING btree {index}"
        session.query(f"BEGIN; CREATE TABLE filled {SHAPE}; CREATE INDEX mine ON filled {index}")
        if "other" in index and int(session.value("SHOW server_version_num") or 0) >= 180000:
            # 18 may know of this locale that it sorts by bytes.
            session.query("ROLLBACK")
            continue
        assert session.value("SELECT fullbore.fills('mine')") == reason, index
        if reason is not None:
            said = descriptor(session, "filled")["refusal"]["detail"]
            assert said == f'Its index "mine" can\'t be filled: {reason}.'
            with pytest.raises(ServerError) as error:
                put(session)
            assert error.value.code == "0A000"
        session.query("ROLLBACK")


def test_only_new_and_empty_ones(any_session: Connection) -> None:
    session = any_session
    # Without being asked for them; after rows; made in another subtransaction.
    begin(session)
    with pytest.raises(ServerError) as error:
        put(session, options="")
    assert error.value.fields["D"] == "It has an index."
    session.query("ROLLBACK")
    session.query(f"BEGIN; CREATE TABLE filled {SHAPE}")
    put(session)
    session.query("CREATE INDEX ON filled (k)")
    with pytest.raises(ServerError) as error:
        put(session)
    assert error.value.code == "55000"
    session.query("ROLLBACK")
    # No index, nothing to do.
    session.query(f"BEGIN; CREATE TABLE filled {SHAPE}")
    put(session)
    assert finish(session) == "{}"
    session.query("ROLLBACK")
    begin(session)
    assert finish(session) == "{}"
    session.query("COMMIT")
    assert_found(session, 0)
    session.query("BEGIN; TRUNCATE filled")
    put(session)
    assert finish(session) == "{}"
    session.query("COMMIT")
    assert_found(session, 1000)


def test_they_survive_a_crash(server: Server, session: Connection) -> None:
    begin(session, "ALTER TABLE filled ADD PRIMARY KEY (k)", "CREATE INDEX ON filled (v, k)")
    put(session)
    finish(session)
    session.query("COMMIT")
    server.crash()
    again = Connection(server.socket_dir, session.database)
    assert_found(again, 1000)
    assert_sound(again, "filled")
    again.query("INSERT INTO filled VALUES (1000, 'more')")
    assert_found(again, 1001)
    again.query("DROP TABLE filled")
