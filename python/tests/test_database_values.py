"""What arrives in MariaDB, DuckDB and SQLite: values as their own loaders store them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from database_places import NEEDS_DUCKDB, NEEDS_MARIADB, NEEDS_SQLITE, MariaDb, Place, load, run

pytestmark = pytest.mark.usefixtures("own_state", "drivers")


@NEEDS_DUCKDB
def test_every_type_of_duckdb_arrives_as_it_reads_it_itself(tmp_path: Path) -> None:
    place = Place("duckdb", tmp_path)
    columns = {
        "b": ("BOOLEAN", "true", "false"),
        "s": ("SMALLINT", "-32768", "32767"),
        "i": ("INTEGER", "-2147483648", "7"),
        "l": ("BIGINT", "-9223372036854775808", "9223372036854775807"),
        "r": ("FLOAT", "1.5", "-0.1"),
        "f": ("DOUBLE", "0.1", "1e300"),
        "n": ("DECIMAL(15,2)", "-1.05", "9999999999999.99"),
        "w": ("DECIMAL(38,10)", "0.0000000001", "-1234567890123456789012345678.5"),
        "v": ("VARCHAR", "héé", '"a ""q"", b"'),
        "d": ("DATE", "2024-02-29", "0001-01-01"),
        "t": ("TIME", "23:59:59.999999", "00:00:00"),
        "m": ("TIMESTAMP", "2024-01-02 03:04:05.678901", "1969-12-31 23:59:59.5"),
        "z": ("TIMESTAMPTZ", "2024-01-02 03:04:05+02", "2024-01-02 03:04:05"),
        "u": ("UUID", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", ""),
        "e": ("ENUM('low', 'it''s')", "low", "it's"),
        "j": ("JSON", '"{""a"": [1, 2]}"', "null"),
    }
    made = ", ".join(f"{name} {kind[0]}" for name, kind in columns.items())
    place.sql(f"CREATE TABLE ours ({made}); CREATE TABLE theirs ({made})")
    lines = [",".join(columns), *(",".join(kind[at] for kind in columns.values()) for at in (1, 2))]
    lines.append("," * (len(columns) - 1))
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(lines) + "\n")
    load(place, file, "--table", "ours", "--header", "true")
    place.sql(
        f"INSERT INTO theirs SELECT * FROM read_csv('{file}', header = true, all_varchar = true)"
    )
    for name in columns:
        texts = f"SELECT {name}::VARCHAR FROM"
        assert place.sql(f"{texts} ours") == place.sql(f"{texts} theirs"), name
    # Bytes and lists have forms of their own in text.
    place.sql("CREATE TABLE more (y BLOB, a INTEGER[], x VARCHAR[])")
    (tmp_path / "more.csv").write_text('y,a,x\n\\x00ff,"{1,NULL,3}","{a,""b c""}"\n,,\n')
    load(place, tmp_path / "more.csv", "--table", "more", "--header", "true")
    assert place.sql("SELECT * FROM more") == [
        (b"\x00\xff", [1, None, 3], ["a", "b c"]),
        (None, None, None),
    ]


@NEEDS_SQLITE
def test_every_type_of_sqlite_arrives_as_its_own_import_stores_it(tmp_path: Path) -> None:
    place = Place("sqlite", tmp_path)
    columns = {
        "i": ("INTEGER", "-9223372036854775808", "7"),
        "n": ("DECIMAL(15,2)", "-1.05", "12345678901.50"),
        "f": ("REAL", "0.1", "1e300"),
        "v": ("VARCHAR(3)", "longer than that", "é"),
        "x": ("TEXT", "0012.50", "1e5"),
        "d": ("DATE", "2024-02-29", "1999-12-31"),
        "t": ("TIME", "23:59:59", "00:00:00"),
        "m": ("DATETIME", "2024-01-02 03:04:05", "1969-12-31 23:59:59"),
        "u": (
            "UUID",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12",
        ),
        "j": ("JSON", '"{""a"": [1, 2]}"', "true"),
    }
    made = ", ".join(f"{name} {kind[0]}" for name, kind in columns.items())
    place.sql(f"CREATE TABLE ours ({made});; CREATE TABLE theirs ({made})")
    rows = [[kind[at].strip('"').replace('""', '"') for kind in columns.values()] for at in (1, 2)]
    session = sqlite3.connect(place.file)
    marks = ", ".join("?" * len(columns))
    # As `.import` does: texts, which the columns' affinities convert.
    session.executemany(f"INSERT INTO theirs VALUES ({marks})", rows)
    session.commit()
    session.close()
    lines = [",".join(columns), *(",".join(kind[at] for kind in columns.values()) for at in (1, 2))]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(lines) + "\n")
    load(place, file, "--table", "ours", "--header", "true")
    for name in columns:
        values = f"SELECT {name}, typeof({name}) FROM"
        assert place.sql(f"{values} ours") == place.sql(f"{values} theirs"), name


@NEEDS_SQLITE
def test_values_that_are_altered_on_their_way_are_found(tmp_path: Path) -> None:
    place = Place("sqlite", tmp_path)
    place.sql(
        "CREATE TABLE t (id integer, v integer);; "
        "CREATE TRIGGER alter_it AFTER INSERT ON t WHEN new.id = 7 "
        "BEGIN UPDATE t SET v = v + 1 WHERE id = new.id; END"
    )
    file = tmp_path / "t.csv"
    file.write_text("id,v\n" + "".join(f"{row},{row}\n" for row in range(100)))
    said = load(place, file, code=4)
    assert "the sum of column v is not that of the values that were sent" in said


@NEEDS_MARIADB
@pytest.mark.parametrize("is_converted", [True, False], ids=["converted", "as-bytes"])
def test_every_type_of_mariadb_arrives_as_load_data_stores_it(
    maria: MariaDb, tmp_path: Path, is_converted: bool
) -> None:
    place = Place("mysql", tmp_path, maria)
    columns = {
        "b": ("tinyint(1)", "true", "0"),
        "t": ("tinyint", "-128", "127"),
        "s": ("smallint unsigned", "65535", "0"),
        "m": ("mediumint", "-8388608", "8388607"),
        "i": ("int", "-2147483648", "7"),
        "u": ("int unsigned", "4294967295", "1"),
        "l": ("bigint", "-9223372036854775808", "9223372036854775807"),
        "ul": ("bigint unsigned", "18446744073709551615", "1"),
        "r": ("float", "1.5", "-0.25"),
        "f": ("double", "0.1", "1e300"),
        "n": ("decimal(15,2)", "-1.05", "9999999999999.99"),
        "w": ("decimal(38,10)", "0.0000000001", "-1234567890123456789012345678.5"),
        "c": ("char(3)", "é", "äöü"),
        "v": ("varchar(20)", '"a ""q"", b"', '"tab\tand\\ \nend"'),
        "x": ("longtext", "\U0001f600", "nil"),
        "d": ("date", "2024-02-29", "0001-01-01"),
        "h": ("time(6)", "23:59:59.999999", "00:00:00"),
        "dt": ("datetime(6)", "2024-01-02 03:04:05.678901", "1969-12-31 23:59:59.5"),
        "ts": ("timestamp(6) NULL", "2024-01-02 03:04:05+02", "2024-01-02 03:04:05"),
        "e": ("enum('löw','it''s')", "löw", "it's"),
        "j": ("json", '"{""a"": [1, 2]}"', "null"),
        "y": ("longblob", "\\x00ff5c", "\\x"),
        "uu": ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", ""),
    }
    if not is_converted:
        # With one of them, the server is told the character set, and converts every text.
        del columns["uu"]
    made = ", ".join(f"{name} {kind[0]}" for name, kind in columns.items())
    place.sql(f"CREATE TABLE t ({made})")
    lines = [",".join(columns), *(",".join(kind[at] for kind in columns.values()) for at in (1, 2))]
    lines.append("," * (len(columns) - 1))
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(lines) + "\n")
    load(place, file, "--table", "t", "--header", "true")
    differing = {
        "b": ("1", "0"),
        "v": ('a "q", b', "tab\\tand\\\\ \\nend"),
        "r": ("1.5", "-0.25"),
        "w": ("0.0000000001", "-1234567890123456789012345678.5000000000"),
        "h": ("23:59:59.999999", "00:00:00.000000"),
        "dt": ("2024-01-02 03:04:05.678901", "1969-12-31 23:59:59.500000"),
        "ts": ("2024-01-02 01:04:05.000000", "2024-01-02 03:04:05.000000"),
        "j": ('{"a": [1, 2]}', "null"),
        "y": ("00ff5c", ""),
        "uu": ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", None),
    }
    for name, (_, *values) in columns.items():
        shown = f"lower(hex({name}))" if name == "y" else name
        found = [row[0] for row in place.sql(f"SELECT {shown} FROM t")]
        wanted = [*differing.get(name, values), None]
        assert [None if v is None else str(v) for v in found] == wanted, name


@NEEDS_MARIADB
def test_rows_that_mariadb_would_skip_or_change_are_refused(maria: MariaDb, tmp_path: Path) -> None:
    place = Place("mysql", tmp_path, maria)
    place.sql("CREATE TABLE t (id int PRIMARY KEY, v varchar(5) CHARACTER SET latin1)")
    file = tmp_path / "t.csv"
    file.write_text("id,v\n1,a\n1,b\n")
    assert "Duplicate entry" in load(place, file, code=1)
    file.write_text("id,v\n1,a\n2,\U0001f600\n")
    assert "Incorrect string value" in load(place, file, code=1)
    assert place.sql("SELECT count(*) FROM t") == [(0,)]
    place.sql("CREATE TABLE old (id int, v text) ENGINE = MyISAM")
    assert "has no transactions" in load(place, file, "--table", "old", code=2)
    place.sql("CREATE TABLE child (id int, FOREIGN KEY (id) REFERENCES t (id))")
    refused = load(place, file, "--publish", "replace", code=2)
    assert "the new table would not have its foreign key" in refused
    missing = run("load", str(file), "--to", f"mysql://loader@127.0.0.1:{maria.port}/d", code=2)
    assert "Access denied" in missing and "MYSQL_PWD" in missing


@NEEDS_DUCKDB
def test_columns_that_are_not_loaded_have_their_defaults(tmp_path: Path) -> None:
    place = Place("duckdb", tmp_path)
    place.sql("CREATE TABLE t (a integer, b integer DEFAULT 7, c integer)")
    file = tmp_path / "t.csv"
    file.write_text("c,a\n3,1\n")
    assert "would not fill column b with its default" in load(place, file, code=2)
    load(place, file, "--atomic")
    assert place.sql("SELECT * FROM t") == [(1, 7, 3)]
