//! A run reads its text in one way from its first row to its last, whoever goes on with it: what day
//! `03/04/2026` is, and what hour a time without a zone, depends on the session.

use crate::common::codes::REFUSED;
use crate::common::moments::{Gate, Moment, assert_loaded, kill, ledger};
use crate::common::{Files, assert_same};
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip, wanted};

const COLUMNS: &str = "k int, d date, at timestamptz, v text";

/// A file of some pieces, whose days and times are other ones under other settings.
fn ambiguous(files: &Files) -> String {
    let filler = "x".repeat(1900);
    let rows: String = (0..25_000)
        .map(|k| {
            let (day, month) = (k % 12 + 1, k % 11 + 1);
            format!("{k},{day:02}/{month:02}/2026,2026-{month:02}-{day:02} 01:30:00,{filler}\n")
        })
        .collect();
    files.write("big.csv", rows)
}

/// A ledger, an empty table, and one with the rows as plain COPY loads them under such settings.
fn prepare(database: &TestDatabase<'_>, files: &Files, file: &str, settings: &str) {
    let tiny = files.write("tiny.csv", "1\n");
    database.psql("CREATE TABLE first (a int)");
    assert_loaded(&files.load(database, &tiny, "first", &["--header", "none"]));
    database.psql(&format!(
        "CREATE TABLE t ({COLUMNS}); CREATE TABLE plain ({COLUMNS}); {settings};
         COPY plain FROM '{file}' (FORMAT csv)"
    ));
}

fn with_options(database: &TestDatabase<'_>, options: &str) -> String {
    let joint = if database.url().contains('?') { '&' } else { '?' };
    format!("{}{joint}options={options}", database.url())
}

/// Loads one piece and is killed.
fn stop_after_a_piece(database: &TestDatabase<'_>, files: &Files, url: &str, file: &str) {
    let mut gate = Gate::at(database, Moment::PieceBegins(1));
    let child = files.start_load(url, file, "t", &ARGS);
    gate.wait();
    kill(child);
    gate.open(database);
    assert_eq!(ledger(database, "t"), "loading|1");
}

const ARGS: [&str; 5] = ["--header", "none", "--streams", "1", "--statistics=none"];

#[test]
fn the_options_of_the_url_hold_when_a_run_is_gone_on_with() {
    for server in wanted([TestServer::Embedded18, TestServer::Debian15]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = ambiguous(&files);
        prepare(
            &database,
            &files,
            &file,
            "SET datestyle = 'ISO, DMY'; SET timezone = 'America/New_York'",
        );
        let options = "-c%20datestyle%3DDMY%20-c%20timezone%3DAmerica/New_York";
        stop_after_a_piece(&database, &files, &with_options(&database, options), &file);
        assert_loaded(&files.fullbore(&["runs", "resume", "last"]));
        assert_same(&database, "t", "plain");
    }
}

#[test]
fn other_settings_of_the_database_change_nothing_on_the_way() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = ambiguous(&files);
    let set = |style: &str, zone: &str| {
        database.psql(&format!(
            "DO $$ BEGIN
                EXECUTE format('ALTER DATABASE %I SET datestyle = ''{style}''', current_database());
                EXECUTE format('ALTER DATABASE %I SET timezone = ''{zone}''', current_database());
             END $$"
        ))
    };
    // As the database has it, so COPY reads.
    set("SQL, DMY", "Asia/Tokyo");
    prepare(&database, &files, &file, "SELECT");
    stop_after_a_piece(&database, &files, database.url(), &file);
    set("ISO, MDY", "UTC");
    // Also where the command is given anew, with an address of its own.
    let mut args = ARGS.to_vec();
    args.push("--resume");
    let url = with_options(&database, "-c%20timezone%3DAmerica/New_York");
    let output = files.load_at(&url, &file, "t", &args);
    assert_loaded(&output);
    for words in
        ["TimeZone is now America/New_York", "resumed with its original Asia/Tokyo", "ISO, DMY"]
    {
        assert!(output.stderr.contains(words), "{}", output.stderr);
    }
    assert_same(&database, "t", "plain");
    let verified = files.fullbore(&["runs", "verify", "last", "--against"]);
    assert_eq!(verified.code, 0, "{}{}", verified.stdout, verified.stderr);
}

#[test]
fn no_secret_of_the_options_is_kept_and_it_is_asked_for_again() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = ambiguous(&files);
    prepare(&database, &files, &file, "SELECT");
    let url = with_options(&database, "-c%20app.key%3Dhunter2%20-c%20datestyle%3DMDY");
    stop_after_a_piece(&database, &files, &url, &file);
    let kept = std::process::Command::new("grep")
        .args(["-rl", "hunter2"])
        .arg(files.path("state"))
        .output()
        .expect("grep runs");
    assert_eq!(String::from_utf8_lossy(&kept.stdout), "");
    let kept = std::process::Command::new("grep")
        .args(["-rl", "datestyle"])
        .arg(files.path("state"))
        .output()
        .expect("grep runs");
    assert!(String::from_utf8_lossy(&kept.stdout).contains("job.json"));
    let refused = files.fullbore(&["runs", "resume", "last"]);
    assert_eq!(refused.code, REFUSED, "{}", refused.stderr);
    for words in ["app.key", "not stored on disk", "hint:", "--to URL"] {
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
    assert_loaded(&files.fullbore(&["runs", "resume", "last", "--to", &url]));
    assert_same(&database, "t", "plain");
}
