"""An index by `fullbore_filter` lets lookups leave out partitions, and never a row."""

from __future__ import annotations

from random import Random

import pytest
from conftest import fresh
from server import Server
from wire import Connection, ServerError

PARTS = 6
# How a value of each type is made of a number, as SQL.
TYPES = {
    "smallint": "({n} % 32000)::smallint",
    "integer": "{n}",
    "bigint": "{n}::bigint * 1000003",
    "text": "'key ' || {n}",
    "varchar(20)": "'key ' || {n}",
    "character(12)": "('k' || {n})::character(12)",
    "uuid": "md5(({n})::text)::uuid",
    "numeric": "{n} / 100.0",
    "date": "date '2020-01-01' + {n}",
    "timestamp": "timestamp '2020-01-01' + {n} * interval '1 min'",
    "timestamptz": "timestamptz '2020-01-01 00:00+00' + {n} * interval '1 min'",
    "bytea": "sha256(({n})::text::bytea)",
}


def make(session: Connection, kind: str, rows: int = 1000) -> None:
    """Partitions with every sixth number each; the last one is empty."""
    session.query(f"CREATE TABLE events (part int, k {kind}, n int) PARTITION BY LIST (part)")
    for part in range(PARTS):
        session.query(f"CREATE TABLE part_{part} PARTITION OF events FOR VALUES IN ({part})")
    value = TYPES[kind].format(n="g")
    session.query(
        f"INSERT INTO events SELECT g % {PARTS - 1}, {value}, g FROM generate_series(1, {rows}) g"
    )
    session.query("CREATE INDEX ON events (k); CREATE INDEX ON events USING fullbore_filter (k)")
    session.query("ANALYZE events")


COUNT = (
    "SELECT sum(pg_stat_get_xact_numscans(indexrelid)) FROM pg_index"
    " WHERE indrelid IN (SELECT relid FROM pg_partition_tree('events'))"
)


