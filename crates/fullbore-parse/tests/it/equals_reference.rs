//! The fast parser gives what the reference parser gives, whatever the text, the dialect, the cuts
//! and the processor's instructions.

use fullbore_parse::Parser;
use fullbore_parse::block::Block;
use fullbore_parse::boundary::{QuoteState, advance, first_record_end, lost_lines, whole_records};
use fullbore_parse::dialect::{Dialect, LineEnd, Quotes};
use fullbore_parse::index::quotes::{QuotesSeen, Scan};
use fullbore_parse::index::{FieldIndex, Level, OFFSET, SPECIAL};
use fullbore_parse::reference::records;
use proptest::prelude::*;

use crate::texts::{Found, dialect, ended, expected, plain_dialect, shape, text};

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

proptest! {
    #![proptest_config(crate::cases(3000))]

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
    #![proptest_config(crate::cases(1000))]

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
