//! Statistics that the client makes: those of ANALYZE, where that reads all rows; and who makes them.

use fullbore_testing::{TestDatabase, TestServer, shared_or_skip, wanted};

use crate::common::Files;
use crate::common::moments::{Gate, Moment, assert_loaded};
use crate::common::ways::{PARTITIONS, prepared};

const COLUMNS: &str = "id bigint, flag boolean, small smallint, number integer, r real, d double precision,
    price numeric(15,2), big numeric(30,10), free numeric, note text COLLATE \"C\",
    local text COLLATE \"C.utf8\", short varchar(10) COLLATE \"C\", padded char(5) COLLATE \"C\", day date,
    at time, moment timestamp(0), zoned timestamptz, key uuid, raw bytea, mood mood, doc json, nothing integer";

/// Few values and many, each once and some often, NULLs, signs, quotes and backslashes.
fn rows(keys: std::ops::Range<i64>) -> String {
    let mut text = String::new();
    for i in keys {
        let mixed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
        let some = mixed.rem_euclid(1 << 40);
        let sign = if some % 3 == 0 { "-" } else { "" };
        let null = |value: String| if some % 11 == 0 { String::new() } else { value };
        let common = if some % 4 == 0 { 7 } else { some % 300 };
        text.push_str(&format!(
            "{i},{},{},{},{},{},{sign}{}.{:02},{sign}{some}.{:010},{sign}{}.{},{},{},s{},p{},{},{:02}:{:02}:00,\
             2024-02-{:02} 10:00:{:02}.4,2024-07-{:02} 01:02:03.5+02,{:08x}-0000-4000-8000-{:012x},\\x{:08x},{},\
             \"{{\"\"a\"\": {i}}}\",\n",
            some % 5 == 0,
            null((common - 100).to_string()),
            null((some % 1_000_000 - 500_000).to_string()),
            some % 1000,
            (some as f64).sqrt() * 1e-3,
            some % 100_000,
            some % 100,
            some % 10_000_000_000,
            some % 40,
            some % 7,
            null(format!("\"note {common}, \"\"quoted\"\" and back\\slash\"")),
            ["zebra", "Apple", "apple", "émile", "Zorro", "été"][(some % 6) as usize],
            some % 50,
            some % 1_000,
            format_args!("20{:02}-{:02}-{:02}", some % 30, some % 12 + 1, some % 28 + 1),
            some % 24,
            some % 60,
            some % 28 + 1,
            some % 60,
            some % 28 + 1,
            some % (1 << 32),
            some % 100,
            some % 5_000,
            ["sad", "ok", "glad"][(some % 3) as usize],
        ));
    }
    text
}

fn made(database: &TestDatabase<'_>, tail: &str) {
    database.psql(&format!(
        "DROP TABLE IF EXISTS t; DROP TYPE IF EXISTS mood; CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad');
         CREATE TABLE t ({COLUMNS}) {tail}"
    ));
}

/// All that is known of the table and its partitions, but for what is a matter of rounding; and how the rows of all
/// partitions are correlated, since ANALYZE reads them in the order in which they were made.
const KNOWN: &str = "
    SELECT tablename, attname, inherited, null_frac::numeric(6,4), avg_width, n_distinct::numeric(12,4),
           most_common_vals, most_common_freqs, histogram_bounds,
           CASE WHEN NOT inherited THEN correlation::numeric(6,4) END
      FROM pg_stats WHERE schemaname = 'public' AND tablename ~ '^t($|_)'
     ORDER BY tablename, attname, inherited;
    SELECT relname, relpages, reltuples, relallvisible FROM pg_class
     WHERE relname ~ '^t($|_)' ORDER BY relname";

#[test]
fn of_all_rows_they_are_those_of_analyze() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    for (publish, tail) in [("partitions", "PARTITION BY RANGE (id)"), ("replace", "")] {
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = files.write("rows.csv", rows(0..1_800));
        made(&database, tail);
        let args = ["--header", "none", "--publish", publish, "--streams", "1", "--piece-size"];
        let args = [&args[..], &["100kB", "--statistics", "client"]].concat();
        let output = files.load(&database, &file, "t", &args);
        assert_loaded(&output);
        let given = database.psql(KNOWN);
        assert!(given.lines().count() > 22, "{given}");
        database.psql("ANALYZE t");
        let truth = database.psql(KNOWN);
        let mut differ = Vec::new();
        for (ours, theirs) in given.lines().zip(truth.lines()) {
            for (number, (own, true_one)) in ours.split('|').zip(theirs.split('|')).enumerate() {
                if own != true_one {
                    let which = ours.chars().take(30).collect::<String>();
                    differ.push(format!("{which} {number}: {own} {true_one}"));
                }
            }
        }
        assert!(differ.is_empty(), "{publish}:\n{}", differ.join("\n"));
        assert_eq!(given.lines().count(), truth.lines().count());
    }
}

