//! Rows that are appended to a table with partitions: each is sent to its own, where the server would have put it.

use fullbore_testing::{TestDatabase, TestServer, extended_or_skip, shared_or_skip, wanted};

use crate::common::codes::{FAILED, REFUSED, STOPPED};
use crate::common::held::end_of;
use crate::common::moments::{Gate, Moment, assert_loaded};
use crate::common::parted::SERVERS;
use crate::common::sound::assert_sound_but;
use crate::common::ways::prepared;
use crate::common::{Files, assert_no_leftovers};

/// Ranges of a date; below them lists with NULL, hashes of five types and of unequal moduli, and ranges of two columns,
/// and rows that only the default partitions take.
const MADE: &str = r"
    CREATE TABLE t (k bigint, day date, at timestamptz, code text COLLATE pg_catalog.default, n numeric(12,2), u uuid, b boolean,
                    twice bigint GENERATED ALWAYS AS (k * 2) STORED) PARTITION BY RANGE (day);
    CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (MINVALUE) TO ('2024-02-01') PARTITION BY LIST (code);
    CREATE TABLE t_1a PARTITION OF t_1 FOR VALUES IN ('a', 'it''s', NULL);
    CREATE TABLE t_1b PARTITION OF t_1 FOR VALUES IN (E'b\\c', '', 'ä€');
    CREATE TABLE t_1d PARTITION OF t_1 DEFAULT;
    CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM ('2024-02-01') TO ('2024-03-01') PARTITION BY HASH (k, code, u, b, at);
    CREATE TABLE t_2a PARTITION OF t_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE t_2b PARTITION OF t_2 FOR VALUES WITH (MODULUS 4, REMAINDER 1);
    CREATE TABLE t_2c PARTITION OF t_2 FOR VALUES WITH (MODULUS 4, REMAINDER 3);
    CREATE TABLE t_3 PARTITION OF t FOR VALUES FROM ('2024-03-01') TO (MAXVALUE) PARTITION BY RANGE (n, k);
    CREATE TABLE t_3a PARTITION OF t_3 FOR VALUES FROM (MINVALUE, MINVALUE) TO (0, 10);
    CREATE TABLE t_3b (twice bigint GENERATED ALWAYS AS (k * 2) STORED, b boolean, u uuid, n numeric(12,2), code text,
                       at timestamptz, day date, k bigint);
    ALTER TABLE t_3 ATTACH PARTITION t_3b FOR VALUES FROM (0, 10) TO (5.5, MINVALUE);
    CREATE TABLE t_3c PARTITION OF t_3 FOR VALUES FROM (5.5, MINVALUE) TO (MAXVALUE, MAXVALUE);
    CREATE TABLE t_3d PARTITION OF t_3 DEFAULT;
    CREATE TABLE t_d PARTITION OF t DEFAULT;";

/// Lines of the first seven columns, their values in no order.
fn lines(count: i64) -> String {
    let codes = ["a", "it's", "\\N", "b\\\\c", "", "ä€", "other", "a much longer text than others"];
    let line = |row: i64| {
        let mixed = row * 7919 % 100_003;
        let or_null = |text: String, every: i64| match mixed % every {
            0 => "\\N".to_owned(),
            _ => text,
        };
        let day = or_null(format!("2024-{:02}-{:02}", mixed % 4 + 1, mixed % 28 + 1), 97);
        let key = or_null(((mixed - 50_000) * 40_000_000_000_003).to_string(), 31);
        let at = or_null(
            format!(
                "20{:02}-07-0{} 1{}:00:00.{:06}+00",
                mixed % 90 + 10,
                mixed % 9 + 1,
                mixed % 10,
                mixed
            ),
            13,
        );
        let number = or_null(format!("{}.{:02}", mixed % 13 - 3, mixed % 100), 17);
        let uuid = or_null(format!("{mixed:08x}-0000-4000-8000-{row:012x}"), 11);
        let truth = or_null(["t", "f"][mixed as usize % 2].to_owned(), 7);
        let code = codes[(mixed / 5) as usize % codes.len()];
        format!("{key}\t{day}\t{at}\t{code}\t{number}\t{uuid}\t{truth}\n")
    };
    (0..count).map(line).collect()
}

