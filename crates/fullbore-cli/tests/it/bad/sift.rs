//! Rows that break a unique or a foreign key: of those that share a key the first in the order of files
//! and lines stays, the others are rejected with file, line and key; whatever piece they were in.

use crate::common::codes::STOPPED;
use std::collections::HashSet;

use crate::common;
use crate::common::refused::{
    Line, REJECTS, SERVERS, WAYS, assert_rejects, forget_rejects, fresh, loads, make_plain, text,
};
use crate::common::{Files, assert_no_leftovers, assert_same};
use fullbore_testing::{TestDatabase, TestServer, extended_or_skip, shared_or_skip, wanted};

const COLUMNS: &str = "k bigint, n int, v text";

/// Rows sorted by `k`, some twice in a row (the pair `k`, `n`) and some without a parent (`n`).
fn rows(count: usize, filler: &str) -> Vec<Line> {
    let mut seen = HashSet::new();
    (1..=count)
        .map(|line| {
            let mut k = line;
            let mut n = line % 90;
            if line % 50 == 0 {
                // The line before.
                (k, n) = (line - 1, (line - 1) % 90);
            }
            if line % 70 == 0 || line % 350 == 349 {
                n = 1000 + line;
            }
            let bad = match (n < 90, seen.contains(&(k, n))) {
                (false, _) => Some("23503"),
                (true, true) => Some("23505"),
                (true, false) => None,
            };
            if bad.is_none() {
                seen.insert((k, n));
            }
            (format!("{k},{n},row {line} {filler}"), bad)
        })
        .collect()
}

fn make_parents(database: &TestDatabase<'_>) {
    database.psql(
        "DROP TABLE IF EXISTS ours, parents;
         CREATE TABLE parents (id int PRIMARY KEY);
         INSERT INTO parents SELECT generate_series(0, 89)",
    );
}

#[test]
fn keys_are_held_however_rows_are_loaded() {
    for server in wanted(SERVERS) {
        let cluster = extended_or_skip!(server);
        for way in &WAYS {
            let database = fresh(cluster);
            let files = Files::new();
            let lines = rows(4000, "");
            make_parents(&database);
            database.psql(&format!(
                "CREATE TABLE ours (k bigint, n int REFERENCES parents, v text, PRIMARY KEY (k, n)) {}",
                way.tail
            ));
            make_plain(&database, &files, COLUMNS, &lines);
            let mut options = way.options.to_vec();
            options.extend(["--streams", "2"]);
            loads(&database, &files, &lines, &options);
        }
    }
}

/// Duplicates far apart: in other pieces, other files, other streams.
#[test]
fn the_first_in_the_order_of_the_files_stays() {
    let filler = "x".repeat(150);
    for server in wanted(SERVERS) {
        let cluster = extended_or_skip!(server);
        for options in
            [&[][..], &["--publish", "replace", "--method", "copy"], &["--publish", "replace"]]
        {
            let database = fresh(cluster);
            let files = Files::new();
            database.psql(
                "CREATE TABLE ours (k bigint PRIMARY KEY, u text, v text);
                 CREATE UNIQUE INDEX once ON ours (lower(u)) WHERE u <> 'any'",
            );
            let (mut keys, mut names) = (HashSet::new(), HashSet::new());
            let mut expected = HashSet::new();
            let mut good = String::new();
            for file in 1..=2 {
                let mut text = String::new();
                for line in 1..=15_000usize {
                    // A key of the first half comes again in the second half, or in the other file.
                    let k = if line % 40 == 0 { line / 2 } else { line + 20_000 * (file - 1) };
                    let u = match line % 60 {
                        0 => format!("NAME {}", line / 3),
                        1 => "any".to_owned(),
                        _ => format!("name {line} of {file}"),
                    };
                    let row = format!("{k},{u},file {file} line {line} {filler}\n");
                    let name = (u != "any").then(|| u.to_lowercase());
                    let is_new = !keys.contains(&k)
                        && name.as_ref().is_none_or(|name| !names.contains(name));
                    if is_new {
                        keys.insert(k);
                        names.extend(name);
                        good.push_str(&row);
                    } else {
                        expected.insert((format!("part.{file}.csv"), line as u64));
                    }
                    text.push_str(&row);
                }
                files.write(&format!("part.{file}.csv"), text);
            }
            let good = files.write("good.csv", good);
            database.psql(&format!(
                "CREATE TABLE plain (k bigint, u text, v text); COPY plain FROM '{good}' (FORMAT csv)"
            ));
            let mut args = vec!["--header", "none", "--max-rejects", "10%", "--streams", "3"];
            args.extend(["--piece-size", "500kB"]);
            args.extend(options);
            let output = files.load(&database, "part.*.csv", "ours", &args);
            assert_eq!(output.code, REJECTS, "{options:?}: {}", output.stderr);
            let told: HashSet<(String, u64)> = files
                .reasons()
                .iter()
                .map(|reason| {
                    assert_eq!(reason["code"], "23505", "{reason}");
                    let file = reason["file"].as_str().expect("a file");
                    (file.to_owned(), reason["line"].as_u64().expect("a line"))
                })
                .collect();
            assert!(expected.len() > 400, "{}", expected.len());
            assert_eq!(told, expected, "{options:?}");
            assert_same(&database, "ours", "plain");
            assert_no_leftovers(&database);
        }
    }
}

