//! What is found out of files whose writing nobody tells: that it is found, and said, or asked for.

mod dialects;
mod frames;
mod headers;
mod orders;
mod types;

use crate::common::Files;
use fullbore_testing::{Output, TestDatabase};

/// A database, files, and loads of them.
pub struct Lab<'a> {
    pub database: TestDatabase<'a>,
    pub files: Files,
}

impl<'a> Lab<'a> {
    pub fn new(database: TestDatabase<'a>) -> Self {
        Self { database, files: Files::new() }
    }

    /// Loads a text into a table.
    pub fn load(&self, name: &str, text: impl AsRef<[u8]>, table: &str, more: &[&str]) -> Output {
        let file = self.files.write(name, text);
        self.files.load(&self.database, &file, table, more)
    }

    /// Loads a text into a table that is made for it, whose rows come back, in order.
    pub fn created(&self, name: &str, text: impl AsRef<[u8]>, more: &[&str]) -> Created {
        self.database.psql("DROP TABLE IF EXISTS made");
        let output = self.load(name, text, "made", &[&["--create"], more].concat());
        assert_eq!(output.code, 0, "{}", output.stderr);
        let columns = self.database.psql(
            "SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum)
               FROM pg_attribute WHERE attrelid = 'made'::regclass AND attnum > 0",
        );
        let rows = self.database.psql("SELECT made::text FROM made ORDER BY ctid");
        Created { columns, rows, said: output.stderr }
    }

    /// Asserts that a load is refused before anything is touched.
    pub fn refused(&self, name: &str, text: impl AsRef<[u8]>, more: &[&str], words: &[&str]) {
        self.database.psql("DROP TABLE IF EXISTS made");
        let output = self.load(name, text, "made", &[&["--create"], more].concat());
        assert_refused(&output, words);
        assert_eq!(self.database.psql("SELECT to_regclass('made')"), "");
    }
}

pub struct Created {
    /// Names and types.
    pub columns: String,
    pub rows: String,
    pub said: String,
}

impl Created {
    pub fn is(&self, columns: &str, rows: &str) {
        assert_eq!((self.columns.as_str(), self.rows.as_str()), (columns, rows), "{}", self.said);
    }

    pub fn says(&self, words: &str) {
        assert!(self.said.contains(words), "{}", self.said);
    }
}

/// Asserts that a load was refused as wrong usage, in these words.
pub fn assert_refused(output: &Output, words: &[&str]) {
    assert_eq!(output.code, 2, "{}", output.stderr);
    for words in words {
        assert!(output.stderr.contains(words), "{words:?} is not in {}", output.stderr);
    }
}