/// Rows that are in another partition than COPY into the table puts them, by these columns.
fn differing(database: &TestDatabase<'_>, columns: &str) -> String {
    let rows = |table: &str| {
        format!("SELECT replace(tableoid::regclass::text, '{table}', ''), {columns} FROM {table}")
    };
    database.psql(&format!(
        "SELECT count(*) FROM (({ours} EXCEPT ALL {plain}) UNION ALL ({plain} EXCEPT ALL {ours})) AS differing",
        ours = rows("ours"),
        plain = rows("plain"),
    ))
}

#[test]
fn each_row_is_sent_to_its_partition() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = files.write("rows.tsv", lines(60_000));
        for table in ["ours", "plain"] {
            let made = MADE.replace("TABLE t", &format!("TABLE {table}"));
            database.psql(
                &made
                    .replace("OF t", &format!("OF {table}"))
                    .replace("PARTITION t_3b", &format!("PARTITION {table}_3b")),
            );
        }
        database.psql(&format!("COPY plain (k, day, at, code, n, u, b) FROM '{file}'"));
        let args =
            ["--format", "text", "--header", "none", "--piece-size", "1MB", "--streams", "3"];
        let plan = files.load_args(database.url(), &file, "ours", &args);
        let plan = files.fullbore(&[&["plan"], &plan[1..]].concat());
        let words = "rows go straight to its 8 partitions";
        assert!(plan.stdout.contains(words), "{} {}", plan.stdout, plan.stderr);
        let output = files.load(&database, &file, "ours", &args);
        assert_loaded(&output);
        assert_eq!(differing(&database, "k, day, at, code, n, u, b, twice"), "0");
        let filled = "SELECT count(DISTINCT tableoid) FROM ours";
        assert_eq!(database.psql(filled), "11");
        assert_no_leftovers(&database);
    }
}

/// The tables of [`MADE`], as they can be loaded directly: their columns stand in one order, and none is generated.
fn made_plainly(table: &str) -> String {
    let twice = ",\n                    twice bigint GENERATED ALWAYS AS (k * 2) STORED";
    let attached = MADE.find("CREATE TABLE t_3b").expect("it is there");
    let end = MADE.find("CREATE TABLE t_3c").expect("it is there");
    let (before, after) = (&MADE[..attached], &MADE[end..]);
    let plain =
        "CREATE TABLE t_3b PARTITION OF t_3 FOR VALUES FROM (0, 10) TO (5.5, MINVALUE);\n    ";
    let all = format!("{before}{plain}{after}").replace(twice, "");
    all.replace("TABLE t", &format!("TABLE {table}")).replace("OF t", &format!("OF {table}"))
}

#[test]
fn empty_partitions_are_loaded_directly() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg14]) {
        let cluster = extended_or_skip!(server);
        let database = cluster.fresh_database();
        database.psql("CREATE EXTENSION fullbore");
        let files = Files::new();
        // Every two-hundredth row says its day in words that only the server reads.
        let mut text = String::new();
        for (row, line) in lines(60_000).lines().enumerate() {
            let line = if row % 200 == 7 {
                line.replacen("2024-01-", "Jan 2024 ", 1)
            } else {
                line.to_owned()
            };
            text += &(line + "\n");
        }
        let file = files.write("rows.tsv", text);
        for table in ["ours", "plain"] {
            database.psql(&made_plainly(table));
            database.psql(&format!(
                "CREATE INDEX ON {table} (k); CREATE INDEX ON {table} (day, n DESC)"
            ));
        }
        database.psql(&format!("COPY plain (k, day, at, code, n, u, b) FROM '{file}'"));
        let args =
            ["--format", "text", "--header", "none", "--piece-size", "1MB", "--method", "direct"];
        for verify in ["count", "full"] {
            let more = [args.as_slice(), &["--verify", verify, "--if-loaded", "again"]].concat();
            let plan = files.load_args(database.url(), &file, "ours", &more);
            let plan = files.fullbore(&[&["plan"], &plan[1..]].concat());
            let words = "rows go straight to its 8 partitions";
            assert!(plan.stdout.contains(words), "{} {}", plan.stdout, plan.stderr);
            assert!(plan.stdout.contains("its readers wait"), "{}", plan.stdout);
            let output = files.load(&database, &file, "ours", &more);
            assert_loaded(&output);
            assert_eq!(differing(&database, "k, day, at, code, n, u, b"), "0");
            // The server inserts the rows that only it finds a partition for: all of a default one,
            // and a few of the others.
            assert_sound_but(&database, "ours", |leaf, pages| match leaf.ends_with('d') {
                true => pages,
                false => 2,
            });
            assert_no_leftovers(&database);
            // There are rows now.
            let refused = files.load(&database, &file, "ours", &more);
            assert!(refused.stderr.contains("it has rows"), "{}", refused.stderr);
            database.psql("TRUNCATE ours");
        }
    }
}