#[test]
fn rows_that_were_there_come_first() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        database.psql(
            "CREATE TABLE ours (k bigint UNIQUE, n int, v text);
             INSERT INTO ours VALUES (5, 1, 'old'), (NULL, 2, 'old')",
        );
        let lines: Vec<Line> = vec![
            ("1,1,new".into(), None),
            ("5,1,new".into(), Some("23505")),
            (",1,NULLs are never the same".into(), None),
            (",1,NULLs are never the same".into(), None),
            ("1,2,later".into(), Some("23505")),
            ("2,1,new".into(), None),
        ];
        make_plain(&database, &files, COLUMNS, &lines);
        database.psql("INSERT INTO plain VALUES (5, 1, 'old'), (NULL, 2, 'old')");
        let file = files.write("lines.csv", text(&lines));
        let args = ["--format", "csv", "--header", "none", "--max-rejects", "10"];
        let output = files.load(&database, &file, "ours", &args);
        assert_eq!(output.code, REJECTS, "{}", output.stderr);
        assert_rejects(&files, &lines);
        let reasons = files.reasons();
        let of = |line: u64| reasons.iter().find(|reason| reason["line"] == line).expect("told");
        assert_eq!(of(2)["constraint"], "ours_k_key");
        let said = of(2)["reason"].as_str().expect("words");
        assert!(said.contains("(k)=(5) is in the table already"), "{said}");
        let said = of(5)["reason"].as_str().expect("words");
        assert!(said.contains("(k)=(1) is in an earlier row"), "{said}");
        assert_same(&database, "ours", "plain");
    }
}

#[test]
fn packed_files_are_read_through_once_more() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        for ledger in [&[][..], &["--no-ledger"]] {
            let database = cluster.fresh_database();
            let files = Files::new();
            let lines = rows(4000, "");
            make_parents(&database);
            database.psql(
                "CREATE TABLE ours (k bigint, n int REFERENCES parents, v text, PRIMARY KEY (k, n))",
            );
            make_plain(&database, &files, COLUMNS, &lines);
            let [_, (_, zstd), _] = common::packed(text(&lines).as_bytes());
            let file = files.write("lines.csv.zst", zstd);
            let mut args = vec!["--header", "none", "--format", "csv", "--max-rejects", "5%"];
            args.extend(ledger);
            let output = files.load(&database, &file, "ours", &args);
            assert_eq!(output.code, REJECTS, "{ledger:?}: {}", output.stderr);
            assert_rejects(&files, &lines);
            assert_same(&database, "ours", "plain");
            assert_no_leftovers(&database);
        }
    }
}

/// Rows that exclude each other are rows that share a key.
#[test]
fn exclusions_are_held_in_the_order_of_the_files() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        for publish in ["append", "replace"] {
            let database = cluster.fresh_database();
            let files = Files::new();
            database.psql(
                "CREATE TABLE ours (k int4range, n int, v text,
                     CONSTRAINT apart EXCLUDE USING gist (k WITH &&) WHERE (n > 0) DEFERRABLE)",
            );
            // Every tenth range reaches into the next one; every thirtieth is free to do so.
            let lines: Vec<Line> = (1..=3000)
                .map(|line| {
                    let first = line * 10;
                    let length = if line % 10 == 0 { 15 } else { 5 };
                    let n = if line % 30 == 1 { 0 } else { 1 };
                    let bad = (line % 10 == 1 && line > 1 && n > 0).then_some("23P01");
                    (format!("\"[{first},{})\",{n},row {line}", first + length), bad)
                })
                .collect();
            make_plain(&database, &files, "k int4range, n int, v text", &lines);
            loads(&database, &files, &lines, &["--publish", publish]);
        }
    }
}

/// What no statement can be asked is tried row by row, and the trial rolled back.
#[test]
fn what_a_trigger_refuses_when_rows_are_shown() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        database.psql(
            "CREATE TABLE ours (k bigint, n int, v text);
             CREATE FUNCTION complain() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE EXCEPTION 'row % is bad', NEW.k USING ERRCODE = '23514'; END $$;
             CREATE TRIGGER complains AFTER INSERT ON ours FOR EACH ROW
                 WHEN (NEW.v = 'bad') EXECUTE FUNCTION complain()",
        );
        let lines: Vec<Line> = (1..=500)
            .map(|k| match k % 50 {
                0 => (format!("{k},1,bad"), Some("23514")),
                _ => (format!("{k},1,good"), None),
            })
            .collect();
        make_plain(&database, &files, COLUMNS, &lines);
        loads(&database, &files, &lines, &[]);
    }
}

