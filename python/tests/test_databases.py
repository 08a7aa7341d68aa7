"""Loads into MariaDB, DuckDB, SQLite and others, read back by their own clients."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from database_places import (
    NEEDS_DUCKDB,
    NEEDS_MARIADB,
    NEEDS_POSTGRES,
    NEEDS_SQLITE,
    MariaDb,
    Place,
    load,
    run,
    start,
    summary,
)
from embedded import Server

pytestmark = pytest.mark.usefixtures("own_state", "drivers")


EACH = pytest.mark.parametrize(
    "scheme",
    [
        pytest.param("duckdb", marks=NEEDS_DUCKDB),
        pytest.param("sqlite", marks=NEEDS_SQLITE),
        pytest.param("mysql", marks=NEEDS_MARIADB),
    ],
)


@pytest.fixture
def place(scheme: str, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    maria = request.getfixturevalue("maria") if scheme == "mysql" else None
    return Place(scheme, tmp_path, maria)


def killed(*arguments: str) -> None:
    """Runs the command until a first piece is committed, and kills it."""
    process = start(*arguments)
    home = Path(os.environ["FULLBORE_HOME"])
    until = time.monotonic() + 60
    while not any("piece_committed" in kept.read_text() for kept in home.glob("runs/*/*.jsonl")):
        assert process.poll() is None and time.monotonic() < until, "no piece was committed"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def numbers(path: Path, count: int, seed: int = 1) -> Path:
    """A file of numbers and texts, some of them with quotes and line ends."""
    chance = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        file.write("id,amount,note\n")
        for number in range(count):
            note = '"a ""b""\nc, d"' if number % 1000 == 7 else f"note {chance.random():.6f} é"
            file.write(f"{number},{chance.randrange(10**6) / 100:.2f},{note}\n")
    return path


def expected(path: Path) -> tuple[int, int, float, int]:
    """Rows, sum of ids, of amounts, and bytes of notes, as another reader has them."""
    import csv

    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return (
        len(rows),
        sum(int(row["id"]) for row in rows),
        round(sum(float(row["amount"]) for row in rows), 2),
        sum(len(row["note"].encode()) for row in rows),
    )


def found(place: Place, table: str) -> tuple[int, int, float, int]:
    length = {"duckdb": "strlen(note)", "sqlite": "length(CAST(note AS BLOB))"}
    length = length.get(place.scheme, "length(note)")
    [row] = place.sql(f"SELECT count(*), sum(id), sum(amount), sum({length}) FROM {table}")
    return int(row[0]), int(row[1]), round(float(row[2]), 2), int(row[3])


NUMBERS = "CREATE TABLE numbers (id bigint, amount decimal(12,2), note varchar(100))"


@NEEDS_SQLITE
@pytest.mark.parametrize("scheme", ["sqlite"])
def test_a_large_file_is_known_under_another_name(place: Place, tmp_path: Path) -> None:
    """Too large to be read whole for its checksum."""
    text = "x" * 250_000
    file = tmp_path / "large.csv"
    file.write_text("".join(f"{k},{text}\n" for k in range(280)))
    place.sql("CREATE TABLE large (k integer, v text)")
    how = ("--table", "large", "--header", "none")
    load(place, file, *how)
    other = tmp_path / "other.csv"
    other.write_bytes(file.read_bytes())
    assert "already loaded the contents of" in load(place, other, *how, code=2)
    assert "not read in full" in load(place, other, *how, "--resume", code=2)
    assert "skipped" in load(place, other, *how, "--if-loaded", "skip")
    assert place.sql("SELECT count(*) FROM large") == [(280,)]


@EACH
def test_ways_to_publish(place: Place, tmp_path: Path) -> None:
    file = numbers(tmp_path / "numbers.csv", 30_000)
    rows = expected(file)
    place.sql(NUMBERS)
    said = load(place, file, "--piece-size", "200kB")
    assert "and so do the sums of 3 columns" in said
    assert found(place, "numbers") == rows
    # The same again is noticed.
    refused = load(place, file, code=2)
    assert "already loaded the contents of" in refused
    assert "nothing to do" in load(place, file, "--if-loaded", "skip")
    load(place, file, "--atomic", "--if-loaded", "again")
    assert found(place, "numbers")[0] == 2 * rows[0]
    load(place, file, "--publish", "replace")
    assert found(place, "numbers") == rows
    load(place, file, "--create", "--table", "made")
    assert found(place, "made") == rows
    # A table that was made again is another one.
    place.sql("DROP TABLE made")
    load(place, file, "--create", "--table", "made")
    assert found(place, "made") == rows
    assert place.names() == ["made", "numbers"]
    assert place.sql("SELECT count(*) FROM fullbore_pieces") == [(0,)]


@EACH
def test_bad_rows_are_rejected_with_line_and_column(place: Place, tmp_path: Path) -> None:
    place.sql("CREATE TABLE t (id integer NOT NULL, day date)")
    file = tmp_path / "t.csv"
    file.write_text("id,day\n1,2024-01-01\nx,2024-01-02\n3,2024-13-01\n,2024-01-04\n5,\n")
    told = summary(str(file), "--to", place.to, "--max-rejects", "10", code=3)
    assert (told["rows"], told["rejected"]) == (2, 3)
    [reasons] = tmp_path.glob("*.jsonl")
    rejects = [json.loads(line) for line in reasons.read_text().splitlines()]
    places = sorted((reject["line"], reject["column"], reject["value"]) for reject in rejects)
    assert places == [(3, "id", "x"), (4, "day", "2024-13-01"), (5, "id", None)]
    assert [row[0] for row in place.sql("SELECT id FROM t ORDER BY id")] == [1, 5]


@EACH
@pytest.mark.parametrize("way", [(), ("--atomic",), ("--publish", "replace")])
def test_a_killed_load_is_resumed_exactly_once(
    place: Place, way: tuple[str, ...], tmp_path: Path
) -> None:
    file = numbers(tmp_path / "numbers.csv", 60_000)
    place.sql(NUMBERS)
    options = ("--piece-size", "100kB", "--max-rate", "1MB/s", *way)
    killed("load", str(file), "--to", place.to, *options)
    [(run_id, committed)] = place.sql("SELECT run, count(*) FROM fullbore_pieces GROUP BY run")
    assert committed > 0
    if not way:
        refused = load(place, file, code=2)
        assert "of the same files are already in" in refused
    # A password is not kept.
    to = ("--to", place.to) if place.maria else ()
    assert "were committed before the run was resumed" in run("runs", "resume", run_id, *to)
    assert found(place, "numbers") == expected(file)
    assert place.names() == ["numbers"]
    assert "nothing to do" in load(place, file, "--resume", *options)


@EACH
def test_a_killed_load_is_taken_back(place: Place, tmp_path: Path) -> None:
    file = numbers(tmp_path / "numbers.csv", 60_000)
    place.sql(NUMBERS)
    options = ("--piece-size", "100kB", "--max-rate", "1MB/s", "--atomic")
    killed("load", str(file), "--to", place.to, *options)
    [(run_id,)] = place.sql("SELECT run FROM fullbore_runs")
    to = ("--to", place.to) if place.maria else ()
    assert "is rolled back" in run("runs", "abort", run_id, *to)
    assert place.names() == ["numbers"]
    assert place.sql("SELECT count(*) FROM fullbore_runs") == [(0,)]
    load(place, file)
    assert found(place, "numbers") == expected(file)


@EACH
def test_a_violated_constraint_leaves_the_table_as_it_was(place: Place, tmp_path: Path) -> None:
    place.sql("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    file = tmp_path / "t.csv"
    file.write_text("id,v\n1,1\n2,2\n")
    load(place, file)
    file.write_text("id,v\n3,3\n3,4\n")
    for way in ((), ("--atomic",), ("--publish", "replace")):
        said = load(place, file, *way, code=1)
        assert "onstraint" in said or "Duplicate entry" in said
        assert place.sql("SELECT id, v FROM t ORDER BY id") == [(1, 1), (2, 2)]
        assert place.names() == ["t"]
    # What the load made goes with it.
    file.write_text("id,v\n1,1\nx,2\n")
    load(place, file, "--table", "made", "--create", "--type", "id=integer", code=1)
    assert place.names() == ["t"]


@NEEDS_SQLITE
@pytest.mark.parametrize("scheme", ["sqlite"])
def test_rows_that_a_table_leaves_out_by_itself_are_noticed(place: Place, tmp_path: Path) -> None:
    place.sql("CREATE TABLE t (id integer UNIQUE ON CONFLICT IGNORE, v integer)")
    place.sql("INSERT INTO t VALUES (1, 1)")
    file = tmp_path / "t.csv"
    file.write_text("id,v\n1,7\n2,2\n")
    assert "left some out" in load(place, file, "--atomic", code=1)
    assert place.sql("SELECT id, v FROM t") == [(1, 1)]
    file.write_text("id,v\n2,7\n2,2\n")
    assert "left some out" in load(place, file, "--publish", "replace", code=1)
    assert place.sql("SELECT id, v FROM t") == [(1, 1)]
    assert place.names() == ["t"]


@NEEDS_MARIADB
def test_zero_is_a_number_in_mariadb(maria: MariaDb, tmp_path: Path) -> None:
    place = Place("mysql", tmp_path, maria)
    place.sql("CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, v int)")
    file = tmp_path / "t.csv"
    for number, way in enumerate(((), ("--atomic",), ("--publish", "replace"))):
        place.sql("DELETE FROM t")
        file.write_text(f"id,v\n0,{number}\n7,1\n")
        load(place, file, *way)
        assert place.sql("SELECT id, v FROM t ORDER BY id") == [(0, number), (7, 1)]


@NEEDS_MARIADB
def test_a_table_is_put_back_where_another_one_fails(maria: MariaDb, tmp_path: Path) -> None:
    place = Place("mysql", tmp_path, maria)
    place.sql("CREATE TABLE a (id int, v int)")
    place.sql("CREATE TABLE b (id int PRIMARY KEY, v int)")
    place.sql("INSERT INTO a VALUES (1, 1)")
    place.sql("INSERT INTO b VALUES (1, 1)")
    file = tmp_path / "new.csv"
    file.write_text("id,v\n1,2\n")
    table = f'sources = ["{file}"]\n'
    job = tmp_path / "job.toml"
    job.write_text(
        f'to = "{place.to}"\n'
        f'[[table]]\nname = "a"\npublish = "replace"\n{table}'
        f'[[table]]\nname = "b"\natomic = true\n{table}'
    )
    assert "Duplicate entry" in run("load", str(job), code=1)
    assert place.sql("SELECT * FROM a") == [(1, 1)]
    assert place.sql("SELECT * FROM b") == [(1, 1)]
    assert place.names() == ["a", "b"]
    place.sql("DELETE FROM b")
    run("load", str(job))
    assert place.sql("SELECT * FROM a") == place.sql("SELECT * FROM b") == [(1, 2)]


@NEEDS_MARIADB
def test_staged_rows_that_are_gone_are_not_taken_for_shown(maria: MariaDb, tmp_path: Path) -> None:
    place = Place("mysql", tmp_path, maria)
    file = numbers(tmp_path / "numbers.csv", 60_000)
    place.sql(NUMBERS)
    options = ("--piece-size", "100kB", "--max-rate", "1MB/s", "--atomic")
    killed("load", str(file), "--to", place.to, *options)
    [(run_id,)] = place.sql("SELECT run FROM fullbore_runs")
    [stage] = [name for name in place.names() if name != "numbers"]
    place.sql(f"DROP TABLE `{stage}`")
    process = start("runs", "resume", run_id, "--to", place.to)
    said = "".join(process.communicate(timeout=120))
    assert process.returncode != 0, said
    assert found_rows(place) == 0
    assert "is rolled back" in run("runs", "abort", run_id, "--to", place.to)
    load(place, file, "--atomic")
    assert found(place, "numbers") == expected(file)


def found_rows(place: Place) -> int:
    [(rows,)] = place.sql("SELECT count(*) FROM numbers")
    return int(rows)


@NEEDS_MARIADB
def test_partitions_of_mariadb_are_filled_aside_and_exchanged(
    maria: MariaDb, tmp_path: Path
) -> None:
    place = Place("mysql", tmp_path, maria)
    file = numbers(tmp_path / "numbers.csv", 30_000)
    ranges = ", ".join(f"PARTITION p{n} VALUES LESS THAN ({n * 10_000})" for n in range(5))
    place.sql(f"{NUMBERS.rstrip(';')} PARTITION BY RANGE (id) ({ranges})")
    place.sql("INSERT INTO numbers VALUES (-1, 1, 'before'), (39999, 2, 'after')")
    parts = ("--publish", "partitions")
    assert "already has rows" not in load(place, file, *parts, "--piece-size", "200kB")
    place.sql("DELETE FROM numbers WHERE id NOT BETWEEN 0 AND 29999")
    assert found(place, "numbers") == expected(file)
    assert place.names() == ["numbers"]
    # Nothing is exchanged where one of them has rows.
    refused = load(place, file, *parts, code=4)
    assert 'partition "p1" of "numbers" has rows already' in refused
    assert found(place, "numbers") == expected(file)
    place.sql("TRUNCATE TABLE numbers")
    load(place, file, *parts, "--resume")
    assert found(place, "numbers") == expected(file)
    assert place.names() == ["numbers"]
    refused = load(place, file, *parts, "--partition-bounds", "1,2", code=2)
    assert "the partitions that the table has" in refused
    place.sql("CREATE TABLE plain (id int, amount int, note text)")
    assert "has no partitions" in load(place, file, *parts, "--table", "plain", code=2)


Refusals = list[tuple[str, tuple[str, ...], str]]


@EACH
def test_what_is_not_possible_is_refused_by_name(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("id,v\n1,2\n")
    unknown = {"duckdb": "HUGEINT", "sqlite": "DECIMAL(20,2)", "mysql": "bit(3)"}[place.scheme]
    place.sql(f"CREATE TABLE t (id integer, v {unknown})")
    name = {"duckdb": "DuckDB", "sqlite": "SQLite", "mysql": "MariaDB"}[place.scheme]
    partitions = f"--publish partitions is not possible in {name}"
    if place.scheme == "mysql":
        partitions = '"t" has no partitions'
    cases: Refusals = [
        ("v", (), unknown),
        ("publish", ("--publish", "partitions"), partitions),
        ("upsert", ("--publish", "upsert", "--key", "id"), "--publish upsert needs a PostgreSQL"),
        ("direct", ("--method", "direct"), "--method direct needs a PostgreSQL server"),
        ("verify", ("--verify", "full"), "--verify full needs a PostgreSQL server"),
        ("part", ("--part", "1/2"), "--part needs a PostgreSQL server"),
        ("control", ("--control", "rows = 1"), "--control needs a PostgreSQL server"),
        ("ledger", ("--ledger-schema", "x"), "--ledger-schema needs a PostgreSQL server"),
        ("table", ("--table", "nowhere"), '"nowhere" does not exist'),
    ]
    for _, options, words in cases:
        assert words in load(place, file, *options, code=2)
    assert place.sql("SELECT count(*) FROM t") == [(0,)]
    if place.maria is not None:
        return
    missing = run("load", str(file), "--to", f"{place.scheme}:{tmp_path}/no/such.db", code=2)
    assert "there is no file" in missing


@NEEDS_POSTGRES
def test_any_driver_loads_all_or_nothing(server: Server, tmp_path: Path) -> None:
    made = "id bigint, amount double precision, note text, day date, at timestamptz"
    server.sql(f"DROP TABLE IF EXISTS by_driver; CREATE TABLE by_driver ({made})")
    file = tmp_path / "rows.csv"
    with file.open("w") as rows:
        rows.write("id,amount,note,day,at\n")
        rows.writelines(
            f'{row},{row / 8},"a ""{row}""",2024-02-29,2024-01-02 03:04:05.5+02\n'
            for row in range(20_000)
        )
    to = f"adbc:postgresql?uri={quote(server.url, safe='')}"
    refused = run("load", str(file), "--to", to, "--table", "by_driver", code=2)
    assert "add --atomic" in refused
    said = run("load", str(file), "--to", to, "--table", "by_driver", "--atomic")
    assert "row counts match (20,000 rows" in said
    totals = "SELECT count(*), sum(id), sum(amount), sum(length(note)), min(day), max(at) = "
    totals += "'2024-01-02 01:04:05.5+00' FROM by_driver"
    expected = [["20000", "199990000", "24998750", "168890", "2024-02-29", "t"]]
    assert server.sql(totals) == expected
    # What the driver was told may be a password.
    kept = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert kept and not [path for path in kept if b"uri=" in path.read_bytes()]
    bad = tmp_path / "bad.csv"
    bad.write_text("id,amount,note,day,at\n1,2,x,,\ny,2,x,,\n")
    run("load", str(bad), "--to", to, "--table", "by_driver", "--atomic", code=1)
    assert server.sql(totals) == expected
    assert server.sql("SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_fb\\_%'") == [["0"]]
    load_again = ("load", str(file), "--to", to, "--table", "by_driver", "--atomic", "--resume")
    assert "what the driver's transactions take in" in run(*load_again, code=2)


def test_a_missing_driver_is_said_with_the_way_to_it(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("id\n1\n")
    said = run("load", str(file), "--to", "adbc:no_such_driver?uri=x", code=2)
    assert 'no ADBC driver "no_such_driver" was found' in said
    assert "ADBC_DRIVER_PATH" in said
