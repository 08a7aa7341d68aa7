"""`fullbore ingest`: each file once, partitions that stay few, whatever ends the process."""

from __future__ import annotations

import random
import signal
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

import fullbore
import pytest
from embedded import Server
from ingests import (
    ROWS,
    events,
    expected,
    held,
    ingest,
    made,
    partitions,
    running,
    transaction,
    until,
    write,
)

pytestmark = pytest.mark.usefixtures("own_state")


def test_files_are_loaded_once_and_into_a_table_that_is_made(table: Server, folder: Path) -> None:
    for number in range(3):
        write(folder, number)
    said = ingest(table, folder, "--create")
    assert "3 files, 12,000 rows" in said
    assert held(table) == expected(3)
    assert "batch" not in ingest(table, folder)
    write(folder, 3)
    assert "1 file, 4,000 rows" in ingest(table, folder)
    assert held(table) == expected(4)
    # A file of the same name with other contents is another one.
    write(folder, 0, rows=10)
    assert "1 file, 10 rows" in ingest(table, folder)
    assert held(table)[0] == expected(4)[0] + 10


def test_partitions_stay_few_and_their_rows_in_order(table: Server, folder: Path) -> None:
    made(table)
    for number in range(40):
        write(folder, number)
    said = ingest(
        table, folder, "--adopt", "--batch-bytes", "100kB", "--order-by", "key,id", "--json"
    )
    kinds = [event["event"] for event in events(said)]
    assert kinds.count("loaded") == 40 and kinds.count("merged") > 1
    names = partitions(table)
    assert len(names) <= 13
    assert held(table) == expected(40)
    for name in names:
        [[indexes]] = table.sql(
            f"SELECT count(*) FROM pg_index WHERE indrelid = '{name}'::regclass AND indisvalid"
        )
        assert indexes == "1", name
        disorder = (
            "SELECT count(*) FROM (SELECT key, lag(key) OVER (ORDER BY ctid) AS before"
            f" FROM {name}) AS pairs WHERE key < before"
        )
        first, last = name.rpartition("_p")[2].split("_")
        if int(last) > int(first):
            assert table.sql(disorder) == [["0"]], name
    # Nothing of it is left, and the runs of batches are not kept.
    assert table.sql("SELECT count(*) FROM fullbore_ledger.runs") == [["0"]]
    assert table.sql("SELECT count(*) FROM fullbore_ledger.batches WHERE state <> 'attached'") == [
        ["0"]
    ]
    stray = "SELECT count(*) FROM pg_class WHERE relname LIKE 'readings%\\_fb\\_%'"
    assert table.sql(stray) == [["0"]]


def test_partitions_are_stored_as_the_table_was(table: Server, folder: Path) -> None:
    made(table)
    table.sql("ALTER TABLE readings SET (fillfactor = 70, toast.autovacuum_enabled = off)")
    table.sql(
        "ALTER TABLE readings ALTER note SET STORAGE external, ALTER note SET COMPRESSION pglz,"
        " ALTER key SET STATISTICS 500, ALTER id SET (n_distinct = -1)"
    )
    for number in range(7):
        write(folder, number)
    ingest(table, folder, "--adopt", "--batch-bytes", "100kB", "--partitions", "2")
    assert held(table) == expected(7)
    names = partitions(table)
    assert len(names) > 2
    kept = (
        "SELECT string_agg(concat_ws(' ', attname, attstorage, attcompression, attstattarget,"
        " attoptions), ', ' ORDER BY attname) FROM pg_attribute WHERE attrelid = '{}'::regclass"
        " AND attname IN ('id', 'key', 'note')"
    )
    parameters = (
        "SELECT c.reloptions, t.reloptions FROM pg_class c JOIN pg_class t"
        " ON t.oid = c.reltoastrelid WHERE c.oid = '{}'::regclass"
    )
    wanted = [table.sql(asked.format(names[0])) for asked in (kept, parameters)]
    # External, and by pglz.
    assert "note e p" in wanted[0][0][0] and "fillfactor=70" in str(wanted[1])
    for name in names[1:]:
        assert [table.sql(asked.format(name)) for asked in (kept, parameters)] == wanted, name


