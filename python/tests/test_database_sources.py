"""Tables and queries of DuckDB, SQLite and others as sources, by way of their ADBC drivers."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from database_places import NEEDS_DUCKDB, NEEDS_POSTGRES, NEEDS_SQLITE, Place, run
from embedded import Server

pytestmark = pytest.mark.usefixtures("own_state", "drivers")

EACH = pytest.mark.parametrize(
    "scheme",
    [
        pytest.param("duckdb", marks=NEEDS_DUCKDB),
        pytest.param("sqlite", marks=NEEDS_SQLITE),
    ],
)


def filled(scheme: str, folder: Path) -> Place:
    """A database with a table of 200,000 rows."""
    place = Place(scheme, folder)
    place.sql("CREATE TABLE readings (id bigint, sensor integer, value double, note varchar)")
    numbers = {
        "duckdb": "range(200000) AS n(i)",
        "sqlite": "(WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 199999) SELECT i FROM n)",
    }[scheme]
    place.sql(
        "INSERT INTO readings SELECT i, i % 50, i / 8.0,"
        f" CASE WHEN i % 7 = 0 THEN NULL ELSE 'note '' é ' || i END FROM {numbers}"
    )
    return place


@EACH
def test_a_table_is_copied_into_postgresql(scheme: str, server: Server, tmp_path: Path) -> None:
    place = filled(scheme, tmp_path)
    server.sql("DROP TABLE IF EXISTS readings, few")
    source = f"{place.to}?table=readings"
    said = run("load", source, "--to", server.url, "--create")
    assert "200,000 rows" in said and "snapshot=" not in said
    totals = "SELECT count(*), sum(id), sum(sensor), sum(value)::bigint, count(note) FROM readings"
    [ours] = server.sql(totals)
    [theirs] = place.sql(totals.replace("::bigint", ""))
    assert ours == [str(int(value)) for value in theirs]
    query = "SELECT id, note FROM readings WHERE sensor < 10"
    run("load", place.to, "--query", query, "--to", server.url, "--table", "few", "--create")
    found = place.sql("SELECT count(*), sum(id), sum(length(note)) FROM readings WHERE sensor < 10")
    few = "SELECT count(*), sum(id), sum(length(note)) FROM few"
    assert [[str(value) for value in row] for row in found] == server.sql(few)


@EACH
def test_rows_are_rejected_by_their_number_and_changed_on_the_way(
    scheme: str, server: Server, tmp_path: Path
) -> None:
    place = filled(scheme, tmp_path)
    server.sql(
        "DROP TABLE IF EXISTS chosen; CREATE TABLE chosen (id int, twice float8 CHECK (true))"
    )
    source = f"{place.to}?table=readings"
    change = ("--select", "twice=value * 2", "--select", "sensor=", "--select", "note=")
    check = (
        "--where",
        "id < 1000",
        "--check",
        "small=id <> 500",
        "--max-rejects",
        "5",
        "--publish",
        "replace",
    )
    said = run("load", source, "--to", server.url, "--table", "chosen", *change, *check, code=3)
    assert "1 row" in said
    assert server.sql("SELECT count(*), sum(twice) FROM chosen") == [["999", "124750"]]


@NEEDS_SQLITE
def test_one_database_is_copied_into_another(tmp_path: Path) -> None:
    source = filled("sqlite", tmp_path)
    (tmp_path / "other").mkdir()
    place = Place("sqlite", tmp_path / "other")
    run("load", f"{source.to}?table=readings", "--to", place.to, "--create")
    every = "SELECT * FROM readings ORDER BY id"
    assert source.sql(every) == place.sql(every)


@NEEDS_POSTGRES
def test_any_driver_is_read(server: Server) -> None:
    server.sql("DROP TABLE IF EXISTS by_driver, read_back")
    server.sql(
        "CREATE TABLE by_driver AS SELECT g AS id, g::text AS t FROM generate_series(1, 9) g"
    )
    source = f"adbc:postgresql?uri={quote(server.url, safe='')}"
    query = ("--query", "SELECT id, t FROM by_driver WHERE id > 3")
    to = ("--to", server.url, "--table", "read_back", "--create")
    said = run("load", source, *query, *to)
    assert "uri=" not in said
    assert server.sql("SELECT count(*), sum(id) FROM read_back") == [["6", "39"]]


@NEEDS_SQLITE
def test_what_can_not_be_read_is_refused(server: Server, tmp_path: Path) -> None:
    place = filled("sqlite", tmp_path)
    to = ("--to", server.url, "--table", "nothing", "--create")
    cases = {
        f"sqlite:{tmp_path}/none.db?table=t": "there is no file",
        f"{place.to}?table=nowhere": "nowhere",
        f"{place.to}?table=readings&key=id": "&key= divides what is read of PostgreSQL",
        f"{place.to}": "names no table",
        "mysql://u@h/d?table=t": "loaded into, not read",
    }
    for source, words in cases.items():
        assert words in run("load", source, *to, code=2), source
