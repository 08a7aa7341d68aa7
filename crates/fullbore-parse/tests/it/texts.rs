//! Texts of all dialects, and what becomes of their records.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use fullbore_parse::Parser;
use fullbore_parse::block::Block;
use fullbore_parse::dialect::{Dialect, LineEnd, Quotes, Ragged};
use fullbore_parse::reference::{Record, Value, placed_records};
use fullbore_parse::types::{FieldType, ParseColumn, ParseShape};
use proptest::prelude::*;

/// Text made mostly of what the dialects care about, in pieces that cross 64-byte words.
pub fn text() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        8 => "[a-z0-9]{0,9}".prop_map(String::into_bytes),
        6 => Just(b",".to_vec()),
        4 => Just(b"\n".to_vec()),
        4 => Just(b"\"".to_vec()),
        2 => Just(b"\"\"".to_vec()),
        2 => Just(b",\"".to_vec()),
        2 => Just(b"\",".to_vec()),
        2 => Just(b"\"\n".to_vec()),
        1 => Just(b"\n\"".to_vec()),
        2 => Just(b"||".to_vec()),
        1 => Just(b"|".to_vec()),
        2 => Just(b"\n#".to_vec()),
        1 => Just(b"\n\n".to_vec()),
        1 => Just(b"\n  \n".to_vec()),
        3 => Just(b"\\".to_vec()),
        1 => Just(b"\r\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        1 => Just(b"\\N".to_vec()),
        1 => Just(b"NA".to_vec()),
        1 => Just(b",-,".to_vec()),
        1 => Just(b"\\.".to_vec()),
        1 => Just(b".".to_vec()),
        1 => Just(b"\\x41\\101\\n".to_vec()),
        1 => Just("\u{e4}\u{1f600}".as_bytes().to_vec()),
        1 => Just(vec![0xff]),
        1 => Just(vec![0]),
        1 => "[a-z]{60,70}".prop_map(String::into_bytes),
    ];
    proptest::collection::vec(token, 0..120).prop_map(|tokens| tokens.concat())
}

/// Dialects that need nothing but the index, as COPY has them.
pub fn plain_dialect() -> impl Strategy<Value = Dialect> {
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

/// All others, too.
pub fn dialect() -> impl Strategy<Value = Dialect> {
    let line_end = prop_oneof![
        3 => Just(None),
        1 => Just(Some(LineEnd::Cr)),
        1 => Just(Some(LineEnd::Mixed)),
    ];
    let ragged = prop_oneof![
        2 => Just(Ragged::Reject),
        1 => Just(Ragged::Pad),
        1 => Just(Ragged::Cut),
    ];
    let nulls = prop_oneof![
        2 => Just(vec![]),
        1 => Just(vec![b"NA".to_vec(), b"-".to_vec()]),
    ];
    let options = (line_end, ragged, nulls, any::<bool>(), 0..4, 0..4);
    (plain_dialect(), options).prop_map(|(dialect, options)| {
        let (line_end, ragged, more_nulls, is_strict, comment, delimiter) = options;
        let is_text = dialect == Dialect { delimiter: b',', ..Dialect::text() };
        let has_long = delimiter == 0 && !is_text;
        Dialect {
            line_end: line_end.unwrap_or(dialect.line_end),
            ragged,
            more_nulls,
            quotes: if is_strict { Quotes::Strict } else { Quotes::Lenient },
            comment: (comment == 0).then_some(b'#'),
            delimiter: if has_long { b'|' } else { dialect.delimiter },
            delimiter_rest: if has_long { b"|".to_vec() } else { Vec::new() },
            ..dialect
        }
    })
}

/// The text as feeds hand it out: its last line ends as the dialect has it.
pub fn ended(mut text: Vec<u8>, dialect: &Dialect) -> Vec<u8> {
    if !text.is_empty() && !dialect.line_end.ends(&text) {
        text.extend_from_slice(dialect.line_end.written());
    }
    text
}

pub fn shape(fields: usize) -> Arc<ParseShape> {
    let name = |field: usize| format!("c{field}");
    Arc::new(ParseShape {
        fields,
        columns: (0..fields)
            .map(|field| ParseColumn {
                name: name(field),
                field,
                field_type: FieldType::text(),
                guess: None,
            })
            .collect(),
        field_names: (0..fields).map(name).collect(),
        orders: Default::default(),
        json: None,
    })
}

/// Rows with their places and lines, places of faults, and how many lines were passed over.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub rows: Vec<(Range<usize>, u64, Vec<Value>)>,
    pub faults: Vec<Range<usize>>,
    pub skipped: u64,
}

impl Found {
    pub fn sorted(mut self) -> Self {
        self.faults.sort_by_key(|fault| fault.start);
        self
    }

    /// Takes what becomes of a block that stands at a place of the text, behind so many lines.
    pub fn take(&mut self, parser: &mut Parser, block: &Block, at: usize, lines: u64) {
        let parsed = parser.parse(block);
        assert!(parsed.odd.is_empty(), "text is never odd");
        assert_eq!(parsed.lines, block.lines());
        let moved = |range: Range<usize>| at + range.start..at + range.end;
        let places = parser.parsed_records(block).into_iter().map(moved);
        let numbers = parser.lines_of_rows(block).into_iter().map(|line| lines + line);
        let rows = places.zip(numbers).zip(rows_of(&parsed.batch));
        self.rows.extend(rows.map(|((place, line), row)| (place, line, row)));
        self.faults.extend(parsed.faults.into_iter().map(|fault| moved(fault.range)));
        self.skipped += parsed.counts.blank + parsed.counts.comments;
    }
}

pub fn rows_of(batch: &RecordBatch) -> Vec<Vec<Value>> {
    let value = |column: &Arc<dyn Array>, row: usize| {
        let column = column.as_string::<i32>();
        column.is_valid(row).then(|| column.value(row).as_bytes().to_vec())
    };
    (0..batch.num_rows())
        .map(|row| batch.columns().iter().map(|column| value(column, row)).collect())
        .collect()
}

/// What the reference gives; a value made by number that is no text is a fault there too.
pub fn expected(text: &[u8], dialect: &Dialect, fields: usize) -> Found {
    let mut found = Found::default();
    for (place, record) in placed_records(text, dialect, fields) {
        let is_text = |v: &Vec<u8>| !v.contains(&0) && std::str::from_utf8(v).is_ok();
        match record {
            Record::Skipped => found.skipped += 1,
            Record::Fields(values) if values.iter().flatten().all(is_text) => {
                let line = dialect.line_end.count(&text[..place.start]);
                found.rows.push((place, line, values));
            }
            _ => found.faults.push(place),
        }
    }
    found
}