@pytest.mark.parametrize("way", ["direct", "binary"])
def test_merged_rows_need_no_further_writing(
    table: Server, folder: Path, tmp_path: Path, way: str
) -> None:
    table.sql("CREATE EXTENSION IF NOT EXISTS pageinspect")
    table.sql("CREATE EXTENSION IF NOT EXISTS amcheck")
    table.sql("DROP EXTENSION IF EXISTS fullbore CASCADE")
    if way == "direct":
        if not table.sql("SELECT 1 FROM pg_available_extensions WHERE name = 'fullbore'"):
            pytest.skip("the server has no extension")
        table.sql("CREATE EXTENSION fullbore")
    made(table)
    if way == "direct":
        # A filter is built after the rows, and keeps no other index from being filled.
        table.sql("CREATE INDEX filter ON readings USING fullbore_filter (key)")
    for number in range(8):
        write(folder, number)
    log = tmp_path / "log"
    options = ("--order-by", "key", "--log-file", str(log))
    ingest(table, folder, "--adopt", "--batch-bytes", "100kB", "--partitions", "2", *options)
    assert held(table) == expected(8)
    ingest(table, folder, "--partitions", "1", *options)
    assert held(table) == expected(8)
    merges = [line for line in log.read_text().splitlines() if "FREEZE" in line and "_p1_" in line]
    wanted = "FORMAT fullbore" if way == "direct" else "FORMAT binary"
    assert merges and all(wanted in line for line in merges), merges
    [name] = [name for name in partitions(table) if not name.endswith("_p0_0")]
    # HEAP_XMIN_FROZEN.
    [[rows, frozen]] = table.sql(
        "SELECT count(*), count(*) FILTER (WHERE t_infomask & 768 = 768) FROM generate_series(0,"
        f" pg_relation_size('{name}') / 8192 - 1) AS page,"
        f" heap_page_items(get_raw_page('{name}', page::int))"
    )
    assert rows == frozen == str(expected(8)[0])
    methods = (
        " FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = c.relam"
        f" WHERE indrelid = '{name}'::regclass AND amname"
    )
    table.sql(f"SELECT bt_index_parent_check(indexrelid, true, true) {methods} = 'btree'")
    [[filters]] = table.sql(f"SELECT count(*) {methods} = 'fullbore_filter'")
    assert filters == ("1" if way == "direct" else "0")
    filled = [line for line in log.read_text().splitlines() if "_p1_" in line and "INDEXES" in line]
    assert bool(filled) == (way == "direct"), "the other indexes are filled from the rows"
    # A domain has no binary form of its own, and takes another way.
    table.sql("DROP DOMAIN IF EXISTS words")
    table.sql("CREATE DOMAIN words AS text")
    table.sql("ALTER TABLE readings ADD more words")
    write(folder, 8)
    options = ("--partitions", "1", "--columns", "id,key,note", "--log-file", str(log))
    ingest(table, folder, *options)
    assert held(table) == expected(9)
    assert partitions(table)[-1] == "readings_p1_9"
    assert 'INSERT INTO "public"."readings_p1_9"' in log.read_text()
    table.sql("ALTER TABLE readings DROP more")


def test_a_ledger_that_lies_drops_no_partition(table: Server, folder: Path) -> None:
    made(table)
    for number in range(3):
        write(folder, number)
    ingest(table, folder, "--adopt", "--batch-bytes", "100kB", "--partitions", "3")
    assert "readings_p1_1" in partitions(table)
    table.sql("UPDATE fullbore_ledger.batches SET state = 'merging' WHERE last = 1")
    ingest(table, folder)
    assert held(table) == expected(3)


