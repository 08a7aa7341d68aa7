//! Dialect and splitter: any text in any dialect, cut anywhere, gives the reference's records.

#![no_main]

use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use fullbore_parse::Parser;
use fullbore_parse::block::Block;
use fullbore_parse::boundary::{QuoteState, advance, first_record_end, last_record_end};
use fullbore_parse::dialect::{Dialect, LineEnd};
use fullbore_parse::reference::{Record, records};
use fullbore_parse::types::{FieldType, ParseColumn, ParseShape};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [choice, delimiter, quote, escape, fields, at, text @ ..] = data else { return };
    let base = match choice % 3 {
        0 => Dialect::csv(),
        1 => Dialect::text(),
        _ => Dialect::tbl(),
    };
    let dialect = Dialect {
        delimiter: *delimiter,
        quote: *quote,
        escape: if choice & 4 == 0 { *quote } else { *escape },
        line_end: if choice & 8 == 0 { LineEnd::Lf } else { LineEnd::CrLf },
        trailing_delimiter: choice & 16 != 0,
        ..base
    };
    if dialect.check().is_err() || text.is_empty() {
        return;
    }
    let fields = usize::from(*fields) % 5 + 1;
    let mut text = text.to_vec();
    text.push(b'\n');

    let expected: Vec<_> = records(&text, &dialect, fields)
        .into_iter()
        .filter_map(|record| match record {
            Record::Fields(values) => values
                .iter()
                .flatten()
                .all(|v| !v.contains(&0) && std::str::from_utf8(v).is_ok())
                .then_some(values),
            Record::Fault | Record::Skipped => None,
        })
        .collect();
    let shape = ParseShape {
        fields,
        columns: (0..fields)
            .map(|field| ParseColumn {
                name: String::new(),
                field,
                field_type: FieldType::text(),
                guess: None,
            })
            .collect(),
        field_names: vec![String::new(); fields],
        orders: Default::default(),
        json: None,
    };
    let batch = Parser::new(dialect.clone(), Arc::new(shape)).parse(&Block::of(&text)).batch;
    let found: Vec<Vec<Option<Vec<u8>>>> = (0..batch.num_rows())
        .map(|row| {
            let columns = batch.columns().iter().map(|column| column.as_string::<i32>());
            columns.map(|c| c.is_valid(row).then(|| c.value(row).as_bytes().to_vec())).collect()
        })
        .collect();
    assert_eq!(found, expected);

    let whole = records(&text, &dialect, fields);
    let at = usize::from(*at) % text.len();
    let state = advance(QuoteState::default(), &text[..at], &dialect);
    let cut = first_record_end(&text[at..], state, &text[..at], &dialect);
    for cut in [cut.map(|end| at + end), last_record_end(&text, &dialect)].into_iter().flatten() {
        let mut parts = records(&text[..cut], &dialect, fields);
        parts.extend(records(&text[cut..], &dialect, fields));
        assert_eq!(parts, whole);
    }
});
