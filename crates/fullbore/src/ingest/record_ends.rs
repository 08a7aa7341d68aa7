//! Where records of a stream end, as the load will find them.

use fullbore_parse::boundary::{QuoteState, advance, first_record_end};
use fullbore_parse::dialect::Dialect;

/// A record that is longer, and whose end only its beginning tells, is not looked through with each text that arrives.
const LONG: usize = 1 << 18;

/// Text in which records end.
pub struct RecordEnds {
    dialect: Dialect,
    text: Vec<u8>,
    /// Where the first record begins that was not given.
    start: usize,
    /// How far it was looked for its end, and whether that place is within quotes.
    looked: usize,
    state: QuoteState,
}

impl RecordEnds {
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, text: Vec::new(), start: 0, looked: 0, state: QuoteState::default() }
    }

    pub fn add(&mut self, text: &[u8]) {
        self.text.drain(..self.start);
        self.looked -= self.start;
        self.start = 0;
        self.text.extend_from_slice(text);
    }

    pub fn clear(&mut self) {
        self.text.clear();
        (self.start, self.looked, self.state) = (0, 0, QuoteState::default());
    }

    /// The bytes of the next record, once it has ended.
    pub fn next_record(&mut self) -> Option<usize> {
        let end = match self.dialect.is_told_by_parity() {
            true => self.end_by_parity(),
            false => self.end_from_beginning(),
        }?;
        let bytes = end - self.start;
        (self.start, self.looked, self.state) = (end, end, QuoteState::default());
        Some(bytes)
    }

    /// Goes on from where it was looked at.
    fn end_by_parity(&mut self) -> Option<usize> {
        let (before, text) = (&self.text[self.start..self.looked], &self.text[self.looked..]);
        if let Some(end) = first_record_end(text, self.state, before, &self.dialect) {
            return Some(self.looked + end);
        }
        self.state = advance(self.state, text, &self.dialect);
        self.looked = self.text.len();
        None
    }

    /// Looks at all of the record once more, where much of it is new.
    fn end_from_beginning(&mut self) -> Option<usize> {
        let record = &self.text[self.start..];
        if record.len() > LONG && record.len() < 2 * (self.looked - self.start) {
            return None;
        }
        let end = first_record_end(record, QuoteState::default(), b"", &self.dialect);
        self.looked = self.text.len();
        end.map(|end| self.start + end)
    }
}
