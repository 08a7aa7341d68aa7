"""Every type on the whitelist with the values at its edges, and rows of awkward shapes."""

from __future__ import annotations

import bodies
import pytest
from loads import assert_equal, assert_sound, copy_text, descriptor, load, load_rows
from wire import Connection, ServerError

VALUES: dict[str, list[str | None]] = {
    "bool": ["t", "f", None],
    "int2": ["0", "-32768", "32767", None],
    "int4": ["0", "-2147483648", "2147483647", None],
    "int8": ["0", "-9223372036854775808", "9223372036854775807", None],
    "oid": ["0", "4294967295", None],
    "float4": ["0", "-0", "1.5", "inf", "-inf", "nan", None],
    "float8": ["0", "-0", "1e308", "5e-324", "inf", "-inf", "nan", None],
    "date": ["2000-01-01", "4714-11-24 BC", "5874897-12-31", "infinity", "-infinity", None],
    "time": ["00:00:00", "23:59:59.999999", "24:00:00", None],
    "time(2)": ["00:00:00", "23:59:59.99", None],
    "timestamp": [
        "2000-01-01 00:00:00",
        "4714-11-24 00:00:00 BC",
        "294276-12-31 23:59:59.999999",
        "infinity",
        "-infinity",
        None,
    ],
    "timestamp(0)": ["1969-07-20 20:17:40", "infinity", None],
    "timestamptz": ["2024-02-29 12:34:56.789012+00", "infinity", "-infinity", None],
    "timestamptz(3)": ["1900-01-01 00:00:00.001+00", None],
    "uuid": ["00000000-0000-0000-0000-000000000000", "12345678-9abc-def0-1234-56789abcdef0", None],
    "text": ["", "a", "käse €😀", "x" * 125, "x" * 126, "x" * 127, "y" * 900, "\t\n\\", None],
    "varchar": ["", "plain", None],
    "varchar(5)": ["", "äöüß€", "12345", None],
    "bpchar": ["", "a  ", None],
    "char(6)": ["", "abc", "äöüß€😀", None],
    "bytea": ["\\x", "\\x00ff80", "\\x" + "00" * 126, "\\x" + "ab" * 127, None],
    "json": ['{"a": [1, -2.5e+3, true, false, null, "\\u00e9\\n"]}', "[]", ' "x" ', "0", None],
    "numeric": [
        "0",
        "0.000",
        "-1",
        "1",
        "9999",
        "10000",
        "10000000000000000",
        "0.0001",
        "-0.00001",
        "123456789.987654321",
        "1" + "0" * 300,
        "0." + "0" * 290 + "1",
        "0." + "1" * 70,
        "1." + "0" * 64,
        "9" * 400 + "." + "9" * 80,
        "NaN",
        "Infinity",
        "-Infinity",
        None,
    ],
    "numeric(12,2)": ["0.00", "-9999999999.99", "9999999999.99", "1.10", "100000.00", "NaN", None],
    "numeric(4,0)": ["0", "9999", "-9999", "10", None],
    "numeric(5,5)": ["0.00001", "-0.99999", "0.00000", "0.10000", None],
}


@pytest.mark.parametrize("options", ["", ", FREEZE true"], ids=["plain", "frozen"])
def test_values_at_the_edges(session: Connection, options: str) -> None:
    """Each type alone, between two others that it is aligned against."""
    for number, (type_, values) in enumerate(VALUES.items()):
        shape = f"(b bool, v {type_}, t text, w {type_})"
        rows: list[list[str | None]] = [["t", v, "z", v] for v in values]
        rows += [[None, v, None, v] for v in values] + [["f", v, None, None] for v in values]
        session.query(f"CREATE TABLE copied{number} {shape}")
        copy_text(session, f"copied{number}", rows)
        session.query(f"BEGIN; CREATE TABLE direct{number} {shape}")
        load_rows(session, f"direct{number}", rows, options=options)
        session.query("COMMIT")
        assert_equal(session, f"direct{number}", f"copied{number}")
        assert_sound(session, f"direct{number}", frozen=options != "")


