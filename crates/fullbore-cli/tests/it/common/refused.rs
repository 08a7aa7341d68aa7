//! What the tests of refused rows share: rows some of which are bad, and what must come of them.

use fullbore_testing::{Output, TestCluster, TestDatabase, TestServer};

use super::{Files, assert_no_leftovers, assert_same};

pub const REJECTS: i32 = 3;

/// The oldest and the newest way of judging rows: by savepoints, and by skipping.
pub const SERVERS: [TestServer; 2] = [TestServer::Embedded18, TestServer::Debian15];

/// A line, and the SQLSTATE with which it is refused if it is; "" where it is no row at all.
pub type Line = (String, Option<&'static str>);

/// A way into a table: its options and what follows the columns in CREATE TABLE.
pub struct Way {
    pub options: &'static [&'static str],
    pub tail: &'static str,
}

pub const WAYS: [Way; 5] = [
    Way { options: &[], tail: "" },
    Way { options: &["--publish", "replace", "--method", "copy"], tail: "" },
    Way { options: &["--publish", "replace", "--method", "direct"], tail: "" },
    Way {
        options: &["--publish", "partitions", "--method", "copy"],
        tail: "PARTITION BY RANGE (k)",
    },
    Way {
        options: &["--publish", "partitions", "--method", "direct"],
        tail: "PARTITION BY RANGE (k)",
    },
];

/// A database that rows can be loaded into directly.
pub fn fresh(cluster: &TestCluster) -> TestDatabase<'_> {
    let database = cluster.fresh_database();
    database.psql("CREATE EXTENSION fullbore");
    database
}

pub fn text(lines: &[Line]) -> String {
    lines.iter().map(|(line, _)| format!("{line}\n")).collect()
}

/// The table `plain`, made like `ours`, with the good rows as plain COPY loads them.
pub fn make_plain(database: &TestDatabase<'_>, files: &Files, columns: &str, lines: &[Line]) {
    let good: String = lines
        .iter()
        .filter(|(_, bad)| bad.is_none())
        .map(|(line, _)| format!("{line}\n"))
        .collect();
    let file = files.write("good.csv", good);
    database.psql(&format!(
        "DROP TABLE IF EXISTS plain; CREATE TABLE plain ({columns});
         COPY plain FROM '{file}' (FORMAT csv)"
    ));
}

/// Asserts that just the bad lines were rejected, each with its line, its SQLSTATE and its record.
pub fn assert_rejects(files: &Files, lines: &[Line]) {
    let mut told: Vec<(u64, String)> = files
        .reasons()
        .iter()
        .map(|reason| {
            let code = reason["code"].as_str().unwrap_or_default();
            (
                reason["line"].as_u64().unwrap_or_else(|| panic!("no line: {reason}")),
                code.to_owned(),
            )
        })
        .collect();
    told.sort();
    let bad = lines.iter().zip(1u64..).filter_map(|((_, bad), line)| Some((line, (*bad)?)));
    let expected: Vec<(u64, String)> = bad.map(|(line, code)| (line, code.to_owned())).collect();
    assert!(!expected.is_empty(), "there is nothing to reject");
    assert_eq!(told, expected);
    let mut records: Vec<String> =
        files.read_ending(".rejected").lines().map(str::to_owned).collect();
    records.sort();
    let mut raw: Vec<String> =
        lines.iter().filter(|(_, bad)| bad.is_some()).map(|(line, _)| line.clone()).collect();
    raw.sort();
    assert_eq!(records, raw);
}

/// Takes the reject files away, for the next load of the same test.
pub fn forget_rejects(files: &Files) {
    for entry in std::fs::read_dir(files.folder()).expect("listed").flatten() {
        if entry.file_name().to_string_lossy().contains(".rejected") {
            std::fs::remove_file(entry.path()).expect("removed");
        }
    }
}

/// Loads the lines into `ours`, which is there, and asserts what comes of it.
pub fn loads(database: &TestDatabase<'_>, files: &Files, lines: &[Line], more: &[&str]) -> Output {
    let file = files.write("lines.csv", text(lines));
    let mut args = vec!["--format", "csv", "--header", "none", "--max-rejects", "100000"];
    args.extend(more);
    let output = files.load(database, &file, "ours", &args);
    assert_eq!(output.code, REJECTS, "{more:?}: {}", output.stderr);
    assert_rejects(files, lines);
    assert_same(database, "ours", "plain");
    assert_no_leftovers(database);
    forget_rejects(files);
    output
}
