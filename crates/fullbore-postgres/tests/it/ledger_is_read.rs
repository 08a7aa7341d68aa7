//! Nothing out of a row of the ledger reaches a statement but through the typed reader: the crate's own
//! sources are searched for other ways.

use std::fs;
use std::path::{Path, PathBuf};

/// Where rows of the ledger are read into types.
const READER: &str = "ledger/read.rs";

/// What is outside the ledger's folder and asks its tables.
const ASKERS: [&str; 8] = [
    "publish/parts.rs",
    "verify/run.rs",
    "verify/store.rs",
    "levels/adopt.rs",
    "levels/batches.rs",
    "levels/detached.rs",
    "levels/expire.rs",
    "levels/merge.rs",
];

const TABLES: [&str; 8] =
    ["runs", "pieces", "pieces_unlogged", "parts", "checksums", "merges", "batches", "taken"];

fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.clone()];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("listed") {
            let path: PathBuf = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).expect("below").display().to_string();
                sources.push((name, fs::read_to_string(&path).expect("read")));
            }
        }
    }
    assert!(sources.len() > 100, "the sources are not where they were");
    sources
}

/// Whether a source names a table of the ledger in a statement: behind a place for the schema.
fn asks_the_ledger(text: &str) -> bool {
    TABLES.iter().any(|table| {
        ["{schema}.", "{s}.", "{}.", "{ledger}."].iter().any(|place| {
            let named = format!("{place}{table}");
            let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
            text.match_indices(&named).any(|(at, _)| ends(&text[at + named.len()..]))
        })
    })
}

fn is_ledgers(name: &str) -> bool {
    name.starts_with("ledger/") || ASKERS.contains(&name)
}

/// What stands between the parenthesis at `at` and its end.
fn in_parentheses(text: &str, at: usize) -> &str {
    let mut depth = 0;
    for (place, character) in text[at..].char_indices() {
        match character {
            '(' => depth += 1,
            ')' if depth == 1 => return &text[at..at + place],
            ')' => depth -= 1,
            _ => {}
        }
    }
    &text[at..]
}

#[test]
fn only_the_reader_takes_strings_out_of_the_ledgers_rows() {
    for (name, text) in sources() {
        if !is_ledgers(&name) || name == READER {
            continue;
        }
        for way in
            [".get(\"", " Row,", "{Row,", " Row}", "::Row", "&Row", ".columns()", "from_str("]
        {
            assert!(!text.contains(way), "{name} reads rows by itself: {way}");
        }
    }
}

#[test]
fn nobody_else_asks_the_ledgers_tables() {
    let mut asking = 0;
    for (name, text) in sources() {
        let asks = asks_the_ledger(&text);
        assert!(!asks || is_ledgers(&name), "{name} asks the ledger: see {READER}");
        asking += usize::from(asks);
    }
    assert!(
        asking >= 8,
        "the ledger's tables are named otherwise now; only {asking} files name them"
    );
}

#[test]
fn what_is_for_people_is_in_no_statement() {
    const KEYWORDS: [&str; 8] =
        ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "ALTER ", "DROP ", "LOCK ", "SET "];
    let mut printed = 0;
    for (name, text) in sources() {
        let calls = [".execute(", ".query(", ".run(", "rows(", "numbers("].iter();
        for (at, call) in calls.flat_map(|call| text.match_indices(call)) {
            let inside = in_parentheses(&text, at + call.len() - 1);
            assert!(
                !inside.contains(".for_people()"),
                "{name} puts words into SQL: {call}{inside}"
            );
        }
        for (at, call) in text.match_indices("format!(") {
            let inside = in_parentheses(&text, at + call.len() - 1);
            if inside.contains(".for_people()") {
                printed += 1;
                let is_sql =
                    KEYWORDS.iter().any(|keyword| inside.contains(&format!("\"{keyword}")));
                assert!(!is_sql, "{name} puts words into SQL: {call}{inside}");
            }
        }
    }
    assert!(printed > 3, "text for people is printed otherwise now");
}
