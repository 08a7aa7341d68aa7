//! Full verification finds what was done to a table behind its back, and names piece and column.

use crate::common;
use crate::common::Files;
use fullbore_testing::{TestDatabase, TestServer, is_long, shared_or_skip};

/// What can be wrong with a table.
const KINDS: [&str; 7] = [
    "a digit changed",
    "two values swapped between rows",
    "a row missing",
    "a row twice",
    "NULL for an empty string",
    "a truncated text",
    "a time zone shift",
];

const ROWS: u64 = 2000;
const BOUNDS: &str = "0,400,800,1200,1600,2000";
const COLUMNS: &str = "k bigint, n integer, price numeric(12,2), note text, code varchar(20), \
                       moment timestamptz, day date";

/// A small generator of numbers, the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn rows(random: &mut Random) -> String {
    let mut text = String::new();
    for k in 0..ROWS {
        let note = if k % 5 == 0 {
            "\"\"".to_owned()
        } else {
            format!("note {} of {k}", random.below(1000))
        };
        text.push_str(&format!(
            "{k},{},{}.{:02},{note},c{},2024-0{}-1{} 1{}:2{}:3{}+00,20{:02}-01-{:02}\n",
            random.below(1_000_000),
            1000 + random.below(9_000_000),
            random.below(100),
            random.below(50),
            1 + random.below(9),
            random.below(9),
            random.below(9),
            random.below(9),
            random.below(9),
            random.below(60),
            1 + random.below(28),
        ));
    }
    text
}

/// What is done, and which column it is in, if it is in one.
struct Damage {
    sql: String,
    /// Rows that are not as they were.
    keys: Vec<u64>,
    column: Option<&'static str>,
}

fn value(database: &TestDatabase<'_>, table: &str, column: &str, key: u64) -> String {
    database.psql(&format!("SELECT {column} FROM {table} WHERE k = {key}"))
}

fn damage(database: &TestDatabase<'_>, table: &str, kind: &str, random: &mut Random) -> Damage {
    let key = random.below(ROWS);
    let update = |set: String, column: &'static str, key: u64| Damage {
        sql: format!("UPDATE {table} SET {set} WHERE k = {key}"),
        keys: vec![key],
        column: Some(column),
    };
    match kind {
        "a digit changed" => {
            let column = ["price", "n", "day"][random.below(3) as usize];
            let mut text = value(database, table, column, key).into_bytes();
            // Of a date the last digit of its year, which is always right.
            let at = match column {
                "day" => 3,
                _ => loop {
                    let at = random.below(text.len() as u64) as usize;
                    if text[at].is_ascii_digit() {
                        break at;
                    }
                },
            };
            text[at] = b'0' + (text[at] - b'0' + 1 + random.below(9) as u8) % 10;
            let text = String::from_utf8(text).expect("ASCII");
            if column == "day" && text.ends_with("02-29") {
                return damage(database, table, kind, random);
            }
            update(format!("{column} = '{text}'"), column, key)
        }
        "two values swapped between rows" => {
            let column = ["n", "note", "moment", "price"][random.below(4) as usize];
            let other = random.below(ROWS);
            let (one, two) =
                (value(database, table, column, key), value(database, table, column, other));
            if one == two {
                return damage(database, table, kind, random);
            }
            Damage {
                sql: format!(
                    "UPDATE {table} t SET {column} = o.{column}
                       FROM (SELECT k, {column} FROM {table} WHERE k IN ({key}, {other})) o
                      WHERE t.k IN ({key}, {other}) AND o.k = {key} + {other} - t.k"
                ),
                keys: vec![key, other],
                column: Some(column),
            }
        }
        "a row missing" => Damage {
            sql: format!("DELETE FROM {table} WHERE k = {key}"),
            keys: vec![key],
            column: None,
        },
        "a row twice" => Damage {
            sql: format!("INSERT INTO {table} SELECT * FROM {table} WHERE k = {key}"),
            keys: vec![key],
            column: None,
        },
        "NULL for an empty string" => update("note = NULL".into(), "note", key / 5 * 5),
        "a truncated text" => {
            let column = ["note", "code"][random.below(2) as usize];
            let key = key / 5 * 5 + 1;
            let cut = 1 + random.below(2);
            update(format!("{column} = left({column}, -{cut})"), column, key)
        }
        "a time zone shift" => {
            let hours = 1 + random.below(12);
            let sign = ["+", "-"][random.below(2) as usize];
            update(format!("moment = moment {sign} interval '{hours} hours'"), "moment", key)
        }
        other => panic!("{other}"),
    }
}

fn report(files: &Files) -> (i32, serde_json::Value) {
    let output = files.fullbore(&["runs", "verify", "last", "--json", "--streams", "2"]);
    let report = serde_json::from_str(&output.stdout);
    (output.code, report.unwrap_or_else(|_| panic!("{}{}", output.stdout, output.stderr)))
}

/// The piece that a row is of, by the name of its partition.
fn piece_of(database: &TestDatabase<'_>, key: u64) -> u64 {
    let partition =
        database.psql(&format!("SELECT tableoid::regclass FROM plain_parts WHERE k = {key}"));
    partition
        .rsplit('_')
        .next()
        .and_then(|number| number.trim_matches('"').parse().ok())
        .expect("a piece")
}