def scans(session: Connection, query: str) -> tuple[list[list[str | None]], int]:
    """A query's rows by its indexes, and how many of them were looked into."""
    session.query("BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
    before = int(str(session.value(COUNT)))
    rows = session.query(query)
    count = int(str(session.value(COUNT))) - before
    session.query("ROLLBACK")
    return rows, count


def slowly(session: Connection, query: str) -> list[list[str | None]]:
    """The same, by reading all rows: no filter is asked then."""
    session.query("BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL enable_indexscan = off")
    session.query("SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexonlyscan = off")
    rows = session.query(query)
    session.query("ROLLBACK")
    return rows


@pytest.mark.parametrize("kind", TYPES)
def test_partitions_without_the_key_are_left_out(any_session: Connection, kind: str) -> None:
    session = any_session
    make(session, kind)
    looked = 0
    for number in range(1, 101):
        value = TYPES[kind].format(n=number)
        rows, count = scans(session, f"SELECT n FROM events WHERE k = {value}")
        assert rows == [[str(number)]]
        looked += count
    # Of each hundred partitions without a key about one seems to have it.
    assert 100 <= looked <= 115
    rows, count = scans(session, f"SELECT n FROM events WHERE k = {TYPES[kind].format(n=5000)}")
    assert rows == [] and count <= 1


def test_parameters_and_other_plans(any_session: Connection) -> None:
    session = any_session
    make(session, "bigint")
    session.query("SET plan_cache_mode = force_generic_plan")
    session.query("PREPARE one(int) AS SELECT n FROM events WHERE k = $1 * 1000003::bigint")
    for number in (1, 77, 1000):
        assert scans(session, f"EXECUTE one({number})") == ([[str(number)]], 1)
    assert scans(session, "EXECUTE one(5000)")[0] == []
    # Integers of other widths are compared with it.
    rows, count = scans(session, "SELECT n FROM events WHERE k = 1000003::int ORDER BY k LIMIT 1")
    assert (rows, count) == ([["1"]], 1)
    rows, count = scans(session, "SELECT count(*) FROM events WHERE k = 1000003 AND n IS NOT NULL")
    assert (rows, count) == ([["1"]], 1)
    # What is not compared by "=" with one value is looked up everywhere.
    for query in (
        "SELECT n FROM events WHERE k IN (1000003, 2000006) ORDER BY n",
        "SELECT n FROM events WHERE k > 998000000 ORDER BY n",
        "SELECT n FROM events WHERE k IS NULL",
        "SELECT e.n FROM (VALUES (1), (2), (5000)) AS v (x)"
        " JOIN events e ON e.k = v.x * 1000003::bigint ORDER BY 1",
        "SELECT n FROM events WHERE k = (SELECT 3 * 1000003::bigint)",
        "SELECT v.x, (SELECT n FROM events WHERE k = v.x * 1000003::bigint)"
        " FROM generate_series(1, 30) AS v (x) ORDER BY 1",
    ):
        assert scans(session, query)[0] == slowly(session, query)
    assert scans(session, "SELECT n FROM events WHERE k IN (1000003, 2000006)")[1] >= PARTS
    # Without its trace, others would not conflict with the lookup.
    session.query("BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL enable_seqscan = off")
    assert session.query("SELECT n FROM events WHERE k = 1000003") == [["1"]]
    session.query("ROLLBACK; DEALLOCATE ALL; RESET plan_cache_mode")


def left_out(session: Connection, query: str) -> int:
    """So many scans of a query were not begun."""
    lines = session.query(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {query}")
    removed = [line[0].split(":")[1] for line in lines if line[0] and "Subplans Removed" in line[0]]
    return sum(map(int, removed))


WAYS = ("seqscan", "indexscan", "indexonlyscan", "bitmapscan")


@pytest.mark.parametrize("way", WAYS)
def test_scans_are_left_out_before_a_plan_begins(any_session: Connection, way: str) -> None:
    session = any_session
    make(session, "integer")
    session.query("VACUUM events")
    session.query("SET plan_cache_mode = force_generic_plan")
    for other in WAYS:
        session.query(f"SET enable_{other} = {'on' if other == way else 'off'}")
    session.query("PREPARE one(int) AS SELECT k FROM events WHERE k = $1 + 0")
    session.query("PREPARE best(int) AS SELECT k FROM events WHERE k = $1 ORDER BY n LIMIT 1")
    session.query("PREPARE as_text(int) AS SELECT count(k)::text FROM events WHERE k = $1")
    for statement in ("one", "best", "as_text"):
        plan = session.query(f"EXPLAIN (COSTS OFF) EXECUTE {statement}(5)")
        assert sum("on part_" in str(line) for line in plan) >= PARTS
        assert left_out(session, f"EXECUTE {statement}(5)") == PARTS - 1
        # One is left, although no row is there.
        assert left_out(session, f"EXECUTE {statement}(-5)") == PARTS - 1
        assert left_out(session, f"EXECUTE {statement}(NULL)") == 0
        # The plan is kept as it was.
        for number in range(1, 101):
            expected = "1" if statement == "as_text" else str(number)
            assert session.query(f"EXECUTE {statement}({number})") == [[expected]]
    # What may differ from row to row, or may not be computed yet, is left to the execution.
    for fixed in ("k = n", "k = (random() * 0)::int", "k = (SELECT 5)", "k + 0 = 5", "k <> 5"):
        assert left_out(session, f"SELECT k FROM events WHERE {fixed}") == 0
    session.query("DEALLOCATE ALL; RESET plan_cache_mode")
    for other in WAYS:
        session.query(f"RESET enable_{other}")


def test_functions_and_cursors(any_session: Connection) -> None:
    session = any_session
    make(session, "bigint")
    find = "SELECT n FROM events WHERE k = $1 * 1000003::bigint"
    session.query(f"CREATE FUNCTION by_sql(int) RETURNS int LANGUAGE sql AS '{find}'")
    session.query(
        "CREATE FUNCTION by_loop(int) RETURNS int LANGUAGE plpgsql AS"
        f" 'DECLARE found int; BEGIN FOR found IN {find} LOOP RETURN found; END LOOP;"
        " RETURN NULL; END'"
    )
    session.query("SET enable_seqscan = off; SET enable_bitmapscan = off")
    for mode in ("auto", "force_generic_plan", "force_custom_plan"):
        session.query(f"SET plan_cache_mode = {mode}")
        for function in ("by_sql", "by_loop"):
            count = f"SELECT count(*) FROM generate_series(1, 1100) g WHERE {function}(g) = g"
            assert session.value(count) == "1000"
    # What a lookup takes of memory is gone when it ends, although the query it is part of does not.
    used = "SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE g > 0"
    found = session.query(
        f"SELECT (SELECT by_sql(g)), CASE WHEN g IN (1000, 20000) THEN ({used}) END"
        " FROM generate_series(1, 20000) g"
    )
    assert int(str(found[19999][1])) - int(str(found[999][1])) < 1_000_000
    session.query("BEGIN; DECLARE rows SCROLL CURSOR FOR SELECT n FROM events WHERE k = 1000003")
    session.query("INSERT INTO events SELECT g % 6, 1000003, -g FROM generate_series(1, 60) g")
    assert session.query("FETCH ALL rows; MOVE ABSOLUTE 0 IN rows") == [["1"]]
    assert session.query("FETCH 2 rows") == [["1"]]
    assert session.value("SELECT count(*) FROM events WHERE k = 1000003") == "61"
    session.query("ROLLBACK; RESET plan_cache_mode; RESET enable_seqscan; RESET enable_bitmapscan")


def test_rows_that_come_later_are_found(any_server: Server) -> None:
    """Whatever is done to the table, and across crashes."""
    session = fresh(any_server)
    make(session, "bigint", 20_000)
    draw = Random(7)
    changes = [
        "INSERT INTO events VALUES ({part}, {key}::bigint * 1000003, {key})",
        "UPDATE events SET k = {key}::bigint * 1000003, n = {key} WHERE n = {other}",
        "UPDATE events SET part = {part} WHERE n = {other}",
        "DELETE FROM events WHERE n = {other}",
        "BEGIN; INSERT INTO events VALUES ({part}, 1, 1); ROLLBACK",
        "VACUUM part_{part}",
        "REINDEX TABLE part_{part}",
        "REINDEX TABLE CONCURRENTLY part_{part}",
        "DROP INDEX events_k_idx1; CREATE INDEX events_k_idx1 ON events USING fullbore_filter (k)",
        "TRUNCATE part_{part}",
        "CHECKPOINT",
    ]
    for step in range(300):
        numbers = {name: draw.randrange(40_000) for name in ("key", "other")}
        sql = draw.choice(changes[:6] if step % 10 else changes)
        for one in sql.format(part=draw.randrange(PARTS), **numbers).split("; "):
            session.query(one)
        if step % 100 == 50:
            session.close()
            any_server.crash()
            session = Connection(any_server.socket_dir, session.database)
        for key in (numbers["key"], numbers["other"], draw.randrange(40_000)):
            query = f"SELECT part, n FROM events WHERE k = {key}::bigint * 1000003 ORDER BY 1, 2"
            assert scans(session, query)[0] == slowly(session, query), sql
    # It was built for few rows: it gets full, and tells less.
    session.query("TRUNCATE events")
    session.query(
        f"INSERT INTO events SELECT g % {PARTS}, g::bigint * 1000003, g"
        " FROM generate_series(1, 100000) g"
    )
    rows, before = scans(session, "SELECT n FROM events WHERE k = 1000003")
    session.query("REINDEX TABLE events")
    again, after = scans(session, "SELECT n FROM events WHERE k = 1000003")
    assert rows == again == [["1"]] and before > after
    session.query("CREATE UNLOGGED TABLE passing (k bigint)")
    session.query("CREATE INDEX ON passing USING fullbore_filter (k)")
    session.query("INSERT INTO passing VALUES (1)")
    session.close()
    any_server.crash()
    session = Connection(any_server.socket_dir, session.database)
    session.query("INSERT INTO passing SELECT generate_series(1, 100)")
    session.query("VACUUM passing")
    session.query("DROP TABLE passing")
    session.close()


def test_a_filter_is_asked_once(any_session: Connection) -> None:
    session = any_session
    make(session, "integer")
    session.query("INSERT INTO events SELECT 1, 7777, g FROM generate_series(1, 5000) g")
    read = (
        "SELECT sum(pg_stat_get_xact_blocks_fetched(indexrelid)) FROM pg_index"
        " JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam"
        " WHERE amname = 'fullbore_filter'"
    )
    session.query("BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
    before = int(str(session.value(read)))
    assert session.value("SELECT count(n) FROM events WHERE k = 7777") == "5000"
    # One page of each, and what finds out how many pages it has.
    assert int(str(session.value(read))) - before <= PARTS
    session.query("ROLLBACK")


def test_older_snapshots_do_not_ask(any_session: Connection) -> None:
    session = any_session
    make(session, "integer")
    session.query("DROP INDEX events_k_idx1")
    other = Connection.to(session)
    other.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM events")
    session.query("DELETE FROM events WHERE n = 500; UPDATE events SET n = -1 WHERE n = 501")
    session.query("CREATE INDEX ON events USING fullbore_filter (k)")
    other.query("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
    assert other.query("SELECT n FROM events WHERE k = 500") == [["500"]]
    assert other.query("SELECT n FROM events WHERE k = 501") == [["501"]]
    other.query("COMMIT")
    other.close()
    assert scans(session, "SELECT n FROM events WHERE k = 501") == ([["-1"]], 1)


def test_a_damaged_filter_is_an_error(any_server: Server) -> None:
    session = fresh(any_server)
    make(session, "integer", 100_000)
    assert scans(session, "SELECT n FROM events WHERE k = 5") == ([["5"]], 1)
    name = session.value("SELECT pg_relation_filepath('part_0_k_idx1')")
    session.query("CHECKPOINT")
    session.close()
    any_server.stop()
    file = any_server.data / str(name)
    whole = file.read_bytes()
    # A page in another's place, and one that seems to be empty: pd_lower is at byte 12.
    swapped = whole[8192:16384] + whole[:8192] + whole[16384:]
    hollow = b"".join(
        whole[at : at + 12] + b"\x18\x00" + whole[at + 14 : at + 8192]
        for at in range(0, len(whole), 8192)
    )
    for damaged in (whole[:8192], bytes(len(whole)), b"", swapped, hollow):
        file.write_bytes(damaged)
        any_server.start()
        session = Connection(any_server.socket_dir, session.database)
        session.query("SET ignore_checksum_failure = on")
        with pytest.raises(ServerError) as error:
            scans(session, "SELECT n FROM events WHERE k = 5")
        assert error.value.code == "XX002"
        session.close()
        any_server.stop()
    any_server.start()
    session = Connection(any_server.socket_dir, session.database)
    session.query("REINDEX INDEX part_0_k_idx1")
    assert scans(session, "SELECT n FROM events WHERE k = 5") == ([["5"]], 1)
    session.close()


def test_what_it_does_not_know_is_looked_up(any_session: Connection) -> None:
    session = any_session
    make(session, "text")
    # A partial filter, and one of an expression, know nothing of the other rows.
    session.query(
        "DROP INDEX events_k_idx1;"
        " CREATE INDEX ON events USING fullbore_filter (k) WHERE n < 10;"
        " CREATE INDEX ON events USING fullbore_filter ((upper(k)))"
    )
    assert scans(session, "SELECT n FROM events WHERE k = 'key 500'") == ([["500"]], PARTS)
    # Families of others: here, what begins alike is equal.
    session.query(
        "CREATE FUNCTION first_is(text, text) RETURNS bool LANGUAGE sql IMMUTABLE"
        " AS 'SELECT left($1, 3) = left($2, 3)';"
        "CREATE FUNCTION first_order(text, text) RETURNS int LANGUAGE sql IMMUTABLE"
        " AS 'SELECT bttextcmp(left($1, 3), left($2, 3))';"
        "CREATE OPERATOR === (LEFTARG = text, RIGHTARG = text, FUNCTION = first_is);"
        "CREATE OPERATOR CLASS by_first FOR TYPE text USING btree"
        " AS OPERATOR 3 ===, FUNCTION 1 first_order(text, text)"
    )
    session.query("CREATE INDEX ON events (k by_first)")
    session.query("CREATE INDEX ON events USING fullbore_filter (k)")
    assert scans(session, "SELECT count(*) FROM events WHERE k === 'keys'")[0] == [["1000"]]
    for refused in (
        "CREATE INDEX ON events USING fullbore_filter (k, n)",
        "CREATE UNIQUE INDEX ON part_1 USING fullbore_filter (k)",
        "CREATE INDEX ON events USING fullbore_filter (k) WITH (fillfactor = 50)",
        "CREATE INDEX ON events USING fullbore_filter ((ROW(n)))",
    ):
        with pytest.raises(ServerError):
            session.query(refused)
