"""What merges and retention of an ingest keep to: orders, keys, indexes that come later."""

from __future__ import annotations

from pathlib import Path

import pytest
from embedded import Server
from ingests import clean, expected, held, ingest, made, partitions, write

pytestmark = pytest.mark.usefixtures("own_state")

MERGED = ("--batch-bytes", "100kB", "--partitions", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "incoming"
    folder.mkdir()
    return folder


@pytest.fixture
def table(server: Server) -> Server:
    return clean(server)


def merged(server: Server) -> str:
    [name] = [name for name in partitions(server) if not name.endswith("_p0_0")]
    return name


def test_rows_may_be_put_in_descending_order(table: Server, folder: Path) -> None:
    made(table)
    for number in range(3):
        write(folder, number)
    ingest(table, folder, "--adopt", "--order-by", "key desc", *MERGED)
    ingest(table, folder, "--order-by", "key desc", *MERGED)
    pairs = f"SELECT key, lag(key) OVER (ORDER BY ctid) AS before FROM {merged(table)}"
    assert table.sql(f"SELECT count(*) FROM ({pairs}) AS p WHERE key > before") == [["0"]]
    # Merges by a column that is not there would fail for ever.
    said = ingest(table, folder, "--order-by", "kay", code=2)
    assert 'has no column "kay"' in said


def test_an_index_may_have_the_column_of_batches(table: Server, folder: Path) -> None:
    made(table)
    write(folder, 0)
    ingest(table, folder, "--adopt", *MERGED)
    table.sql("CREATE INDEX readings_batch ON readings (key, fullbore_batch DESC)")
    for number in range(1, 4):
        write(folder, number)
    ingest(table, folder, *MERGED)
    ingest(table, folder, *MERGED)
    assert held(table) == expected(4)
    indexes = f"SELECT count(*) FROM pg_index WHERE indrelid = '{merged(table)}'::regclass"
    assert table.sql(f"{indexes} AND indisvalid") == [["2"]]


def test_a_row_from_before_does_not_come_back(table: Server, folder: Path) -> None:
    table.sql("CREATE TABLE readings (id bigint PRIMARY KEY, key bigint, note text)")
    table.sql("INSERT INTO readings VALUES (1, 1, 'old')")
    write(folder, 0)
    said = ingest(table, folder, "--adopt", "--key", "id", "--keep", "1h", code=2)
    assert "--keep: " in said and "had rows before" in said
    # It is what it was.
    table.sql("DELETE FROM readings")
    ingest(table, folder, "--adopt", "--key", "id", "--keep", "1h")
    assert held(table) == expected(1)