#[test]
fn keys_that_partitions_share_are_rejected_by_line() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql(
        "CREATE EXTENSION fullbore;
         CREATE TABLE ours (k int PRIMARY KEY, v text) PARTITION BY RANGE (k);
         CREATE TABLE a PARTITION OF ours FOR VALUES FROM (0) TO (5);
         CREATE TABLE b PARTITION OF ours FOR VALUES FROM (5) TO (9)",
    );
    let files = Files::new();
    let file = files.write("rows.csv", "1,x\n6,y\n6,z\n11,z\n3,z\n");
    let args = ["--header", "none", "--method", "direct"];
    let output = files.load(&database, &file, "ours", &args);
    assert!(output.stderr.contains("line 3"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM ours"), "0");
    let args = ["--header", "none", "--method", "direct", "--max-rejects", "5"];
    let output = files.load(&database, &file, "ours", &args);
    assert!(output.stderr.contains("--max-rejects"), "{}", output.stderr);
}

#[test]
fn a_key_of_one_partition_alone_is_held_too() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql(
        "CREATE EXTENSION fullbore;
         CREATE TABLE ours (k int, v int) PARTITION BY RANGE (k);
         CREATE TABLE a PARTITION OF ours FOR VALUES FROM (0) TO (5);
         CREATE TABLE b PARTITION OF ours FOR VALUES FROM (5) TO (9);
         CREATE UNIQUE INDEX of_a ON a (v)",
    );
    let files = Files::new();
    let file = files.write("rows.csv", "1,7\n2,7\n6,7\n");
    let args = ["--header", "none", "--method", "direct"];
    let output = files.load(&database, &file, "ours", &args);
    assert_ne!(output.code, 0, "{}", output.stdout);
    assert!(output.stderr.contains("of_a"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM ours"), "0");
}

#[test]
fn texts_are_told_apart_in_any_encoding() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let name = format!("latin_parts_{}", std::process::id());
    cluster.psql(&format!(
        "CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    ));
    let url = cluster.url().replace("/postgres?", &format!("/{name}?"));
    let parts = |number| {
        format!(
            "CREATE TABLE p{number} PARTITION OF t FOR VALUES WITH (MODULUS 4, REMAINDER {number});"
        )
    };
    let parts: String = (0..4).map(parts).collect();
    cluster
        .psql_in(&url, &format!("CREATE TABLE t (a int, b text) PARTITION BY HASH (b); {parts}"));
    let files = Files::new();
    let text: String = (0..200).map(|n| format!("{n},\u{e9}{n}\n")).collect();
    let file = files.write("t.csv", text);
    let output = files.load_at(&url, &file, "t", &["--header", "none", "--format", "csv"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(cluster.psql_in(&url, "SELECT count(*) FROM t"), "200");
    cluster.psql(&format!("DROP DATABASE {name}"));
}

#[test]
fn a_row_without_a_partition_is_named() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql(
        "CREATE EXTENSION fullbore; CREATE TABLE ours (k int, v text) PARTITION BY LIST (k);
         CREATE TABLE a PARTITION OF ours FOR VALUES IN (1, 2);
         CREATE TABLE b PARTITION OF ours FOR VALUES IN (3, 4, 5, 6, 8, 9, 10, 11, 12, 13)",
    );
    let files = Files::new();
    let file = files.write("rows.csv", "1,x\n8,y\n7,z\n3,z\n");
    let output = files.load(&database, &file, "ours", &["--header", "none", "--method", "direct"]);
    assert_eq!(output.code, FAILED, "{}", output.stderr);
    assert!(output.stderr.contains("line 3: no partition"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM ours"), "0");
    assert_no_leftovers(&database);
}

#[test]
fn what_truncating_or_inserting_would_do_is_refused() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let files = Files::new();
    let file = files.write("rows.csv", "1,x\n3,y\n");
    for (more, why) in [
        (
            "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
             CREATE TRIGGER wiped AFTER TRUNCATE ON ours FOR EACH STATEMENT EXECUTE FUNCTION noted()",
            "ours has trigger wiped for TRUNCATE",
        ),
        ("CREATE RULE also AS ON INSERT TO ours DO ALSO NOTIFY x", "ours has rule also for INSERT"),
        ("ALTER TABLE b ALTER v SET STORAGE external", "the columns of its partitions a and b differ"),
        ("CREATE TABLE other (k int REFERENCES ours)", "has a trigger or a foreign key"),
        ("CREATE INDEX ON ours ((k + 1))", "it has an expression"),
        ("INSERT INTO ours VALUES (4)", "it has rows"),
    ] {
        let database = cluster.fresh_database();
        database.psql(
            "CREATE EXTENSION fullbore; CREATE TABLE ours (k int PRIMARY KEY, v text) PARTITION BY RANGE (k);
             CREATE TABLE a PARTITION OF ours FOR VALUES FROM (0) TO (3);
             CREATE TABLE b PARTITION OF ours FOR VALUES FROM (3) TO (9)",
        );
        database.psql(more);
        let args = ["--header", "none", "--method", "direct"];
        let output = files.load(&database, &file, "ours", &args);
        assert_eq!(output.code, REFUSED, "{why}: {}", output.stderr);
        assert!(output.stderr.contains(why), "{why}: {}", output.stderr);
    }
}

#[test]
fn a_table_that_was_loaded_directly_is_not_loaded_again_by_a_resume() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql(
        "CREATE EXTENSION fullbore; CREATE TABLE one (k int, v text) PARTITION BY RANGE (k);
         CREATE TABLE a PARTITION OF one FOR VALUES FROM (0) TO (3);
         CREATE TABLE b PARTITION OF one FOR VALUES FROM (3) TO (9);
         CREATE TABLE two (k int, v text) PARTITION BY RANGE (k);
         CREATE TABLE c PARTITION OF two FOR VALUES FROM (0) TO (3);
         CREATE TABLE d PARTITION OF two FOR VALUES FROM (3) TO (9)",
    );
    let files = Files::new();
    prepared(&database, &files);
    files.write("one.csv", "1,x\n3,y\n");
    files.write("two.csv", "1,x\n4,y\n");
    let table = |name: &str| {
        format!("[[table]]\nname = \"{name}\"\nsources = [\"{name}.csv\"]\nheader = \"none\"\n")
    };
    let job = files.write(
        "job.toml",
        format!("streams = 1\nmethod = \"direct\"\n{}{}", table("one"), table("two")),
    );
    let mut gate = Gate::at(&database, Moment::PieceBegins(1));
    let child = files.start(&["load", &job, "--to", database.url()]);
    gate.wait();
    database.psql("INSERT INTO two VALUES (5)");
    gate.open(&database);
    let output = end_of(child);
    assert_eq!(output.code, STOPPED, "{}", output.stderr);
    database.psql("TRUNCATE two");
    assert_loaded(&files.fullbore(&["runs", "resume", "last"]));
    assert_eq!(database.psql("SELECT (SELECT count(*) FROM one), (SELECT sum(k) FROM two)"), "2|5");
}

#[test]
fn partitions_that_are_filled_meanwhile_are_left_alone() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    database.psql(
        "CREATE EXTENSION fullbore; CREATE TABLE ours (LIKE plain) PARTITION BY HASH (k);
         CREATE TABLE a PARTITION OF ours FOR VALUES WITH (MODULUS 2, REMAINDER 0);
         CREATE TABLE b PARTITION OF ours FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    );
    let mut gate = Gate::at(&database, Moment::PieceBegins(0));
    let args = ["--header", "none", "--method", "direct"];
    let child = files.start_load(database.url(), &file, "ours", &args);
    gate.wait();
    database.psql("INSERT INTO ours SELECT * FROM plain LIMIT 1");
    gate.open(&database);
    let output = end_of(child);
    assert_eq!(output.code, FAILED, "{}", output.stderr);
    assert!(output.stderr.contains("has rows by now"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM ours"), "1");
    assert_no_leftovers(&database);
}

#[test]
fn what_cannot_be_told_here_is_left_to_the_server() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let files = Files::new();
    let file = files.write("rows.csv", "1,2,x\n9,3,y\n");
    for (made, why) in [
        (
            "CREATE TABLE ours (k int, n float8, v text) PARTITION BY RANGE (n);
             CREATE TABLE a PARTITION OF ours FOR VALUES FROM (0) TO (3);
             CREATE TABLE b PARTITION OF ours FOR VALUES FROM (3) TO (9)",
            "key n has type double precision",
        ),
        (
            "CREATE TABLE ours (k int, n int, v text, more int DEFAULT 4) PARTITION BY HASH (k);
             CREATE TABLE a PARTITION OF ours FOR VALUES WITH (MODULUS 2, REMAINDER 0);
             CREATE TABLE b PARTITION OF ours FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
            "partitions may have other defaults",
        ),
        (
            "CREATE TABLE ours (k int, n int, v text) PARTITION BY LIST ((k % 2));
             CREATE TABLE a PARTITION OF ours FOR VALUES IN (0);
             CREATE TABLE b PARTITION OF ours FOR VALUES IN (1)",
            "its key is an expression",
        ),
        (
            "CREATE TABLE ours (k int, n int, v text) PARTITION BY RANGE (k);
             CREATE TABLE a PARTITION OF ours FOR VALUES FROM (0) TO (5);
             CREATE TABLE b PARTITION OF ours FOR VALUES FROM (5) TO (10);
             CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
             CREATE TRIGGER same BEFORE INSERT ON b FOR EACH ROW EXECUTE FUNCTION same()",
            "triggers or policies may have a say",
        ),
        (
            "CREATE TABLE ours (k int, n int, v text) PARTITION BY HASH (k);
             CREATE TABLE a PARTITION OF ours FOR VALUES WITH (MODULUS 2, REMAINDER 0);
             CREATE TABLE b PARTITION OF ours FOR VALUES WITH (MODULUS 2, REMAINDER 1);
             CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
             CREATE TRIGGER noted AFTER INSERT ON ours FOR EACH STATEMENT EXECUTE FUNCTION noted()",
            "for whole statements",
        ),
    ] {
        let database = cluster.fresh_database();
        database.psql(made);
        let columns = ["--header", "none", "--columns", "k,n,v"];
        let plan = files.load_args(database.url(), &file, "ours", &columns);
        let plan = files.fullbore(&[&["plan"], &plan[1..]].concat());
        assert!(plan.stdout.contains(why), "{why}: {} {}", plan.stdout, plan.stderr);
        let output = files.load(&database, &file, "ours", &columns);
        assert_loaded(&output);
        assert_eq!(database.psql("SELECT sum(k), sum(n) FROM ours"), "10|5", "{why}");
    }
}

#[test]
fn rows_do_not_stay_in_a_partition_that_is_detached_meanwhile() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    let leaves: String = (0..4)
        .map(|rest| format!("CREATE TABLE leaf_{rest} PARTITION OF ours FOR VALUES WITH (MODULUS 4, REMAINDER {rest});"))
        .collect();
    database.psql(&format!("CREATE TABLE ours (LIKE plain) PARTITION BY HASH (k); {leaves}"));
    let mut gate = Gate::at(&database, Moment::PieceBegins(1));
    let child =
        files.start_load(database.url(), &file, "ours", &["--header", "none", "--streams", "1"]);
    gate.wait();
    let before = database.psql("SELECT count(*) FROM leaf_2");
    database.psql("ALTER TABLE ours DETACH PARTITION leaf_2");
    gate.open(&database);
    let output = end_of(child);
    assert_eq!(output.code, STOPPED, "{}", output.stderr);
    let words = "a partition of ours was detached, renamed or replaced";
    assert!(output.stderr.contains(words), "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM leaf_2"), before);
    database
        .psql("ALTER TABLE ours ATTACH PARTITION leaf_2 FOR VALUES WITH (MODULUS 4, REMAINDER 2)");
    assert_loaded(&files.fullbore(&["runs", "resume", "last"]));
    crate::common::assert_same(&database, "ours", "plain");
}

#[test]
fn rows_that_no_partition_takes_are_rejected_by_line() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql(
        "CREATE TABLE ours (k int, v text) PARTITION BY LIST (k);
         CREATE TABLE a PARTITION OF ours FOR VALUES IN (1, 2); CREATE TABLE b PARTITION OF ours FOR VALUES IN (3)",
    );
    let file = files.write("rows.csv", "1,x\n2,y\n7,z\n3,z\n");
    let args = ["--header", "none", "--max-rejects", "5"];
    let output = files.load(&database, &file, "ours", &args);
    assert_eq!(
        database.psql("SELECT string_agg(k::text, ',' ORDER BY k) FROM ours"),
        "1,2,3",
        "{}",
        output.stderr
    );
    let reasons = files.reasons();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert_eq!(reasons[0]["line"], 3, "{reasons:?}");
}