@pytest.mark.parametrize("scale", [-3, 6])
def test_odd_scales_of_numeric(any_session: Connection, any_server, scale: int) -> None:
    if any_server.name == "14":
        pytest.skip("PostgreSQL 14 knows no such scales")
    rows: list[list[str | None]] = (
        [["1000"], ["-99000"], ["0"]] if scale < 0 else [["0.000999"], ["-0.000001"], ["0.000000"]]
    )
    any_session.query(f"CREATE TABLE copied (v numeric(3,{scale}))")
    copy_text(any_session, "copied", rows)
    any_session.query("BEGIN; CREATE TABLE direct (LIKE copied)")
    load_rows(any_session, "direct", rows)
    any_session.query("COMMIT")
    assert_equal(any_session, "direct", "copied")


def test_enums(session: Connection) -> None:
    session.query("CREATE TYPE mood AS ENUM ('sad', 'so so', 'hap''py')")
    session.query("ALTER TYPE mood ADD VALUE 'between' BEFORE 'so so'")
    rows: list[list[str | None]] = [["sad", "so so"], ["hap'py", None], ["between", "sad"]]
    session.query("CREATE TABLE copied (a mood NOT NULL, b mood)")
    copy_text(session, "copied", rows)
    session.query("BEGIN; CREATE TABLE direct (LIKE copied)")
    load_rows(session, "direct", rows)
    session.query("COMMIT")
    assert_equal(session, "direct", "copied")
    assert_sound(session, "direct")


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 64, 65, 1600])
def test_many_columns(session: Connection, count: int) -> None:
    """Bitmaps of every length, all NULL, none NULL, one NULL."""
    shape = ", ".join(f"c{number} bool" for number in range(count))
    rows: list[list[str | None]] = [["t"] * count, [None] * count, ["f"] * count]
    if count:
        rows += [[None] + ["t"] * (count - 1), ["t"] * (count - 1) + [None]]
    session.query(f"CREATE TABLE copied ({shape})")
    if count:
        copy_text(session, "copied", rows)
    else:
        session.query("INSERT INTO copied SELECT FROM generate_series(1, 3)")
    session.query(f"BEGIN; CREATE TABLE direct ({shape})")
    load_rows(session, "direct", rows)
    session.query("COMMIT")
    if count:
        assert_equal(session, "direct", "copied")
    else:
        assert session.value("SELECT count(*) FROM direct") == "3"
    assert_sound(session, "direct")


def test_pages_are_filled_to_the_last_byte(session: Connection) -> None:
    """Rows as long as a page, rows that fill one exactly, and as many as a page can point to."""
    plain = "ALTER TABLE {} ALTER v SET STORAGE PLAIN"
    for number, length in enumerate([8160 - 28, 8160 - 29, 4076 - 28, 4072 - 28, 2008, 1]):
        # Without a TOAST table, a row may fill a page.
        rows: list[list[str | None]] = [["\\x" + "5a" * length]] * 600
        session.query(f"CREATE TABLE copied{number} (v bytea); {plain.format(f'copied{number}')}")
        session.query(f"BEGIN; CREATE TABLE direct{number} (v bytea)")
        session.query(plain.format(f"direct{number}") + "; COMMIT; BEGIN")
        session.query(f"TRUNCATE direct{number}")
        limit = descriptor(session, f"direct{number}")["body_bytes_max"]
        if length + 5 > limit:
            rows = [["\\x" + "5a" * (limit - 5)]] * 3
        load_rows(session, f"direct{number}", rows)
        session.query("COMMIT")
        copy_text(session, f"copied{number}", rows)
        assert_equal(session, f"direct{number}", f"copied{number}")
        assert_sound(session, f"direct{number}")


