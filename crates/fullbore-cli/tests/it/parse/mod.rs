//! How messy text is read: what is a row, what is not, and that nothing is lost in between.

mod ends;
mod limits;
mod margins;
mod nulls;
mod quotes;
mod ragged;

use crate::common::{Files, packed};
use fullbore_testing::{Output, TestDatabase};

/// The ways in which the same text can come: as a file, in a packed file, through a pipe.
pub fn ways(
    files: &Files,
    database: &TestDatabase<'_>,
    text: &[u8],
    options: &[&str],
    check: impl Fn(&str, &Output),
) {
    let load = |source: &str, input: &[u8]| {
        database.psql("TRUNCATE t");
        let mut args = vec!["load", source, "--to", database.url(), "--table", "t"];
        args.extend(options);
        files.fullbore_with_input(&args, input)
    };
    clear(files);
    check("file", &load(&files.write("input.csv", text), b""));
    for (packer, content) in packed(text) {
        clear(files);
        check(packer, &load(&files.write("input.packed", content), b""));
    }
    clear(files);
    check("pipe", &load("-", text));
}

/// Removes what earlier loads rejected.
pub fn clear(files: &Files) {
    for entry in std::fs::read_dir(files.folder()).expect("listed").flatten() {
        if entry.file_name().to_string_lossy().contains(".rejected") {
            std::fs::remove_file(entry.path()).expect("removed");
        }
    }
}

/// Lines, reasons and numbers of lines of all rejects.
pub fn told(files: &Files) -> Vec<(u64, String, u64)> {
    let reasons = files.reasons().into_iter();
    let mut told: Vec<_> = reasons
        .map(|reason| {
            let line = reason["line"].as_u64().expect("a line");
            let words = reason["reason"].as_str().expect("a reason").to_owned();
            (line, words, reason["lines"].as_u64().unwrap_or(1))
        })
        .collect();
    told.sort();
    told
}
