//! The fast parser gives what the reference parser gives, whatever the text, the dialect, the cuts
//! and the processor's instructions.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use fullbore_core::parse::Parser;
use fullbore_core::parse::block::Block;
use fullbore_core::parse::dialect::{Dialect, LineEnd, Quotes, Ragged};
use fullbore_core::parse::index::quotes::{QuotesSeen, Scan};
use fullbore_core::parse::index::{FieldIndex, Level, OFFSET, SPECIAL};
use fullbore_core::parse::reference::{Record, Value, placed_records, records};
use fullbore_core::parse::types::{FieldType, ParseColumn, ParseShape};
use fullbore_core::plan::FileRange;
use fullbore_core::source::boundary::{
    QuoteState, advance, first_record_end, lost_lines, whole_records,
};
use fullbore_core::source::discover::discover;
use fullbore_core::source::ranges::RangeFeed;
use fullbore_core::source::split::{Sizes, cuts};
use proptest::prelude::*;

/// Text made mostly of what the dialects care about, in pieces that cross 64-byte words.
fn text() -> impl Strategy<Value = Vec<u8>> {
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
fn plain_dialect() -> impl Strategy<Value = Dialect> {
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
fn dialect() -> impl Strategy<Value = Dialect> {
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
fn ended(mut text: Vec<u8>, dialect: &Dialect) -> Vec<u8> {
    if !text.is_empty() && !dialect.line_end.ends(&text) {
        text.extend_from_slice(dialect.line_end.written());
    }
    text
}

fn shape(fields: usize) -> Arc<ParseShape> {
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
struct Found {
    rows: Vec<(Range<usize>, u64, Vec<Value>)>,
    faults: Vec<Range<usize>>,
    skipped: u64,
}

impl Found {
    fn sorted(mut self) -> Self {
        self.faults.sort_by_key(|fault| fault.start);
        self
    }

    /// Takes what becomes of a block that stands at a place of the text, behind so many lines.
    fn take(&mut self, parser: &mut Parser, block: &Block, at: usize, lines: u64) {
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

fn rows_of(batch: &RecordBatch) -> Vec<Vec<Value>> {
    let value = |column: &Arc<dyn Array>, row: usize| {
        let column = column.as_string::<i32>();
        column.is_valid(row).then(|| column.value(row).as_bytes().to_vec())
    };
    (0..batch.num_rows())
        .map(|row| batch.columns().iter().map(|column| value(column, row)).collect())
        .collect()
}

/// What the fast parser makes of blocks that are read as feeds read them, so much at a time.
fn parsed(text: &[u8], dialect: &Dialect, fields: usize, read: usize) -> Found {
    let mut parser = Parser::new(dialect.clone(), shape(fields));
    let (mut found, mut at, mut lines) = (Found::default(), 0, 0);
    while at < text.len() {
        let mut have = read.min(text.len() - at);
        let whole = loop {
            let is_whole = at + have == text.len();
            match whole_records(&text[at..at + have], dialect, is_whole) {
                Some(whole) => break whole,
                None => have = (have * 2).min(text.len() - at),
            }
        };
        let mut block = Block::of(&text[at..at + whole.end]);
        block.line_end = dialect.line_end;
        block.take(whole);
        found.take(&mut parser, &block, at, lines);
        at += whole.end;
        lines += block.lines();
    }
    found.sorted()
}

/// What the reference gives; a value made by number that is no text is a fault there too.
fn expected(text: &[u8], dialect: &Dialect, fields: usize) -> Found {
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

/// The same of a file that is cut into ranges of about so many bytes, which are read as loads read them.
fn loaded(text: &[u8], dialect: &Dialect, fields: usize, range_bytes: u64) -> Found {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x");
    std::fs::write(&path, text).expect("written");
    let source = discover(path.to_str().expect("UTF-8")).expect("found").remove(0);
    let sizes = Sizes { range_bytes, record_bytes_max: 1 << 20, total_bytes: text.len() as u64 };
    let cuts = cuts(&source, dialect, sizes, 2).expect("cut");
    let ranges = cuts.windows(2).map(|ends| FileRange { file: 0, start: ends[0], end: ends[1] });
    let ranges: Vec<FileRange> = ranges.filter(|range| range.start < range.end).collect();
    let mut feed = RangeFeed::new(vec![Arc::new(source)], ranges, dialect.clone(), 1 << 20);
    let mut parser = Parser::new(dialect.clone(), shape(fields));
    let (mut found, mut block) = (Found::default(), Block::default());
    while feed.next(&mut block).expect("read") {
        let at = block.offset as usize;
        found.take(&mut parser, &block, at, dialect.line_end.count(&text[..at]));
    }
    found.sorted()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn rows_and_faults_are_the_references(
        text in text(),
        dialect in dialect(),
        fields in 1usize..5,
        read in 1usize..2000,
    ) {
        let text = ended(text, &dialect);
        let found = parsed(&text, &dialect, fields, read);
        prop_assert_eq!(found, expected(&text, &dialect, fields));
    }

    /// A block that could go the fast way gives the same when it is walked.
    #[test]
    fn both_ways_of_a_block_give_the_same(
        text in text(),
        dialect in plain_dialect(),
        fields in 1usize..5,
    ) {
        let text = ended(text, &dialect);
        let mut block = Block::of(&text);
        let (mut fast, mut walked) = (Found::default(), Found::default());
        let mut parser = Parser::new(dialect.clone(), shape(fields));
        fast.take(&mut parser, &block, 0, 0);
        block.is_messy = true;
        walked.take(&mut parser, &block, 0, 0);
        prop_assert_eq!(fast.sorted(), walked.sorted());
    }

    #[test]
    fn all_levels_find_the_same_separators(text in text(), dialect in plain_dialect()) {
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
    fn cuts_do_not_change_the_records(
        text in text(),
        dialect in plain_dialect(),
        at in 0usize..2000,
    ) {
        let text = ended(text, &dialect);
        let at = at.min(text.len());
        let state = advance(QuoteState::default(), &text[..at], &dialect);
        let cut = first_record_end(&text[at..], state, &text[..at], &dialect)
            .map_or(text.len(), |end| at + end);
        let whole = records(&text, &dialect, 2);
        let mut parts = records(&text[..cut], &dialect, 2);
        parts.extend(records(&text[cut..], &dialect, 2));
        prop_assert_eq!(parts, whole);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn ranges_of_a_file_give_what_the_whole_gives(
        text in text(),
        dialect in dialect(),
        fields in 1usize..5,
        range_bytes in 1u64..300,
    ) {
        let text = ended(text, &dialect);
        let found = loaded(&text, &dialect, fields, range_bytes);
        prop_assert_eq!(found, expected(&text, &dialect, fields));
    }

    #[test]
    fn all_levels_see_the_same_quotes_however_the_text_is_cut(
        text in text(),
        at in 0usize..2000,
        begins_inside: bool,
        crlf: bool,
    ) {
        let line_end = if crlf { LineEnd::CrLf } else { LineEnd::Lf };
        let dialect = Dialect { line_end, ..Dialect::csv() };
        let wanted = quotes_of(&text, begins_inside, &dialect);
        let at = at.min(text.len());
        for level in Level::available() {
            let mut scan = Scan::new(b"", &dialect);
            scan.add_with(level, &text[..at]);
            scan.add_with(level, &text[at..]);
            let QuotesSeen { is_odd, is_misplaced } = scan.seen;
            let found = (is_odd, is_misplaced[usize::from(begins_inside)]);
            prop_assert_eq!(found, wanted, "{:?}", level);
            // Begun anew in the middle: what either part says together.
            let mut second = Scan::new(&text[..at], &dialect);
            second.add_with(level, &text[at..]);
            let mut first = Scan::new(b"", &dialect);
            first.add_with(level, &text[..at]);
            let state = begins_inside ^ first.seen.is_odd;
            let found = (
                first.seen.is_odd ^ second.seen.is_odd,
                first.seen.is_misplaced[usize::from(begins_inside)]
                    || second.seen.is_misplaced[usize::from(state)],
            );
            prop_assert_eq!(found, wanted, "{:?} in two", level);
        }
    }
}

/// Whether the number of quotes is odd, and whether one stands where the strict rule has none.
fn quotes_of(text: &[u8], mut inside: bool, dialect: &Dialect) -> (bool, bool) {
    let (mut count, mut is_misplaced) = (0, false);
    for (at, byte) in text.iter().enumerate() {
        if *byte != dialect.quote {
            continue;
        }
        count += 1;
        inside = !inside;
        let before = at.checked_sub(1).map(|at| text[at]);
        let after = &text[at + 1..];
        is_misplaced |= match inside {
            true => !before.is_none_or(|byte| b",\n\"".contains(&byte)),
            false if dialect.line_end == LineEnd::CrLf && after.starts_with(b"\r") => {
                after.len() > 1 && after[1] != b'\n'
            }
            false => !after.first().is_none_or(|byte| b",\n\"".contains(byte)),
        };
    }
    (count % 2 == 1, is_misplaced)
}

#[test]
fn a_quoted_field_longer_than_may_be_costs_its_line() {
    let dialect = Dialect { quotes: Quotes::Strict, ..Dialect::csv() };
    let text = b"1,\"a\nb\nc\n";
    assert_eq!(whole_records(text, &dialect, false), None);
    let lost = lost_lines(text, &dialect).expect("a line is lost");
    assert_eq!((lost.end, lost.is_messy), (5, true));
    let lenient = Dialect::csv();
    assert_eq!(lost_lines(text, &lenient), None, "COPY's rule loses the file");
}
