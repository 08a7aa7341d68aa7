//! A piece that was refused as a whole is judged row by row: just its bad rows are rejected, each with
//! its line and its reason, and all others are loaded.

use std::io::Write;

use crate::common;
use crate::common::Files;
use crate::common::refused::{
    Line, REJECTS, SERVERS, WAYS, assert_rejects, fresh, loads, make_plain, text,
};
use fullbore_testing::{TestDatabase, TestServer, extended_or_skip, shared_or_skip, wanted};

const COLUMNS: &str = "k bigint NOT NULL, n int NOT NULL CONSTRAINT positive CHECK (n > 0),
    s varchar(5), day date, CONSTRAINT apart CHECK (s <> 'same' OR n <> 5)";

/// Rows of COLUMNS; every ninth or so is bad, in one of eight ways.
fn rows(count: usize) -> Vec<Line> {
    (1..=count)
        .map(|k| match k % 72 {
            5 => (format!("{k},,abc,2024-01-01"), Some("23502")),
            13 => (format!("{k},-{k},abc,2024-01-01"), Some("23514")),
            21 => (format!("{k},5,same,2024-01-01"), Some("23514")),
            29 => (format!("{k},1,too long,2024-01-01"), Some("22001")),
            37 => (format!("{k},one,abc,2024-01-01"), Some("22P02")),
            45 => (format!("{k},1,abc,2024-02-30"), Some("22008")),
            53 => (format!("{k},1,abc"), Some("")),
            61 => (format!("{k},1,abc,2024-01-01,more"), Some("")),
            // Odd, but good.
            64 => (format!("{k}, {k} ,abc,\"Jan 5, 2020\""), None),
            _ => (format!("{k},{k},{},2024-01-{:02}", k % 1000, k % 28 + 1), None),
        })
        .collect()
}

#[test]
fn bad_rows_are_found_however_they_are_loaded() {
    for server in wanted(SERVERS) {
        let cluster = extended_or_skip!(server);
        for way in &WAYS {
            let database = fresh(cluster);
            let files = Files::new();
            let lines = rows(5000);
            database.psql(&format!("CREATE TABLE ours ({COLUMNS}) {}", way.tail));
            make_plain(&database, &files, COLUMNS, &lines);
            loads(&database, &files, &lines, way.options);
        }
    }
}

/// Lines that are sent as text beside rows that are laid out: many of them bad, and some only odd.
#[test]
fn many_bad_lines_among_rows_that_go_directly() {
    const PLAIN: &str = "k bigint, n int, day date, s varchar(5)";
    let lines: Vec<Line> = (1..=30_000)
        .map(|k| match k % 100 {
            7 => (format!("{k},one,2024-01-01,abc"), Some("22P02")),
            27 => (format!("{k},1,2024-02-30,abc"), Some("22008")),
            47 => (format!("{k},1,2024-01-01,too long"), Some("22001")),
            67 => (format!("{k}, {k} ,\"Jan 5, 2020\",abc"), None),
            _ => (format!("{k},{k},2024-01-{:02},{}", k % 28 + 1, k % 1000), None),
        })
        .collect();
    for server in wanted([TestServer::Embedded18, TestServer::Pg17, TestServer::Debian15]) {
        let cluster = extended_or_skip!(server);
        for way in WAYS.iter().filter(|way| way.options.contains(&"direct")) {
            let database = fresh(cluster);
            let files = Files::new();
            database.psql(&format!("CREATE TABLE ours ({PLAIN}) {}", way.tail));
            make_plain(&database, &files, PLAIN, &lines);
            loads(&database, &files, &lines, way.options);
        }
    }
}