def test_what_a_merge_has_detached_is_dropped_by_the_next(table: Server, folder: Path) -> None:
    made(table)
    write(folder, 0)
    ingest(table, folder, "--adopt")
    # As a merge leaves it that ends between its two last transactions.
    [[name]] = table.sql("SELECT format('readings_d%s_2_3', 'readings'::regclass::oid)")
    table.sql(f"CREATE TABLE {name} ()")
    table.sql(
        "INSERT INTO fullbore_ledger.batches (target, first, last, batches, state)"
        " VALUES ('readings'::regclass, 2, 3, 2, 'detached')"
    )
    reads = f"SELECT pg_sleep(60) FROM (SELECT count(*) FROM {name}) AS rows"
    reader = subprocess.Popen(
        [str(fullbore.find_command()), "psql", "--", "-c", reads], env=table.environment
    )
    pids = f"SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%{name}%'"
    pids += " AND pid <> pg_backend_pid()"
    until(lambda: table.sql(pids))
    is_gone = f"SELECT to_regclass('{name}') IS NULL"
    write(folder, 1)
    assert f'dropping "public"."{name}"' in ingest(table, folder)
    assert table.sql(is_gone) == [["f"]]
    table.sql(f"SELECT pg_terminate_backend(pid) FROM ({pids}) AS readers")
    reader.communicate()
    write(folder, 2)
    ingest(table, folder)
    assert table.sql(is_gone) == [["t"]]
    assert table.sql("SELECT count(*) FROM fullbore_ledger.batches WHERE state = 'detached'") == [
        ["0"]
    ]
    assert held(table) == expected(3)


def test_a_reader_sees_whole_batches_and_never_waits(table: Server, folder: Path) -> None:
    made(table)
    seen: list[int] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            seen.append(held(table)[0])

    reader = threading.Thread(target=read)
    with running(table, folder, "--adopt", "--batch-bytes", "100kB") as process:
        until(lambda: partitions_or_none(table))
        reader.start()
        for number in range(25):
            write(folder, number)
        until(lambda: held(table) == expected(25))
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
    over.set()
    reader.join()
    assert process.returncode == 0, said
    assert all(rows % ROWS == 0 for rows in seen)
    assert seen == sorted(seen)


def partitions_or_none(server: Server) -> list[str]:
    kind = server.sql("SELECT relkind FROM pg_class WHERE oid = to_regclass('readings')")
    return partitions(server) if kind == [["p"]] else []


def test_whatever_ends_it_each_row_is_there_once(table: Server, folder: Path) -> None:
    made(table)
    draw = random.Random(7)
    count = 0
    for _ in range(12):
        for _ in range(draw.randrange(3)):
            write(folder, count)
            count += 1
        with running(table, folder, "--adopt", "--batch-bytes", "100kB") as process:
            time.sleep(draw.uniform(0.05, 1.2))
            process.send_signal(draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT]))
            process.communicate(timeout=60)
    ingest(table, folder, "--adopt")
    assert held(table) == expected(count)
    names = table.sql("SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^readings'")
    assert sorted(name for (name,) in names) == partitions(table)


def test_several_share_a_folder(table: Server, folder: Path) -> None:
    made(table)
    ingest(table, folder, "--adopt")
    with (
        running(table, folder, "--batch-bytes", "100kB"),
        running(table, folder, "--batch-bytes", "100kB"),
        running(table, folder, "--batch-bytes", "100kB"),
    ):
        for number in range(20):
            write(folder, number)
        until(lambda: held(table) == expected(20))
    assert ingest(table, folder).count("batch") == 0
    assert held(table) == expected(20)