fn finds(server: TestServer, each: usize) {
    let cluster = shared_or_skip!(server);
    let database = cluster.fresh_database();
    let files = Files::new();
    let seed = 20_261_121;
    println!("seed {seed}");
    let mut random = Random(seed);
    let file = files.write("t.csv", rows(&mut random));
    database.psql(&format!(
        "CREATE TABLE plain_parts ({COLUMNS}) PARTITION BY RANGE (k); CREATE TABLE kept ({COLUMNS})"
    ));
    let args = [
        "--header",
        "none",
        "--verify",
        "full",
        "--publish",
        "partitions",
        "--method",
        "copy",
        "--partition-bounds",
        BOUNDS,
    ];
    let loaded = files.load(&database, &file, "plain_parts", &args);
    assert_eq!(loaded.code, 0, "{}", loaded.stderr);
    database.psql("INSERT INTO kept SELECT * FROM plain_parts");
    assert_eq!(report(&files).0, 0);
    for kind in KINDS {
        for number in 0..each {
            let damage = damage(&database, "plain_parts", kind, &mut random);
            let pieces: Vec<u64> =
                damage.keys.iter().map(|key| piece_of(&database, *key)).collect();
            database.psql(&damage.sql);
            let (code, said) = report(&files);
            let what = format!("{kind}, number {number}: {}\n{said:#}", damage.sql);
            assert_eq!(code, 1, "{what}");
            let findings = said["findings"].as_array().expect("a list");
            let found: Vec<u64> = findings
                .iter()
                .flat_map(|finding| finding["pieces"].as_array().expect("a list"))
                .map(|piece| piece.as_u64().expect("a number"))
                .collect();
            let mut expected = pieces.clone();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(found, expected, "{what}");
            for finding in findings {
                match damage.column {
                    Some(column) => {
                        assert_eq!(finding["columns"], serde_json::json!([column]), "{what}")
                    }
                    None => assert_ne!(finding["rows_expected"], finding["rows_found"], "{what}"),
                }
            }
            for key in &damage.keys {
                database.psql(&format!(
                    "DELETE FROM plain_parts WHERE k = {key};
                     INSERT INTO plain_parts SELECT * FROM kept WHERE k = {key}"
                ));
            }
        }
        assert_eq!(report(&files).0, 0, "after {kind}: all is as it was");
    }
}

#[test]
fn seeded_damage_on_18() {
    finds(TestServer::Embedded18, if is_long() { 50 } else { 6 });
}

#[test]
fn seeded_damage_on_15() {
    finds(TestServer::Debian15, if is_long() { 10 } else { 3 });
}

/// One heap of several pieces: the transactions that wrote its rows tell them apart.
#[test]
fn pieces_of_one_table_are_told_apart() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = common::ways::prepared(&database, &files);
    for (way, names_column) in [(common::ways::REPLACE, true), (common::ways::APPEND, false)] {
        way.make(&database);
        let mut args = way.args();
        args.extend(["--verify", "full"]);
        let loaded = files.load(&database, &file, way.name, &args);
        assert_eq!(loaded.code, 0, "{}", loaded.stderr);
        assert_eq!(report(&files).0, 0);
        // Others' rows are nobody's matter where rows are appended.
        if !names_column {
            database.psql("INSERT INTO append VALUES (-1, 0, 'another''s')");
            assert_eq!(report(&files).0, 0);
        }
        database.psql(&format!("UPDATE {} SET n = n + 1 WHERE k = 24999", way.name));
        let (code, said) = report(&files);
        assert_eq!(code, 1, "{said:#}");
        let finding = &said["findings"][0];
        assert_eq!(finding["pieces"], serde_json::json!([2]), "{said:#}");
        let columns = if names_column { serde_json::json!(["n"]) } else { serde_json::json!([]) };
        assert_eq!(finding["columns"], columns, "{said:#}");
    }
}

/// What is wrong before rows are shown: nothing is shown.
#[test]
fn nothing_is_shown_of_what_differs() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = common::ways::prepared(&database, &files);
    for (way, code) in [(common::ways::REPLACE, 1), (common::ways::PARTITIONS, 1)] {
        way.make(&database);
        let mut gate =
            common::moments::Gate::at(&database, common::moments::Moment::PieceBegins(2));
        let mut args = way.args();
        args.extend(["--verify", "full"]);
        let child = files.start_load(database.url(), &file, way.name, &args);
        gate.wait();
        let staged = database
            .psql("SELECT min(relname) FROM pg_class WHERE relname ~ '_fb_' AND relkind = 'r'");
        database.psql(&format!(
            "UPDATE {staged} SET v = left(v, 5) WHERE k = (SELECT min(k) FROM {staged})"
        ));
        gate.open(&database);
        let output = common::held::end_of(child);
        assert_eq!(output.code, code, "{}", output.stderr);
        for words in ["differ from the rows read", "column v", "the least length 5 bytes", "hint:"]
        {
            assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        }
        assert_eq!(database.psql(&format!("SELECT count(*) FROM {}", way.name)), "0");
        common::assert_no_leftovers(&database);
    }
}