#[test]
fn reasons_name_column_and_constraint() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        database.psql(&format!("CREATE TABLE ours ({COLUMNS})"));
        let file = files.write("lines.csv", text(&rows(72)));
        let args = ["--format", "csv", "--header", "none", "--max-rejects", "10"];
        assert_eq!(files.load(&database, &file, "ours", &args).code, REJECTS);
        let reasons = files.reasons();
        let of = |line: u64| reasons.iter().find(|reason| reason["line"] == line).expect("told");
        assert_eq!(of(5)["column"], "n");
        let words = "null value in column \"n\" of relation \"ours\" violates not-null constraint";
        assert_eq!(of(5)["reason"], words);
        assert_eq!((&of(13)["constraint"], &of(13)["column"]), (&"positive".into(), &"n".into()));
        assert_eq!(of(21)["constraint"], "apart");
        assert!(of(21)["column"].is_null(), "{:?}", of(21));
        assert_eq!((&of(37)["column"], &of(37)["value"]), (&"n".into(), &"one".into()));
        assert!(of(21)["reason"].as_str().expect("words").contains("check constraint \"apart\""));
    }
}

/// What can't be asked of many rows at once is asked of each.
#[test]
fn triggers_domains_and_exclusions() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        database.psql(
            "CREATE DOMAIN low AS int CHECK (VALUE < 1000) NOT NULL;
             CREATE TABLE ours (k bigint NOT NULL, n int CHECK (100 / n > 0), s text, l low);
             CREATE FUNCTION complain() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 IF NEW.s = 'bad' THEN RAISE EXCEPTION 'bad row %', NEW.k; END IF;
                 IF NEW.s = 'mend' THEN NEW.n := 7; END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER complains BEFORE INSERT ON ours FOR EACH ROW EXECUTE FUNCTION complain()",
        );
        let lines: Vec<Line> = (1..=2000)
            .map(|k| match k % 100 {
                7 => (format!("{k},1,bad,1"), Some("P0001")),
                17 => (format!("{k},0,zero,1"), Some("22012")),
                27 => (format!("{k},1,domain,1000"), Some("23514")),
                37 => (format!("{k},1,domain,"), Some("23502")),
                _ => (format!("{k},{},fine,{}", k % 90 + 1, k % 1000), None),
            })
            .collect();
        make_plain(&database, &files, "k bigint, n int, s text, l int", &lines);
        loads(&database, &files, &lines, &[]);
        // A trigger mends what a CHECK would refuse.
        let file = files.write("mended.csv", "1,0,mend,1\n");
        let args = ["--format", "csv", "--header", "none", "--atomic"];
        let output = files.load(&database, &file, "ours", &args);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(database.psql("SELECT n FROM ours WHERE s = 'mend'"), "7");
    }
}

fn packed_and_piped(database: &TestDatabase<'_>) {
    let files = Files::new();
    let lines = rows(5000);
    make_plain(database, &files, COLUMNS, &lines);
    let args = ["--format", "csv", "--header", "none", "--max-rejects", "100000"];
    let [(_, gzip), ..] = common::packed(text(&lines).as_bytes());
    let file = files.write("lines.csv.gz", gzip);
    for publish in ["append", "replace"] {
        for ledger in [&[][..], &["--no-ledger"]] {
            database.psql(&format!("DROP TABLE IF EXISTS ours; CREATE TABLE ours ({COLUMNS})"));
            let mut args = args.to_vec();
            args.extend(["--publish", publish]);
            args.extend(ledger);
            let output = files.load(database, &file, "ours", &args);
            assert_eq!(output.code, REJECTS, "{publish} {ledger:?}: {}", output.stderr);
            assert_rejects(&files, &lines);
            common::assert_same(database, "ours", "plain");
            common::refused::forget_rejects(&files);
        }
    }
    database.psql(&format!("DROP TABLE ours; CREATE TABLE ours ({COLUMNS})"));
    let mut piped = vec!["load", "-", "--to", database.url(), "--table", "ours"];
    piped.extend(args);
    let output = files.fullbore_with_input(&piped, text(&lines).as_bytes());
    assert_eq!(output.code, REJECTS, "{}", output.stderr);
    assert_rejects(&files, &lines);
    common::assert_same(database, "ours", "plain");
}

#[test]
fn sources_that_are_read_on() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        packed_and_piped(&cluster.fresh_database());
    }
}

