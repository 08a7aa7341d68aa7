//! Whether quotes stand where the strict rule has them: a field's at its ends, the others doubled.
//!
//! Where they all do, their parity alone says what is quoted, as it does under the lenient rule, and the
//! two rules read the text alike. Where one does not, the text must be walked.

use super::level::Level;
use super::masks::{Bytes, Instructions, Masks};
use crate::dialect::{Dialect, LineEnd};

/// What a text's quotes say, by whether it begins inside quotes: outside first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotesSeen {
    /// Their number is odd: the text ends otherwise than it began.
    pub is_odd: bool,
    /// A quote opens in the middle of a field, or a field goes on behind its closing quote.
    pub is_misplaced: [bool; 2],
}

/// Looks at a text's quotes; the text may begin and end anywhere. `before` are the two bytes before it,
/// none where a record begins with it; what follows it is seen by whoever looks there. Quotes must be
/// doubled.
pub fn look_at_quotes(text: &[u8], before: &[u8], dialect: &Dialect) -> QuotesSeen {
    let mut scan = Scan::new(before, dialect);
    scan.add_with(Level::best(), text);
    scan.seen
}

/// Carries what the next text must know.
#[derive(Debug, Clone, Copy)]
pub struct Scan {
    pub seen: QuotesSeen,
    bytes: Bytes,
    is_crlf: bool,
    /// A quote may open at the first byte.
    may_open: bool,
    /// The byte before was a quote that closes, by how the text began; and such a quote with CR after it.
    closed: [bool; 2],
    returned: [bool; 2],
}

impl Scan {
    /// Begins after these bytes, of which the last two matter, or with a record.
    pub fn new(before: &[u8], dialect: &Dialect) -> Self {
        let bytes =
            Bytes { delimiter: dialect.delimiter, quote: dialect.quote, escape: dialect.escape };
        let opens = [dialect.delimiter, b'\n', dialect.quote];
        let is_crlf = dialect.line_end == LineEnd::CrLf;
        // Where the text begins outside quotes, a quote just before it closed some.
        let is_returned = is_crlf && before.ends_with(&[dialect.quote, b'\r']);
        Self {
            seen: QuotesSeen::default(),
            bytes,
            is_crlf,
            may_open: before.last().is_none_or(|before| opens.contains(before)),
            closed: [before.ends_with(&[dialect.quote]), false],
            returned: [is_returned, false],
        }
    }

    /// Looks at more text.
    pub fn add(&mut self, text: &[u8]) {
        self.add_with(Level::best(), text);
    }

    /// As [`Self::add`], with a given level of instructions.
    ///
    /// # Panics
    /// If the processor lacks the level.
    pub fn add_with(&mut self, level: Level, text: &[u8]) {
        assert!(level.is_available());
        match level {
            Level::Plain => super::plain::look(self, text),
            // SAFETY: the processor has the instructions, checked just above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { super::avx2::look(self, text) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { super::avx512::look(self, text) },
            // SAFETY: every aarch64 processor has NEON.
            #[cfg(target_arch = "aarch64")]
            Level::Neon => unsafe { super::neon::look(self, text) },
        }
    }

    /// To be inlined into a function compiled for the level's instructions.
    ///
    /// # Safety
    /// The processor has the level's instructions.
    #[inline(always)]
    pub(super) unsafe fn run<I: Instructions>(&mut self, text: &[u8]) {
        let (words, rest) = text.as_chunks::<64>();
        for word in words {
            // SAFETY: the chunk has 64 bytes; the rest is the caller's promise.
            unsafe { self.word::<I>(word, 64) };
        }
        if !rest.is_empty() {
            let mut word = [0; 64];
            word[..rest.len()].copy_from_slice(rest);
            // SAFETY: as above.
            unsafe { self.word::<I>(&word, rest.len()) };
        }
    }

    /// Takes the first `len` of 64 bytes.
    #[inline(always)]
    unsafe fn word<I: Instructions>(&mut self, word: &[u8; 64], len: usize) {
        // SAFETY: 64 bytes are readable; the rest is the caller's promise.
        let masks = unsafe { I::masks(word.as_ptr(), self.bytes, true, false) };
        let last = len - 1;
        let Masks { delimiter, line_feed, carriage_return, quote, .. } = masks;
        let opens_after = delimiter | line_feed | quote;
        if quote != 0 || self.closed != [false; 2] || self.returned != [false; 2] {
            // SAFETY: the caller's promise.
            let parity = unsafe { I::prefix_parity(quote) };
            let inside = if self.seen.is_odd { !parity } else { parity };
            // A text that began inside quotes has the same quotes the other way round.
            let (opening, closing) = (quote & inside, quote & !inside);
            let valid = u64::MAX >> (63 - last);
            let may_open = opens_after << 1 | u64::from(self.may_open);
            let may_follow = opens_after | if self.is_crlf { carriage_return } else { 0 };
            for (began_inside, (opening, closing)) in
                [(opening, closing), (closing, opening)].into_iter().enumerate()
            {
                let behind = (closing << 1 | u64::from(self.closed[began_inside])) & valid;
                let mut misplaced = opening & !may_open | behind & !may_follow;
                if self.is_crlf {
                    let returned = behind & carriage_return;
                    let behind = (returned << 1 | u64::from(self.returned[began_inside])) & valid;
                    misplaced |= behind & !line_feed;
                    self.returned[began_inside] = returned >> last & 1 == 1;
                }
                self.closed[began_inside] = closing >> last & 1 == 1;
                self.seen.is_misplaced[began_inside] |= misplaced != 0;
            }
            self.seen.is_odd ^= quote.count_ones() % 2 == 1;
        }
        self.may_open = opens_after >> last & 1 == 1;
    }
}