def test_files_are_put_away_once_their_rows_are_shown(table: Server, folder: Path) -> None:
    made(table)
    kept = folder.parent / "done"
    write(folder, 0)
    ingest(table, folder, "--adopt", "--archive", str(kept))
    assert [path.name for path in kept.iterdir()] == ["part-0000.csv"]
    assert list(folder.iterdir()) == []
    write(folder, 1)
    # It was loaded, and the process ended before it could be put away.
    ingest(table, folder)
    assert "batch" not in ingest(table, folder, "--delete")
    assert list(folder.iterdir()) == []
    assert held(table) == expected(2)


def test_bad_rows_are_rejected_or_stop_it(table: Server, folder: Path) -> None:
    made(table)
    write(folder, 0)
    (folder / "bad.csv").write_text("id,key,note\n1,2,a\nx,3,b\n")
    said = ingest(table, folder, "--adopt", code=4)
    assert "bad.csv" in said
    assert held(table) == (0, 0)
    # The batch is still claimed; it is loaded as it was, once that is allowed.
    said = ingest(table, folder, "--max-rejects", "1")
    assert "1 row rejected" in said
    assert held(table)[0] == ROWS + 1
    (folder / "worse.csv").write_text("id,key,note\ny,2,a\n")
    ingest(table, folder, code=4)
    (folder / "worse.csv").unlink()
    refused = ingest(table, folder, code=2)
    assert "is not among the sources any more" in refused
    number = refused.partition("--forget ")[2].split("`")[0]
    ingest(table, folder, "--forget", number)
    assert held(table)[0] == ROWS + 1
    assert table.sql("SELECT count(*) FROM fullbore_ledger.runs") == [["0"]]
    # No number is given twice.
    write(folder, 1)
    ingest(table, folder)
    [[last]] = table.sql("SELECT max(last) FROM fullbore_ledger.batches")
    assert int(last) == int(number) + 1


def test_a_batch_of_unknown_files_keeps_nobody_from_work(
    table: Server, folder: Path, tmp_path: Path
) -> None:
    made(table)
    (folder / "bad.csv").write_text("id,key,note\nx,2,a\n")
    ingest(table, folder, "--adopt", code=4)
    other = tmp_path / "other"
    other.mkdir()
    write(other, 0)
    assert "is not among the sources any more" in ingest(table, other, code=2)
    assert held(table) == expected(1)
    ingest(table, folder, "--max-rejects", "1")
    assert "batch" not in ingest(table, other)


def test_files_wait_while_the_disk_is_full(table: Server, folder: Path) -> None:
    made(table)
    ingest(table, folder, "--adopt")
    table.sql(
        "CREATE FUNCTION full_disk() RETURNS event_trigger LANGUAGE plpgsql AS $$"
        " BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$"
    )
    table.sql(
        "CREATE EVENT TRIGGER full_disk ON ddl_command_start WHEN TAG IN ('CREATE TABLE')"
        " EXECUTE FUNCTION full_disk()"
    )
    try:
        with running(table, folder) as process:
            assert process.stdout is not None
            write(folder, 0)
            while "no space" not in process.stdout.readline():
                assert process.poll() is None
            table.sql("ALTER EVENT TRIGGER full_disk DISABLE")
            until(lambda: held(table) == expected(1))
    finally:
        table.sql("DROP EVENT TRIGGER full_disk")
        table.sql("DROP FUNCTION full_disk")


def test_partitions_belong_to_the_owner_of_their_table(table: Server, folder: Path) -> None:
    made(table)
    table.sql("CREATE ROLE somebody; GRANT CREATE ON SCHEMA public TO somebody")
    table.sql("ALTER TABLE readings OWNER TO somebody")
    try:
        for number in range(20):
            write(folder, number)
        ingest(table, folder, "--adopt", "--batch-bytes", "100kB")
        owners = "SELECT DISTINCT relowner::regrole FROM pg_class WHERE relname LIKE 'readings%'"
        assert table.sql(owners) == [["somebody"]]
        table.sql("SET ROLE somebody; ALTER TABLE readings ADD more int")
    finally:
        table.sql("DROP OWNED BY somebody CASCADE; DROP ROLE somebody")