def test_a_row_can_be_as_long_as_a_page(session: Connection) -> None:
    """Only a table of fixed and limited columns has no TOAST table: 1,000 of eight bytes."""
    shape = ", ".join(f"c{number} int8 NOT NULL" for number in range(1017))
    rows: list[list[str | None]] = [[str(-number)] * 1017 for number in range(5)]
    session.query(f"CREATE TABLE copied ({shape}); BEGIN; CREATE TABLE direct ({shape})")
    assert descriptor(session, "direct")["body_bytes_max"] == 8160 - 23
    load_rows(session, "direct", rows)
    session.query("COMMIT")
    copy_text(session, "copied", rows)
    assert_equal(session, "direct", "copied")
    assert session.value("SELECT pg_relation_size('direct') / 8192") == "5"
    assert_sound(session, "direct")


def test_fillfactor_is_kept_as_by_copy(session: Connection) -> None:
    for fillfactor in (10, 70, 100):
        rows: list[list[str | None]] = [[str(k), "x" * (k % 90)] for k in range(3000)]
        shape = f"(k int4, v text) WITH (fillfactor = {fillfactor})"
        # In one transaction: a COPY into an older table would look for room on earlier pages.
        session.query(f"BEGIN; CREATE TABLE copied{fillfactor} {shape}")
        copy_text(session, f"copied{fillfactor}", rows)
        session.query(f"CREATE TABLE direct{fillfactor} {shape}")
        load_rows(session, f"direct{fillfactor}", rows)
        session.query("COMMIT")
        size = "SELECT pg_relation_size('{}{}')"
        direct = int(session.value(size.format("direct", fillfactor)) or 0)
        copied = int(session.value(size.format("copied", fillfactor)) or 0)
        # COPY extends a table by more pages than it needs in the end.
        tuples = sum((24 + 4 + 1 + k % 90 + 7) // 8 * 8 + 4 for k in range(3000))
        assert tuples * 100 / fillfactor <= direct <= copied, (tuples, direct, copied)
        assert_equal(session, f"direct{fillfactor}", f"copied{fillfactor}")


@pytest.mark.parametrize("encoding", ["LATIN1", "EUC_JP", "SQL_ASCII"])
def test_other_encodings(any_session: Connection, encoding: str) -> None:
    """Their bytes, in the database's own encoding; what is not valid there is refused."""
    any_session.query(
        f"CREATE DATABASE {encoding} ENCODING '{encoding}' TEMPLATE template0"
        " LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    session = Connection.to(any_session, encoding.lower())
    session.query("CREATE EXTENSION fullbore; BEGIN; CREATE TABLE t (v varchar(3), w text)")
    shape = descriptor(session, "t")
    assert shape["encoding"] == encoding
    good = {"LATIN1": b"\xe4\xf6\xfc", "EUC_JP": b"\xb4\xc1\xbb\xfa", "SQL_ASCII": b"\xe4\xf6\xfc"}
    bad = {"LATIN1": b"\xe4\x00\xfc", "EUC_JP": b"\xb4\xc1\xbb", "SQL_ASCII": b"\x00"}
    row = lambda v: b"\0" + bytes([(len(v) + 1) << 1 | 1]) + v + b"\x03"  # noqa: E731
    stream = lambda v: bodies.frame("B", 1, len(row(v)).to_bytes(2, "little") + row(v))  # noqa: E731
    load(session, "t", stream(good[encoding]))
    session.query("SAVEPOINT s")
    with pytest.raises(ServerError) as refused:
        load(session, "t", stream(bad[encoding]))
    assert refused.value.code == "55000", refused.value
    session.query("ROLLBACK TO s; SAVEPOINT s2; TRUNCATE t")
    with pytest.raises(ServerError) as refused:
        load(session, "t", stream(bad[encoding]))
    assert refused.value.code == "22P03", refused.value
    session.query("ROLLBACK TO s; COMMIT; SET client_encoding = 'SQL_ASCII'")
    assert session.value("SELECT encode(v::bytea, 'hex') FROM t") == good[encoding].hex()
    session.close()
