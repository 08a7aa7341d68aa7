//! Finds the ends of records, so that files can be cut safely.
//!
//! A line feed ends a record unless it is quoted or escaped. Whether it is quoted depends on every
//! quote before it, so the state at a place is computed, never guessed: with doubled quotes it is
//! the parity of the quotes before it, which can be counted at memory speed and in parallel. Where text
//! is messy, that is, where parity and line feeds do not tell, records are walked instead.

use crate::block::Whole;
use crate::constants::PADDED_RECORDS_MAX;
use crate::dialect::{Dialect, Family, LineEnd, Quotes};
use crate::index::quotes::look_at_quotes;
use crate::rows::FaultReason;
use crate::walk::{Found, Walker};

/// Finds the whole records of a text that begins with one; `None` where none ends in it. Nothing follows
/// a text that `is_whole`: all of it is records then, though there may be too many for one block.
pub fn whole_records(text: &[u8], dialect: &Dialect, is_whole: bool) -> Option<Whole> {
    let is_messy = is_messy(text, dialect, is_whole);
    // Where few bytes may become many, they come in small portions.
    let is_bounded =
        dialect.pads_records() && dialect.line_end.count(text) > PADDED_RECORDS_MAX as u64;
    if !is_messy && !is_bounded {
        let end = if is_whole { Some(text.len()) } else { last_record_end(text, dialect) };
        return end.map(|end| Whole { end, is_messy });
    }
    let most = if is_bounded { PADDED_RECORDS_MAX } else { usize::MAX };
    let end = walked_end(text, dialect, is_whole, most);
    (end > 0).then_some(Whole { end, is_messy: true })
}

/// Where the last of so many records ends that a walk finds.
fn walked_end(text: &[u8], dialect: &Dialect, is_whole: bool, most: usize) -> usize {
    let mut walker = Walker::new(dialect);
    let mut end = 0;
    for _ in 0..most {
        if end == text.len() {
            break;
        }
        let Some((_, next)) = walker.next(text, end, is_whole) else { break };
        end = next;
    }
    end
}

/// Whether a text that begins with a record ends where one does, whatever follows it.
pub fn ends_with_record(text: &[u8], dialect: &Dialect) -> bool {
    let end = match is_messy(text, dialect, false) {
        true => walked_end(text, dialect, false, usize::MAX),
        false => last_record_end(text, dialect).unwrap_or(0),
    };
    end == text.len()
}

/// The lines that are lost of a record that does not end, where its quotes must be closed properly.
pub fn lost_lines(text: &[u8], dialect: &Dialect) -> Option<Whole> {
    if text.is_empty() {
        return None;
    }
    match Walker::new(dialect).next(text, 0, true)? {
        (Found::Fault(FaultReason::UnterminatedQuote), end) if end < text.len() => {
            Some(Whole { end, is_messy: true })
        }
        _ => None,
    }
}

/// Whether a text that begins with a record must be walked.
fn is_messy(text: &[u8], dialect: &Dialect, is_whole: bool) -> bool {
    let has_comment = || {
        dialect.comment.is_some_and(|comment| {
            let begins_line = |at: usize| at == 0 || matches!(text[at - 1], b'\n' | b'\r');
            memchr::memchr_iter(comment, text).any(begins_line)
        })
    };
    !dialect.delimiter_rest.is_empty()
        || match dialect.line_end {
            LineEnd::Lf | LineEnd::CrLf => false,
            LineEnd::Cr => true,
            LineEnd::Mixed => memchr::memchr(b'\r', text).is_some(),
        }
        || has_comment()
        || has_misplaced_quotes(text, dialect, is_whole)
}

/// Whether the strict rule for quotes and their parity read a text differently.
fn has_misplaced_quotes(text: &[u8], dialect: &Dialect, is_whole: bool) -> bool {
    if dialect.family != Family::Csv || dialect.quotes == Quotes::Lenient {
        return false;
    }
    if !dialect.quote_is_doubled() {
        return memchr::memchr(dialect.quote, text).is_some();
    }
    let seen = look_at_quotes(text, b"", dialect);
    seen.is_misplaced[0] || is_whole && seen.is_odd
}

/// Whether a place is inside quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuoteState {
    pub inside: bool,
    /// The byte before was an escape (only where escape and quote differ).
    pub escaped: bool,
}

