"""What merges and retention of an ingest keep to: orders, keys, indexes that come later."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from embedded import Server
from ingests import NOTE, ROWS, expected, held, ingest, made, partitions, write

pytestmark = pytest.mark.usefixtures("own_state")

MERGED = ("--batch-bytes", "100kB", "--partitions", "1")


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


def test_old_rows_are_dropped(table: Server, folder: Path) -> None:
    made(table)
    table.sql("INSERT INTO readings VALUES (0, 0, 'kept')")
    write(folder, 1)
    ingest(table, folder, "--adopt", "--keep", "1h")
    assert held(table)[0] == ROWS + 1
    table.sql(
        "UPDATE fullbore_ledger.batches SET oldest = oldest - interval '2h',"
        " newest = newest - interval '2h'"
    )
    said = ingest(table, folder, "--keep", "1h")
    assert "dropped 4,000 rows" in said
    # What was there before has no age, and the file is not loaded again.
    assert held(table) == (1, 0)


def test_files_that_are_gone_are_forgotten_with_their_rows(table: Server, folder: Path) -> None:
    made(table)
    options = ("--adopt", "--delete", "--keep", "1h")
    write(folder, 0)
    ingest(table, folder, *options)
    # Of a process that knows where its file still is.
    table.sql(
        "INSERT INTO fullbore_ledger.taken"
        " SELECT target, '/other/a.csv', version, batch, 9 FROM fullbore_ledger.taken"
    )
    table.sql(
        "UPDATE fullbore_ledger.batches SET oldest = oldest - interval '2h',"
        " newest = newest - interval '2h'"
    )
    write(folder, 1)
    ingest(table, folder, *options)
    assert held(table)[0] == ROWS
    ingest(table, folder, *options)
    known = "SELECT batch, source LIKE '/other/%' FROM fullbore_ledger.taken ORDER BY batch"
    assert table.sql(known) == [["1", "t"], ["2", "f"]]
    objects = ingest(table, "s3://bucket/prefix/", *options, code=2)
    assert "are for files, not for objects" in objects


def test_rows_replace_older_ones_of_their_key(table: Server, folder: Path) -> None:
    table.sql("CREATE TABLE readings (id bigint PRIMARY KEY, key bigint, note text)")
    table.sql("CREATE INDEX readings_key ON readings (key)")
    table.sql("INSERT INTO readings VALUES (7, -1, 'before'), (-5, -2, 'before')")
    table.sql("DROP ROLE IF EXISTS looker")
    table.sql("CREATE ROLE looker")
    table.sql("GRANT SELECT ON readings TO looker")
    options = ("--adopt", "--key", "id", "--partitions", "2", "--batch-bytes", "100kB")
    expected = {7: -1, -5: -2}
    draw = random.Random(5)
    for number in range(9):
        # Keys come again within a file, and in later ones.
        chosen = [(draw.randrange(3000), number * ROWS + row) for row in range(ROWS)]
        expected.update(chosen)
        rows = "".join(f"{key},{value},{NOTE}\n" for key, value in chosen)
        (folder / f".{number}").write_text("id,key,note\n" + rows)
        (folder / f".{number}").rename(folder / f"{number}.csv")
        if number % 3 == 2:
            ingest(table, folder, *options)
            found = table.sql("SELECT id, key FROM readings")
            assert {int(key): int(value) for key, value in found} == expected
    assert len(found) == len(expected)
    [[count]] = table.sql(
        "SELECT count(*) FROM pg_inherits WHERE inhparent = 'readings_batches'::regclass"
    )
    assert int(count) <= 3
    [[may]] = table.sql("SELECT has_table_privilege('looker', 'readings', 'SELECT')")
    assert may == "t"
    assert "--key" in ingest(table, folder, code=2)
    assert "another key" in ingest(table, folder, "--key", "key", code=2)
    plan = table.sql("SET enable_seqscan = off; EXPLAIN SELECT * FROM readings WHERE id = 7")
    assert sum("Index" in line for (line,) in plan) >= int(count), plan


def test_a_table_that_can_not_be_partitioned_so_is_refused(table: Server, folder: Path) -> None:
    write(folder, 0)
    assert "does not exist" in ingest(table, folder, code=2)
    table.sql("CREATE TABLE readings (id bigint PRIMARY KEY, key bigint, note text)")
    assert "--adopt" in ingest(table, folder, code=2)
    assert "PRIMARY KEY (id)" in ingest(table, folder, "--adopt", code=2)
    table.sql("ALTER TABLE readings DROP CONSTRAINT readings_pkey")
    # Neither would hold across batches, whatever the key.
    for index in ("lower(note)", "id) WHERE (key > 0"):
        table.sql(f"CREATE UNIQUE INDEX of_some ON readings ({index})")
        for key in ((), ("--key", "id")):
            assert "of_some" in ingest(table, folder, "--adopt", *key, code=2)
        table.sql("DROP INDEX of_some")
    table.sql("CREATE VIEW of_readings AS SELECT * FROM readings")
    assert "view public.of_readings" in ingest(table, folder, "--adopt", code=2)
    assert "is not for batches without end" in ingest(table, folder, "--atomic", code=2)
    table.sql("DROP VIEW of_readings")
    table.sql("CREATE UNIQUE INDEX of_key ON readings (key)")
    table.sql("INSERT INTO readings (id) VALUES (1), (2)")
    refused = ingest(table, folder, "--adopt", "--key", "key", code=2)
    assert 'has rows whose key ("key") is NULL' in refused
    table.sql("TRUNCATE readings")
    table.sql("DROP INDEX of_key")
    table.sql("GRANT SELECT ON readings TO pg_monitor")
    ingest(table, folder, "--adopt")
    assert held(table) == expected(1)
    may = "SELECT has_table_privilege('pg_monitor', 'readings', 'SELECT')"
    assert table.sql(may) == [["t"]]