#[test]
fn parquet_rows_are_told_by_number() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let rows: String =
        (1..=20_000).map(|k| format!("{k},{}\n", if k % 5000 == 0 { -1 } else { k })).collect();
    let file = files.write("numbers.csv", format!("k,n\n{rows}"));
    let folder = files.path("parquet").display().to_string();
    let to = format!("parquet:{folder}");
    let output = files.fullbore(&["load", &file, "--to", &to, "--table", "numbers"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    database.psql("CREATE TABLE numbers (k bigint, n bigint CONSTRAINT positive CHECK (n > 0))");
    let output = files.load(&database, &folder, "numbers", &["--max-rejects", "10"]);
    assert_eq!(output.code, REJECTS, "{}", output.stderr);
    let mut told: Vec<u64> =
        files.reasons().iter().map(|reason| reason["row"].as_u64().expect("a row")).collect();
    told.sort_unstable();
    assert_eq!(told, [5000, 10_000, 15_000, 20_000]);
    assert!(files.reasons().iter().all(|reason| reason["line"].is_null()));
    assert_eq!(database.psql("SELECT count(*) FROM numbers"), "19996");
}

/// However bad a file is, a limit ends its load early.
#[test]
fn a_limit_ends_the_load_of_a_file_that_is_all_bad() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        for (columns, line) in
            [("a int, b date", "x,y\n"), ("a int NOT NULL, b date", ",2024-01-01\n")]
        {
            let database = cluster.fresh_database();
            database.psql(&format!("CREATE TABLE ours ({columns})"));
            let files = Files::new();
            let mut file = std::fs::File::create(files.path("bad.csv")).expect("made");
            file.write_all(line.repeat(2_000_000).as_bytes()).expect("written");
            let path = files.path("bad.csv").display().to_string();
            let args = ["--format", "csv", "--header", "none", "--max-rejects", "1000", "--json"];
            let output = files.load(&database, &path, "ours", &args);
            assert_eq!(output.code, 1, "{}", output.stderr);
            assert!(output.stderr.contains(" rows rejected, 1000 allowed"), "{}", output.stderr);
            // Other streams may have found one more each.
            assert!((1001..1010).contains(&files.reasons().len()));
            assert_eq!(database.psql("SELECT count(*) FROM ours"), "0");
            common::assert_no_leftovers(&database);
        }
    }
}

/// A plain append that stopped at a bad row goes on as one, with a limit.
#[test]
fn a_plain_append_is_resumed_with_a_limit() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        database.psql(
            "CREATE TABLE ours (k bigint PRIMARY KEY, n int CONSTRAINT positive CHECK (n > 0), v text)",
        );
        let filler = "x".repeat(1900);
        let lines: Vec<Line> = (1..=25_000)
            .map(|line| match line {
                20_000 | 24_000 => (format!("{line},-1,{filler}"), Some("23514")),
                // In the same piece as the row that has the key already.
                24_500 => (format!("24400,1,{filler}"), Some("23505")),
                _ => (format!("{line},1,{filler}"), None),
            })
            .collect();
        make_plain(&database, &files, "k bigint, n int, v text", &lines);
        let file = files.write("lines.csv", text(&lines));
        let args = ["--header", "none", "--streams", "1", "--json"];
        let output = files.load(&database, &file, "ours", &args);
        assert_eq!(output.code, common::codes::STOPPED, "{}", output.stderr);
        assert!(output.stderr.contains("\"positive\""), "{}", output.stderr);
        let said: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
        let run = said["run_id"].as_str().expect("a run").to_owned();
        common::refused::forget_rejects(&files);
        let output = files.fullbore(&["runs", "resume", &run, "--max-rejects", "3"]);
        assert_eq!(output.code, REJECTS, "{}", output.stderr);
        assert_rejects(&files, &lines);
        common::assert_same(&database, "ours", "plain");
    }
}

/// A limit is for all rows of a run, so none is shown before it holds; the plan says so.
#[test]
fn a_limit_makes_append_atomic() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE ours (a int)");
    let files = Files::new();
    let file = files.write("x.csv", "1\n");
    let plan = |more: &[&str]| {
        let mut args = vec!["plan", &file, "--to", database.url(), "--table", "ours"];
        args.extend(["--header", "none"]);
        args.extend(more);
        files.fullbore(&args).stdout
    };
    assert!(plan(&[]).contains("not atomic"));
    let limited = plan(&["--max-rejects", "1"]);
    assert!(
        limited.contains("append, atomic") && limited.contains("--max-rejects applies"),
        "{limited}"
    );
}
