//! Where records end: what cutting a file safely comes down to.
//!
//! A line feed ends a record unless it is quoted or escaped. Whether it is quoted depends on every
//! quote before it, so the state at a place is computed, never guessed: with doubled quotes it is
//! the parity of the quotes before it, which can be counted at memory speed and in parallel.

use crate::parse::dialect::{Dialect, Family};

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
        Family::Plain => memchr::memrchr(b'\n', text).map(|at| at + 1),
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
/// `text_before` is what stands before it, as far as it is known.
pub fn first_record_end(
    text: &[u8],
    mut state: QuoteState,
    text_before: &[u8],
    dialect: &Dialect,
) -> Option<usize> {
    match dialect.family {
        Family::Plain => memchr::memchr(b'\n', text).map(|at| at + 1),
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
