//! What the tests of stopped loads share: a file of some pieces, and the ways of loading it.

use fullbore_testing::TestDatabase;

use super::Files;
use super::moments::assert_loaded;

/// A file of three pieces, a table with the same rows as plain COPY loads them, and a ledger.
pub fn prepared(database: &TestDatabase<'_>, files: &Files) -> String {
    let file = files.write("big.csv", rows(0..25_000));
    files.cut_into(PIECE_SIZE);
    database.psql(&format!(
        "CREATE TABLE plain (k bigint, n int, v text); COPY plain FROM '{file}' (FORMAT csv);
         CREATE TABLE first (a int)"
    ));
    let tiny = files.write("tiny.csv", "1\n");
    assert_loaded(&files.load(database, &tiny, "first", &["--header", "none"]));
    file
}

/// Rows of `k, n, v`, of which 25,000 are three pieces of [`PIECE_SIZE`].
pub fn rows(keys: std::ops::Range<u32>) -> String {
    let filler = "x".repeat(150);
    keys.map(|k| format!("{k},{},{filler}\n", k % 97)).collect()
}

/// What cuts the file of [`prepared`] into three pieces.
pub const PIECE_SIZE: &str = "1500kB";

/// A way of publishing: its options, and the statement that makes the table.
pub struct Way {
    pub name: &'static str,
    pub options: &'static [&'static str],
    pub tail: &'static str,
}

pub const APPEND: Way = Way { name: "append", options: &["--method", "copy"], tail: "" };
pub const ATOMIC: Way = Way { name: "atomic", options: &["--atomic"], tail: "" };
pub const UPSERT: Way = Way { name: "upserted", options: &["--publish", "upsert"], tail: "" };
pub const REPLACE: Way =
    Way { name: "replaced", options: &["--publish", "replace", "--method", "copy"], tail: "" };
pub const PARTITIONS: Way = Way {
    name: "parted",
    options: &["--publish", "partitions", "--method", "copy"],
    tail: "PARTITION BY RANGE (k)",
};
pub const REPLACE_DIRECT: Way = Way {
    name: "replaced_direct",
    options: &["--publish", "replace", "--method", "direct"],
    tail: "",
};
pub const PARTITIONS_DIRECT: Way = Way {
    name: "parted_direct",
    options: &["--publish", "partitions", "--method", "direct"],
    tail: "PARTITION BY RANGE (k)",
};

/// Into partitions that are there, and empty.
pub const LEAVES_DIRECT: Way = Way {
    name: "leaved_direct",
    options: &["--publish", "append", "--method", "direct"],
    tail: "PARTITION BY HASH (k); CREATE TABLE leaved_a PARTITION OF leaved_direct FOR VALUES WITH (MODULUS 2, REMAINDER 0); \
           CREATE TABLE leaved_b PARTITION OF leaved_direct FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
};

impl Way {
    pub fn make(&self, database: &TestDatabase<'_>) {
        database.psql(&format!(
            "DROP TABLE IF EXISTS {0}; CREATE TABLE {0} (k bigint PRIMARY KEY, n int, v text) {1}; \
             CREATE INDEX ON {0} (n)",
            self.name, self.tail
        ));
    }

    pub fn args(&self) -> Vec<&'static str> {
        let mut args = vec!["--header", "none", "--streams", "1", "--statistics=none"];
        args.extend(self.options);
        args
    }

    pub fn resume_args(&self) -> Vec<&'static str> {
        let mut args = self.args();
        args.push("--resume");
        args
    }
}