#[test]
fn of_many_rows_they_are_near() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("rows.csv", rows(0..120_000));
    made(&database, "PARTITION BY RANGE (id)");
    let args = ["--header", "none", "--publish", "partitions", "--piece-size", "8MB"];
    assert_loaded(&files.load(&database, &file, "t", &args));
    let wrong = database.psql(
        "WITH truth AS (
            SELECT 'number' AS attname, count(DISTINCT number) AS n FROM t UNION ALL
            SELECT 'note', count(DISTINCT note) FROM t UNION ALL
            SELECT 'padded', count(DISTINCT padded) FROM t UNION ALL
            SELECT 'big', count(DISTINCT big) FROM t UNION ALL
            SELECT 'raw', count(DISTINCT raw) FROM t UNION ALL
            SELECT 'id', count(DISTINCT id) FROM t)
         SELECT attname, n, n_distinct FROM truth JOIN pg_stats USING (attname)
          WHERE tablename = 't'
            AND abs(CASE WHEN n_distinct < 0 THEN -n_distinct * 120000 ELSE n_distinct END / n - 1) > 0.03",
    );
    assert_eq!(wrong, "");
    // A row of each common value is expected as often as it is there; and of those between two bounds.
    let expected = |condition: &str| -> f64 {
        let plan = database.psql(&format!("EXPLAIN (FORMAT JSON) SELECT FROM t WHERE {condition}"));
        let rows = plan.split("\"Plan Rows\": ").nth(1).and_then(|rest| rest.split(',').next());
        rows.and_then(|rows| rows.trim().parse().ok()).expect("an estimate")
    };
    for condition in [
        "small = -93",
        "number < -100000",
        "price BETWEEN 10000 AND 20000",
        "moment < '2024-02-08'",
        "mood = 'glad'",
        "local = 'été'",
        "local < 'b'",
        "day >= '2020-01-01'",
        "flag",
        "number IS NULL",
    ] {
        let there: f64 = database
            .psql(&format!("SELECT count(*) FROM t WHERE {condition}"))
            .parse()
            .expect("a number");
        let expected = expected(condition);
        assert!((expected / there - 1.0).abs() < 0.15, "{condition}: {expected} of {there}");
    }
}

#[test]
fn what_another_process_has_loaded_is_analyzed() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    PARTITIONS.make(&database);
    let args: Vec<&str> =
        PARTITIONS.args().into_iter().filter(|arg| *arg != "--statistics=none").collect();
    let mut gate = Gate::at(&database, Moment::PieceCommits(2));
    let mut load = files.start_load(database.url(), &file, PARTITIONS.name, &args);
    gate.wait();
    load.kill().expect("killed");
    load.wait().expect("ended");
    gate.open(&database);
    let args = [&args[..], &["--resume"]].concat();
    assert_loaded(&files.load(&database, &file, PARTITIONS.name, &args));
    let known = database.psql(
        "SELECT count(*), count(*) FILTER (WHERE inherited), count(DISTINCT tablename) FROM pg_stats
          WHERE tablename ~ '^parted'",
    );
    assert_eq!(known, "12|3|4");
    let rows = "SELECT reltuples FROM pg_class WHERE relname = 'parted'";
    assert_eq!(database.psql(rows), "25000");
}

#[test]
fn before_18_a_parent_is_analyzed_beside_its_partitions() {
    for server in wanted([TestServer::Pg14, TestServer::Pg16, TestServer::Pg17]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = files.write("rows.csv", rows(0..1_800));
        made(&database, "PARTITION BY RANGE (id)");
        let args = ["--header", "none", "--publish", "partitions", "--piece-size", "100kB"];
        assert_loaded(&files.load(&database, &file, "t", &args));
        let known = database.psql(
            "SELECT count(DISTINCT tablename) = (SELECT count(*) FROM pg_partition_tree('t')),
                    count(*) FILTER (WHERE inherited) FROM pg_stats WHERE tablename ~ '^t($|_)'",
        );
        // Each of the columns, and nothing of the parent's own rows, of which there are none.
        assert_eq!(known, "t|22");
        // Each was looked at once.
        let times = "SELECT max(analyze_count) FROM pg_stat_user_tables WHERE relname ~ '^t_'";
        assert_eq!(database.psql(times), "1");
    }
}

#[test]
fn partitions_that_are_there_already_count_for_their_parent() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    made(&database, "PARTITION BY RANGE (id)");
    let args = ["--header", "none", "--publish", "partitions", "--piece-size", "100kB"];
    for keys in [0..900, 900..1_800] {
        let file = files.write("rows.csv", rows(keys));
        assert_loaded(&files.load(&database, &file, "t", &args));
    }
    let bounds = "SELECT (histogram_bounds::text::bigint[])[1], n_distinct FROM pg_stats
                   WHERE tablename = 't' AND attname = 'id'";
    assert_eq!(database.psql(bounds), "0|-1");
    let rows = "SELECT reltuples FROM pg_class WHERE relname = 't'";
    assert_eq!(database.psql(rows), "1800");
}

#[test]
fn who_makes_them_is_said_and_what_cannot_be_is_refused() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("rows.csv", rows(0..10));
    let plan = |more: &[&str]| {
        let args = ["plan", &file, "--to", database.url(), "--table", "t", "--header", "none"];
        files.fullbore(&[&args[..], more].concat())
    };
    let partitions = ["--publish", "partitions"];
    made(&database, "PARTITION BY RANGE (id)");
    let by_client = "statistics: by the client, of all rows while they are loaded";
    assert!(plan(&partitions).stdout.contains(by_client));
    let asked = [&partitions[..], &["--statistics", "analyze"]].concat();
    assert!(plan(&asked).stdout.contains("statistics: ANALYZE; it was requested"));
    database.psql("CREATE STATISTICS pairs ON small, number FROM t");
    let tuned = plan(&partitions).stdout;
    assert!(tuned.contains("statistics: ANALYZE; of the table's statistics targets"), "{tuned}");
    database.psql("DROP STATISTICS pairs; ALTER TABLE t ADD more jsonb");
    let unsent = plan(&[&partitions[..], &["--columns", "first"]].concat());
    assert!(!unsent.stdout.contains(by_client), "{}", unsent.stdout);
    made(&database, "");
    let refused = plan(&["--publish", "append", "--statistics", "client"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("the table may have other rows"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--statistics auto or analyze"), "{}", refused.stderr);
}
