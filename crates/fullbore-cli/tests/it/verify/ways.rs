//! Verification over the ways that a load can go: stopped and resumed, from packed files and Parquet,
//! into tables whose triggers and rules do as they like.

use crate::common::codes::{FAILED, REFUSED, STOPPED};
use crate::common::moments::{Gate, Moment, assert_loaded, kill};
use crate::common::ways::{APPEND, ATOMIC, PARTITIONS, REPLACE, prepared};
use crate::common::{Files, assert_no_leftovers, assert_same, packed};
use fullbore_testing::{TestServer, shared_or_skip};

#[test]
fn sums_of_earlier_attempts_count() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for way in [&REPLACE, &PARTITIONS, &ATOMIC, &APPEND] {
        way.make(&database);
        let mut gate = Gate::at(&database, Moment::PieceBegins(2));
        let mut args = way.args();
        args.extend(["--verify", "full"]);
        let child = files.start_load(database.url(), &file, way.name, &args);
        gate.wait();
        kill(child);
        gate.open(&database);
        let resumed = files.fullbore(&["runs", "resume", "last"]);
        assert_loaded(&resumed);
        assert!(resumed.stderr.contains("verified:   every value"), "{}", resumed.stderr);
        assert_same(&database, way.name, "plain");
        assert_no_leftovers(&database);
        for args in [&["runs", "verify", "last"][..], &["runs", "verify", "last", "--against"]] {
            let verified = files.fullbore(args);
            assert_eq!(verified.code, 0, "{}{}", verified.stdout, verified.stderr);
            assert!(verified.stdout.contains("25,000 rows in 3 pieces"), "{}", verified.stdout);
        }
    }
}

#[test]
fn pieces_without_sums_are_not_taken_for_verified() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    REPLACE.make(&database);
    files.kill_load_at(&database, Moment::PieceBegins(1), &file, "replaced", &REPLACE.args());
    let resumed = files.fullbore(&["runs", "resume", "last", "--verify", "full"]);
    assert_eq!(resumed.code, STOPPED, "{}", resumed.stderr);
    assert!(resumed.stderr.contains("committed without checksums"), "{}", resumed.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM replaced"), "0");
    assert_loaded(&files.fullbore(&["runs", "resume", "last", "--verify", "quick"]));
    let verified = files.fullbore(&["runs", "verify", "last"]);
    assert_eq!(verified.code, REFUSED, "{}{}", verified.stdout, verified.stderr);
    for words in ["has none", "--against"] {
        assert!(verified.stderr.contains(words), "{}", verified.stderr);
    }
    let verified = files.fullbore(&["runs", "verify", "last", "--against"]);
    assert_eq!(verified.code, 0, "{}{}", verified.stdout, verified.stderr);
    // Files that are no longer the same are refused, others are compared.
    let rows = std::fs::read_to_string(&file).expect("read");
    let halves = rows.split_at(rows[..rows.len() / 2].rfind('\n').expect("a line") + 1);
    let (one, two) = (files.write("one.csv", halves.0), files.write("two.csv", halves.1));
    let verified = files.fullbore(&["runs", "verify", "last", "--against", &one, &two]);
    assert_eq!(verified.code, 0, "{}{}", verified.stdout, verified.stderr);
    let verified = files.fullbore(&["runs", "verify", "last", "--against", &one]);
    assert_eq!(verified.code, FAILED, "{}{}", verified.stdout, verified.stderr);
    assert!(verified.stdout.contains("too many"), "{}", verified.stdout);
    // Files without a row are no proof of anything.
    let empty = files.write("empty.csv", "");
    let verified = files.fullbore(&["runs", "verify", "last", "--against", &empty]);
    assert_eq!(verified.code, REFUSED, "{}{}", verified.stdout, verified.stderr);
    assert!(verified.stderr.contains("have no rows"), "{}", verified.stderr);
    files.write("big.csv", &rows[1..]);
    let verified = files.fullbore(&["runs", "verify", "last", "--against"]);
    assert_eq!(verified.code, REFUSED, "{}{}", verified.stdout, verified.stderr);
    assert!(verified.stderr.contains("have changed"), "{}", verified.stderr);
}