def test_what_rows_would_bypass_is_refused(table: Server, folder: Path) -> None:
    made(table)
    write(folder, 0)
    ingest(table, folder, "--adopt")
    write(folder, 1)
    table.sql(
        "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
        "CREATE TRIGGER noted BEFORE INSERT ON readings FOR EACH ROW EXECUTE FUNCTION noted()"
    )
    assert "its trigger noted would not fire" in ingest(table, folder, code=2)
    table.sql("DROP FUNCTION noted CASCADE; CREATE PUBLICATION p FOR TABLE readings")
    assert "the publication p would not publish" in ingest(table, folder, code=2)
    table.sql("DROP PUBLICATION p")
    ingest(table, folder)
    assert held(table) == expected(2)


def test_writers_do_not_wait_for_a_merge_that_waits_for_readers(
    table: Server, folder: Path
) -> None:
    made(table)
    ingest(table, folder, "--adopt")
    with running(table, folder, "--batch-bytes", "100kB"):
        write(folder, 0)
        until(lambda: held(table) == expected(1))
        with transaction(table, "SELECT count(*) FROM readings"):
            for number in range(1, 24):
                write(folder, number)
            merging = "SELECT 1 FROM fullbore_ledger.batches WHERE state = 'merging'"
            until(lambda: table.sql(merging) != [])
            table.sql("SET statement_timeout = '20s'; UPDATE readings SET note = 'new'")
        until(lambda: held(table) == expected(24))
        assert table.sql("SELECT count(*) > 0 FROM readings WHERE note = 'new'") == [["t"]]


def test_a_file_that_takes_the_place_of_another_is_not_put_away_unread(
    table: Server, folder: Path
) -> None:
    made(table)
    ingest(table, folder, "--adopt")
    with running(table, folder, "--delete"):
        with transaction(table, "LOCK TABLE readings IN SHARE UPDATE EXCLUSIVE MODE"):
            first = write(folder, 0)
            until(lambda: table.sql("SELECT state FROM fullbore_ledger.runs") == [["finished"]])
            write(folder, 1).rename(first)
        until(lambda: held(table) == expected(2))
        until(lambda: not first.exists())


def test_rows_of_files_are_not_counted_before(table: Server, folder: Path) -> None:
    made(table)
    assert "--batch-bytes is for files" in ingest(table, folder, "--batch-rows", "5", code=2)


def test_it_goes_on_when_the_server_is_back(table: Server, folder: Path) -> None:
    made(table)
    with running(table, folder, "--adopt", "--batch-bytes", "100kB") as process:
        write(folder, 0)
        until(lambda: held(table) == expected(1))
        own = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = "
        for _ in range(3):
            table.sql(f"SELECT pg_terminate_backend(pid) FROM ({own}'client backend') AS own")
            time.sleep(0.3)
        write(folder, 1)
        until(lambda: held(table) == expected(2))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 0


def test_figures_are_served_and_logs_can_be_rotated(
    table: Server, folder: Path, tmp_path: Path
) -> None:
    made(table)
    log = tmp_path / "log"
    with running(
        table, folder, "--adopt", "--listen", "127.0.0.1:0", "--log-file", str(log)
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        address = said.partition("http://")[2].partition("/")[0]
        write(folder, 0)
        until(lambda: held(table) == expected(1))
        until(lambda: "fullbore_ingest_batches_total" in fetched(address, "metrics"))
        until(lambda: 'rows_total{table="' in fetched(address, "metrics"))
        assert fetched(address, "health") == "ok\n"
        log.rename(tmp_path / "log.1")
        write(folder, 1)
        until(lambda: held(table) == expected(2) and log.exists())
    assert "batch 1" in (tmp_path / "log.1").read_text()


def fetched(address: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{address}/{path}", timeout=10) as answer:
        return answer.read().decode()
