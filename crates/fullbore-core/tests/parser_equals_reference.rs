//! The fast parser gives what the reference parser gives, whatever the text, the dialect, the cuts
//! and the processor's instructions.

use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use fullbore_core::parse::Parser;
use fullbore_core::parse::block::Block;
use fullbore_core::parse::dialect::{Dialect, LineEnd};
use fullbore_core::parse::index::{FieldIndex, Level, OFFSET, SPECIAL};
use fullbore_core::parse::reference::{Record, Value, records};
use fullbore_core::parse::types::{FieldType, ParseColumn, ParseShape};
use fullbore_core::source::boundary::{QuoteState, advance, first_record_end, last_record_end};
use proptest::prelude::*;

/// Text made mostly of what the dialects care about, in pieces that cross 64-byte words.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        8 => "[a-z0-9]{0,9}".prop_map(String::into_bytes),
        6 => Just(b",".to_vec()),
        4 => Just(b"\n".to_vec()),
        4 => Just(b"\"".to_vec()),
        2 => Just(b"\"\"".to_vec()),
        3 => Just(b"\\".to_vec()),
        1 => Just(b"\r\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        1 => Just(b"\\N".to_vec()),
        1 => Just(b"\\.".to_vec()),
        1 => Just(b".".to_vec()),
        1 => Just(b"\\x41\\101\\n".to_vec()),
        1 => Just("\u{e4}\u{1f600}".as_bytes().to_vec()),
        1 => Just(vec![0xff]),
        1 => Just(vec![0]),
        1 => "[a-z]{60,70}".prop_map(String::into_bytes),
    ];
    proptest::collection::vec(token, 0..120).prop_map(|tokens| {
        let mut text = tokens.concat();
        if !text.is_empty() {
            text.push(b'\n');
        }
        text
    })
}

fn dialect() -> impl Strategy<Value = Dialect> {
    let family = prop_oneof![
        Just(Dialect::csv()),
        Just(Dialect { escape: b'\\', ..Dialect::csv() }),
        Just(Dialect { null: b"null".to_vec(), ..Dialect::csv() }),
        Just(Dialect { delimiter: b',', ..Dialect::text() }),
        Just(Dialect { delimiter: b',', trailing_delimiter: false, ..Dialect::tbl() }),
        Just(Dialect { delimiter: b',', ..Dialect::tbl() }),
    ];
    (family, any::<bool>()).prop_map(|(dialect, crlf)| Dialect {
        line_end: if crlf { LineEnd::CrLf } else { LineEnd::Lf },
        ..dialect
    })
}

fn shape(fields: usize) -> Arc<ParseShape> {
    let name = |field: usize| format!("c{field}");
    Arc::new(ParseShape {
        fields,
        columns: (0..fields)
            .map(|field| ParseColumn { name: name(field), field, field_type: FieldType::text() })
            .collect(),
        field_names: (0..fields).map(name).collect(),
    })
}

/// The rows and the number of faults that the fast parser gives.
fn parsed(text: &[u8], dialect: &Dialect, fields: usize) -> (Vec<Vec<Value>>, usize) {
    let parsed = Parser::new(dialect.clone(), shape(fields)).parse(&Block::of(text));
    assert!(parsed.odd.is_empty(), "text is never odd");
    let batch = parsed.batch;
    let rows = (0..batch.num_rows())
        .map(|row| {
            let columns = batch.columns().iter();
            columns
                .map(|column| {
                    let column = column.as_string::<i32>();
                    column.is_valid(row).then(|| column.value(row).as_bytes().to_vec())
                })
                .collect()
        })
        .collect();
    (rows, parsed.faults.len())
}

/// What the reference gives; a value made by number that is no text is a fault there too.
fn expected(text: &[u8], dialect: &Dialect, fields: usize) -> (Vec<Vec<Value>>, usize) {
    let mut rows = Vec::new();
    let mut faults = 0;
    for record in records(text, dialect, fields) {
        match record {
            Record::Fields(values)
                if values
                    .iter()
                    .flatten()
                    .all(|v| !v.contains(&0) && std::str::from_utf8(v).is_ok()) =>
            {
                rows.push(values);
            }
            _ => faults += 1,
        }
    }
    (rows, faults)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn rows_and_faults_are_the_references(text in text(), dialect in dialect(), fields in 1usize..5) {
        prop_assert_eq!(parsed(&text, &dialect, fields), expected(&text, &dialect, fields));
    }

    #[test]
    fn all_levels_find_the_same_separators(text in text(), dialect in dialect()) {
        let block = Block::of(&text);
        let mut plain = FieldIndex::default();
        plain.build_with(Level::Plain, &block, &dialect);
        for level in Level::available() {
            let mut index = FieldIndex::default();
            index.build_with(level, &block, &dialect);
            prop_assert_eq!(&index.separators, &plain.separators, "{:?}", level);
            prop_assert_eq!(index.line_ends, plain.line_ends);
            prop_assert_eq!(index.has_nul, plain.has_nul);
            prop_assert_eq!(index.has_carriage_return, plain.has_carriage_return);
            prop_assert_eq!(index.ends_in_quotes, plain.ends_in_quotes);
        }
        let offsets: Vec<u32> = plain.separators.iter().map(|s| s & OFFSET).collect();
        prop_assert!(offsets.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(plain.separators[0] & SPECIAL == 0);
    }

    /// Cut anywhere, with the state that is there: nothing is lost, and nothing is read twice.
    #[test]
    fn cuts_do_not_change_the_records(text in text(), dialect in dialect(), at in 0usize..2000) {
        let at = at.min(text.len());
        let state = advance(QuoteState::default(), &text[..at], &dialect);
        let cut = first_record_end(&text[at..], state, &text[..at], &dialect)
            .map_or(text.len(), |end| at + end);
        let whole = records(&text, &dialect, 2);
        let mut parts = records(&text[..cut], &dialect, 2);
        parts.extend(records(&text[cut..], &dialect, 2));
        prop_assert_eq!(parts, whole);
        // The last record's end, too, is one that the reference knows.
        if let Some(end) = last_record_end(&text, &dialect) {
            let mut parts = records(&text[..end], &dialect, 2);
            parts.extend(records(&text[end..], &dialect, 2));
            prop_assert_eq!(parts, records(&text, &dialect, 2));
        }
    }
}