#[test]
fn rows_of_savepoints_that_nobody_noted_are_not_called_missing() {
    // Before 17 rows that the server judges may stand under savepoints, which rows tell.
    let cluster = shared_or_skip!(TestServer::Pg14);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    let text = std::fs::read_to_string(&file).expect("read");
    // Valid, and written as only the server reads it.
    let file = files.write("odd.csv", text.replace("\n7,", "\n 7,"));
    APPEND.make(&database);
    files.kill_load_at(&database, Moment::PieceBegins(1), &file, "append", &APPEND.args());
    let resumed = files.fullbore(&["runs", "resume", "last", "--verify", "full"]);
    assert_eq!(resumed.code, STOPPED, "{}", resumed.stderr);
    assert_loaded(&files.fullbore(&["runs", "resume", "last", "--verify", "quick"]));
    assert_same(&database, "append", "plain");
    let verified = files.fullbore(&["runs", "verify", "last", "--against"]);
    assert_eq!(verified.code, REFUSED, "{}{}", verified.stdout, verified.stderr);
    assert!(verified.stderr.contains("can't be identified"), "{}", verified.stderr);
}

#[test]
fn packed_files_and_parquet() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let rows: String = (0..30_000)
        .map(|k| format!("{k},{}.5,text {},2024-01-0{}\n", k * 3, k % 99, k % 9 + 1))
        .collect();
    let mut sources: Vec<String> = packed(rows.as_bytes())
        .iter()
        .map(|(name, bytes)| files.write(&format!("rows.{name}"), bytes))
        .collect();
    let plain = files.write("rows.csv", &rows);
    let columns = "k bigint, p numeric(12,1), v text, d date";
    database
        .psql(&format!("CREATE TABLE plain ({columns}); COPY plain FROM '{plain}' (FORMAT csv)"));
    let folder = files.path("parquet").display().to_string();
    let to = format!("parquet:{folder}");
    let typed = ["--columns", "k,p,v,d", "--header", "none"];
    let mut args = vec!["load", &plain, "--to", &to, "--table", "rows"];
    args.extend(typed);
    assert_loaded(&files.fullbore(&args));
    sources.push(folder);
    for source in &sources {
        for publish in [&["--publish", "replace"][..], &[]] {
            database.psql(&format!("DROP TABLE IF EXISTS t; CREATE TABLE t ({columns})"));
            let mut args = vec!["--verify", "full"];
            let is_parquet = source.ends_with("parquet");
            if !is_parquet {
                args.extend(["--header", "none", "--format", "csv"]);
            }
            args.extend(publish);
            let output = files.load(&database, source, "t", &args);
            assert_loaded(&output);
            assert_same(&database, "t", "plain");
            for args in [&["runs", "verify", "last"][..], &["runs", "verify", "last", "--against"]]
            {
                let verified = files.fullbore(args);
                assert_eq!(verified.code, 0, "{source}: {}{}", verified.stdout, verified.stderr);
            }
        }
    }
}