#[test]
fn too_many_are_kept_for_a_resume() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        for publish in ["append", "replace"] {
            let database = cluster.fresh_database();
            let files = Files::new();
            let lines = rows(2000, "");
            make_parents(&database);
            database.psql(
                "CREATE TABLE ours (k bigint, n int REFERENCES parents, v text, PRIMARY KEY (k, n))",
            );
            make_plain(&database, &files, COLUMNS, &lines);
            let file = files.write("lines.csv", text(&lines));
            let args = ["--header", "none", "--publish", publish, "--max-rejects", "3", "--json"];
            let output = files.load(&database, &file, "ours", &args);
            assert_eq!(output.code, STOPPED, "{}", output.stderr);
            assert!(output.stderr.contains("4 rows rejected, 3 allowed"), "{}", output.stderr);
            assert_eq!(database.psql("SELECT count(*) FROM ours"), "0");
            let said: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
            let run = said["run_id"].as_str().expect("a run").to_owned();
            forget_rejects(&files);
            let resumed = files.fullbore(&["runs", "resume", &run, "--max-rejects", "1000"]);
            assert_eq!(resumed.code, REJECTS, "{}", resumed.stderr);
            assert_rejects(&files, &lines);
            assert_same(&database, "ours", "plain");
            assert_no_leftovers(&database);
        }
    }
}

#[test]
fn a_parent_that_a_policy_hides_is_not_taken_for_missing() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let role = format!("guarded_{}", std::process::id());
    database.psql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT ALL ON SCHEMA public TO {role};
         CREATE TABLE parents (id int PRIMARY KEY); INSERT INTO parents VALUES (1), (2);
         ALTER TABLE parents ENABLE ROW LEVEL SECURITY; GRANT ALL ON parents TO {role};
         CREATE POLICY one ON parents USING (id = 1);
         CREATE TABLE t (n int REFERENCES parents); ALTER TABLE t OWNER TO {role}"
    ));
    database.psql(&format!(
        "DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO {role}', current_database()); \
         END $$"
    ));
    let url = database.url().replacen("postgres@", &format!("{role}@"), 1);
    assert_ne!(url, database.url(), "the URL names the role");
    let files = Files::new();
    let args = ["--header", "none", "--max-rejects", "5", "--format", "csv"];
    let seen = files.write("seen.csv", "1\n2\n");
    let output = files.load_at(&url, &seen, "t", &args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let missing = files.write("missing.csv", "1\n2\n3\n");
    let output = files.load_at(&url, &missing, "t", &args);
    assert_ne!(output.code, REJECTS, "{}", output.stdout);
    assert!(output.stderr.contains("row-level security"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM t"), "2");
    database.psql(&format!("ALTER ROLE {role} BYPASSRLS"));
    let output = files.load_at(&url, &missing, "t", &args);
    assert_eq!(output.code, REJECTS, "{}", output.stderr);
    assert_eq!(files.reasons()[0]["line"], 3);
    assert_eq!(database.psql("SELECT count(*) FROM t"), "4");
    database.psql(&format!("REASSIGN OWNED BY {role} TO postgres; DROP OWNED BY {role}"));
    database.psql(&format!("DROP ROLE {role}"));
}

#[test]
fn parquet_rows_are_found_again() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let rows: String = (1..=20_000)
        .map(|line| format!("{},row {line}\n", if line % 5000 == 0 { 7 } else { line }))
        .collect();
    let file = files.write("numbers.csv", format!("k,v\n{rows}"));
    let folder = files.path("parquet").display().to_string();
    let to = format!("parquet:{folder}");
    assert_eq!(files.fullbore(&["load", &file, "--to", &to, "--table", "numbers"]).code, 0);
    for publish in ["append", "replace"] {
        database.psql(
            "DROP TABLE IF EXISTS numbers; CREATE TABLE numbers (k bigint PRIMARY KEY, v text)",
        );
        let args = ["--max-rejects", "10", "--publish", publish];
        let output = files.load(&database, &folder, "numbers", &args);
        assert_eq!(output.code, REJECTS, "{}", output.stderr);
        let mut told: Vec<u64> =
            files.reasons().iter().map(|reason| reason["row"].as_u64().expect("a row")).collect();
        told.sort_unstable();
        assert_eq!(told, [5000, 10_000, 15_000, 20_000]);
        assert_eq!(database.psql("SELECT v FROM numbers WHERE k = 7"), "row 7");
        forget_rejects(&files);
    }
}
