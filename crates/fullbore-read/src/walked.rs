//! Cuts of text in which the parity of quotes alone does not tell where records end.
//!
//! Ranges in which it does were scanned in parallel. The others are walked, record by record, from the
//! last known start of a record. So cuts are exact, and a range does not depend on the starts of the
//! others.

use fullbore_parse::boundary::lost_lines;
use fullbore_parse::dialect::Dialect;
use fullbore_parse::index::quotes::{QuotesSeen, look_at_quotes};
use fullbore_parse::walk::Walker;

use super::opened::Opened;
use super::record_size::record_text_max;
use super::source_file::SourceFile;
use crate::constants::SCAN_CHUNK_BYTES;
use crate::error::Result;

/// Bytes read around a place at a time.
const LOOK_BYTES: u64 = 64 * 1024;

/// A file whose records are walked where they must be.
pub struct Walked<'a> {
    pub source: &'a SourceFile,
    pub opened: &'a Opened,
    pub dialect: &'a Dialect,
    /// Longer records are refused.
    pub record_bytes_max: usize,
}

impl Walked<'_> {
    /// The first record at or after each wanted place, which ascend from `start`, where a record begins.
    /// `seen` is what the quotes between these places say; none where that does not matter.
    pub fn cuts(&self, start: u64, wanted: &[u64], seen: &[QuotesSeen]) -> Result<Vec<u64>> {
        let mut cuts: Vec<u64> = Vec::with_capacity(wanted.len());
        // Where a record begins, for sure; and whether the last place is inside quotes, if that is known.
        let mut record = start;
        let mut inside = Some(false);
        for (stretch, place) in wanted.iter().copied().enumerate() {
            if place < record {
                // Within the record that was just read to its end.
                inside = None;
                continue;
            }
            let begun = inside.zip(seen.get(stretch));
            let clean = begun.filter(|(inside, seen)| !seen.is_misplaced[usize::from(*inside)]);
            inside = clean.map(|(inside, seen)| inside ^ seen.is_odd);
            if let Some(inside) = inside {
                record = self.record_before(place, inside, record)?;
            }
            record = self.next_record(record, place)?;
            if inside.is_none() && !seen.is_empty() {
                // What follows is outside quotes: so that is how the place must be.
                inside = Some(look_at_quotes(&self.read(place, record)?, b"", self.dialect).is_odd);
            }
            cuts.push(record);
        }
        Ok(cuts)
    }

    /// Where the record begins that a place is in, by the quotes before it; not before `known`.
    fn record_before(&self, place: u64, mut inside: bool, known: u64) -> Result<u64> {
        let mut end = place;
        while end > known {
            let begin = end.saturating_sub(LOOK_BYTES).max(known);
            let text = self.read(begin, end)?;
            for (at, byte) in text.iter().enumerate().rev() {
                if *byte == b'\n' && !inside {
                    return Ok(begin + at as u64 + 1);
                }
                inside ^= *byte == self.dialect.quote;
            }
            end = begin;
        }
        Ok(known)
    }

    /// The first record at or after a place; one begins at `from`.
    fn next_record(&self, from: u64, place: u64) -> Result<u64> {
        let end = self.source.end();
        let most = record_text_max(self.record_bytes_max);
        let mut walker = Walker::new(self.dialect);
        let mut text = Vec::new();
        // Where the text begins in the file, and where the next record begins in the text.
        let (mut begin, mut at) = (from, 0);
        loop {
            let record = begin + at as u64;
            if record >= place || record >= end {
                return Ok(record);
            }
            let is_whole = begin + text.len() as u64 == end;
            if at < text.len()
                && let Some((_, next)) = walker.next(&text, at, is_whole)
            {
                at = next;
                continue;
            }
            text.drain(..at);
            (begin, at) = (record, 0);
            if text.len() >= most {
                match lost_lines(&text, self.dialect) {
                    Some(whole) => at = whole.end,
                    // The load will refuse it.
                    None => return Ok(end),
                }
                continue;
            }
            let more = text.len().max(SCAN_CHUNK_BYTES).min(most - text.len());
            let from = begin + text.len() as u64;
            text.append(&mut self.read(from, end.min(from + more as u64))?);
        }
    }

    fn read(&self, from: u64, to: u64) -> Result<Vec<u8>> {
        let mut text = vec![0; to.saturating_sub(from) as usize];
        let read = self.opened.read_exact_at(&mut text, from);
        read.map_err(|error| self.source.unreadable(error))?;
        Ok(text)
    }
}