#[test]
fn triggers_and_rules_are_not_overlooked() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let rows: String = (0..100).map(|k| format!("{k},x\n")).collect();
    let file = files.write("t.csv", rows);
    database.psql(
        "CREATE TABLE t (k int, v text); CREATE TABLE u (k int, v text); CREATE TABLE w (k int, v text);
         CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN IF NEW.k % 10 = 0 THEN RETURN NULL; END IF; RETURN NEW; END $$;
         CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN NEW.v := 'changed'; RETURN NEW; END $$;
         CREATE TRIGGER skip BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION skip();
         CREATE TRIGGER change BEFORE INSERT ON u FOR EACH ROW EXECUTE FUNCTION change();
         CREATE RULE nothing AS ON INSERT TO w WHERE NEW.k < 5 DO INSTEAD NOTHING",
    );
    let args = ["--header", "none", "--if-loaded", "again"];
    for more in [&[][..], &["--atomic"]] {
        let output = files.load(&database, &file, "t", &[&args, more].concat());
        assert_eq!(output.code, 0, "{}", output.stderr);
        let words = "10 rows suppressed by the table's triggers";
        assert!(output.stderr.contains(words), "{}", output.stderr);
    }
    assert_eq!(database.psql("SELECT count(*) FROM t"), "180");
    let output = files.load(&database, &file, "u", &["--header", "none", "--verify", "full"]);
    assert_eq!(output.code, STOPPED, "{}", output.stderr);
    for words in ["differ from the rows read", "column v", "triggers of the table"] {
        assert!(output.stderr.contains(words), "{}", output.stderr);
    }
    // Rows that wait in a table of their own meet the triggers only as they are shown.
    let full = ["--header", "none", "--atomic", "--verify", "full", "--if-loaded", "again"];
    database.psql(
        "CREATE TABLE z (k int, v text);
         CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN UPDATE z SET v = 'later' WHERE k = 7; RETURN NULL; END $$;
         CREATE TRIGGER later AFTER INSERT ON z EXECUTE FUNCTION later();
         CREATE TABLE elsewhere (k int, v text); CREATE TABLE y (k int, v text);
         CREATE RULE other AS ON INSERT TO y
             DO INSTEAD INSERT INTO elsewhere VALUES (NEW.k, 'ruled');
         TRUNCATE u",
    );
    for (table, words) in
        [("u", "column v"), ("z", "column v"), ("t", "10 rows are missing"), ("y", "missing")]
    {
        let output = files.load(&database, &file, table, &full);
        assert_eq!(output.code, FAILED, "{table}: {}", output.stderr);
        for words in ["differ from the rows read", words] {
            assert!(output.stderr.contains(words), "{table}: {}", output.stderr);
        }
    }
    assert_eq!(
        database.psql("SELECT count(*) FROM (TABLE u UNION ALL TABLE z UNION ALL TABLE y) AS a"),
        "0"
    );
    assert_no_leftovers(&database);
    // Triggers that leave the rows as they are leave the verification as it is.
    database.psql("CREATE OR REPLACE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$");
    let output = files.load(&database, &file, "u", &full);
    assert_loaded(&output);
    assert!(output.stderr.contains("verified:   every value"), "{}", output.stderr);
    // A rule that swallows rows is no trigger: COPY goes past it, but not the one INSERT.
    assert_loaded(&files.load(&database, &file, "w", &args));
    let output = files.load(&database, &file, "w", &[&args[..], &["--atomic"]].concat());
    assert_eq!(output.code, FAILED, "{}", output.stderr);
    assert!(output.stderr.contains("100 rows were sent to"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM w"), "100");
}

/// What the load does not cover is said.
#[test]
fn columns_that_come_from_elsewhere_are_named() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (k int, twice int GENERATED ALWAYS AS (k * 2) STORED, at timestamptz DEFAULT now())");
    let files = Files::new();
    let file = files.write("t.csv", "1\n2\n");
    let args = ["--header", "none", "--columns", "k", "--verify", "full"];
    let output = files.load(&database, &file, "t", &args);
    assert_loaded(&output);
    assert!(output.stderr.contains("not covered: t: twice, at"), "{}", output.stderr);
    let plan = files.fullbore(&[
        "plan",
        &file,
        "--to",
        database.url(),
        "--table",
        "t",
        "--header",
        "none",
        "--columns",
        "k",
        "--verify",
        "full",
        "--if-loaded",
        "again",
    ]);
    assert!(plan.stdout.contains("verified in full"), "{}", plan.stdout);
    // Standard input can be read only once; it is verified all the same.
    let args = [
        "load",
        "-",
        "--to",
        database.url(),
        "--table",
        "t",
        "--columns",
        "k",
        "--header",
        "none",
        "--verify",
        "full",
        "--publish",
        "replace",
    ];
    let output = files.fullbore_with_input(&args, b"5\n6\n7\n");
    assert_loaded(&output);
    assert!(output.stderr.contains("verified:   every value of 3 rows"), "{}", output.stderr);
}

#[test]
fn a_role_that_may_make_no_temporary_tables() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("t.csv", "1,2024-01-01\n2,\"Jan 5, 2020\"\n");
    database.psql(
        "CREATE ROLE no_temp LOGIN; REVOKE TEMPORARY ON DATABASE :DBNAME FROM PUBLIC;"
            .replace(":DBNAME", &database.psql("SELECT quote_ident(current_database())"))
            .as_str(),
    );
    database.psql("CREATE TABLE t (k int, d date); GRANT SELECT, INSERT ON t TO no_temp");
    let output = files.load(&database, &file, "t", &["--header", "none", "--verify", "full"]);
    // The tests' own role may do all.
    assert_loaded(&output);
    let joint = if database.url().contains('?') { '&' } else { '?' };
    let as_role = format!("{}{joint}options=-c%20role%3Dno_temp", database.url());
    let output = files.load_at(
        &as_role,
        &file,
        "t",
        &["--header", "none", "--verify", "full", "--no-ledger"],
    );
    assert_eq!(output.code, FAILED, "{}", output.stderr);
    assert!(output.stderr.contains("GRANT TEMPORARY"), "{}", output.stderr);
    database.psql("DROP OWNED BY no_temp; DROP ROLE no_temp");
}