/// The state after `text`, given the one before it.
pub fn advance(state: QuoteState, text: &[u8], dialect: &Dialect) -> QuoteState {
    if dialect.family != Family::Csv {
        return state;
    }
    if dialect.quote_is_doubled() {
        return QuoteState { inside: state.inside ^ is_odd(text, dialect.quote), escaped: false };
    }
    let mut state = state;
    for byte in text {
        step(&mut state, *byte, dialect);
    }
    state
}

/// Whether the number of these bytes is odd. Only that is asked for, so nothing is counted: each lane of
/// the processor's registers flips where it meets one, and the lanes are put together once.
fn is_odd(text: &[u8], byte: u8) -> bool {
    const LANES: usize = 64;
    let mut flips = [0u8; LANES];
    let (chunks, rest) = text.as_chunks::<LANES>();
    for chunk in chunks {
        for (flip, found) in flips.iter_mut().zip(chunk) {
            *flip ^= u8::from(*found == byte);
        }
    }
    for (flip, found) in flips.iter_mut().zip(rest) {
        *flip ^= u8::from(*found == byte);
    }
    flips.iter().fold(0, |all, flip| all ^ flip) == 1
}

#[inline]
fn step(state: &mut QuoteState, byte: u8, dialect: &Dialect) {
    if state.inside && !dialect.quote_is_doubled() && byte == dialect.escape {
        state.escaped = !state.escaped;
        return;
    }
    if byte == dialect.quote && !state.escaped {
        state.inside = !state.inside;
    }
    state.escaped = false;
}

/// The end of the last whole record in `text`, which begins at a record's beginning; `None` where
/// no record ends in it.
pub fn last_record_end(text: &[u8], dialect: &Dialect) -> Option<usize> {
    match dialect.family {
        Family::Plain | Family::Json | Family::Fixed => {
            memchr::memrchr(b'\n', text).map(|at| at + 1)
        }
        Family::Text => {
            memchr::memrchr_iter(b'\n', text).find(|at| !is_escaped(text, *at)).map(|at| at + 1)
        }
        Family::Csv if dialect.quote_is_doubled() => {
            let mut is_quoted = is_odd(text, dialect.quote);
            let mut end = text.len();
            for at in memchr::memrchr_iter(b'\n', text) {
                is_quoted ^= is_odd(&text[at..end], dialect.quote);
                end = at;
                if !is_quoted {
                    return Some(at + 1);
                }
            }
            None
        }
        Family::Csv => {
            let mut state = QuoteState::default();
            let mut last = None;
            for (at, byte) in text.iter().enumerate() {
                step(&mut state, *byte, dialect);
                if *byte == b'\n' && !state.inside {
                    last = Some(at + 1);
                }
            }
            last
        }
    }
}

/// The end of the first record that ends in `text`, which begins anywhere, in the given state;
/// `text_before` is what stands before it, as far as it is known. Messy text must begin with a record.
pub fn first_record_end(
    text: &[u8],
    mut state: QuoteState,
    text_before: &[u8],
    dialect: &Dialect,
) -> Option<usize> {
    if !dialect.is_told_by_parity() && state == QuoteState::default() && !text.is_empty() {
        return Walker::new(dialect).next(text, 0, false).map(|(_, end)| end);
    }
    match dialect.family {
        Family::Plain | Family::Json | Family::Fixed => {
            memchr::memchr(b'\n', text).map(|at| at + 1)
        }
        Family::Text => {
            let backslashes =
                |bytes: &[u8]| bytes.iter().rev().take_while(|b| **b == b'\\').count();
            let before = backslashes(text_before);
            memchr::memchr_iter(b'\n', text)
                .find(|at| {
                    let run = backslashes(&text[..*at]);
                    let run = if run == *at { run + before } else { run };
                    run % 2 == 0
                })
                .map(|at| at + 1)
        }
        Family::Csv => {
            for (at, byte) in text.iter().enumerate() {
                step(&mut state, *byte, dialect);
                if *byte == b'\n' && !state.inside {
                    return Some(at + 1);
                }
            }
            None
        }
    }
}

/// Whether an odd number of backslashes stands before a place.
fn is_escaped(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().take_while(|b| **b == b'\\').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_is_what_counting_says() {
        let text: Vec<u8> = (0..300usize).map(|at| b"a\"b\nc"[at * at % 5]).collect();
        for (from, to) in (0..70).flat_map(|from| (from..300).map(move |to| (from, to))) {
            let count = text[from..to].iter().filter(|byte| **byte == b'"').count();
            assert_eq!(is_odd(&text[from..to], b'"'), count % 2 == 1, "{from}..{to}");
        }
    }
}
