//! Reads what is guessed from: the beginning of a file, and of one that can be read anywhere also its
//! middle and its end.

use fullbore_objects::Pace;
use fullbore_parse::dialect::{Header, LineEnd};

use super::cut::{Cuts, Style};
use crate::cancellable::Cancellation;
use crate::decompress::{open_stream, unpack};
use crate::error::{Error, Result};
use crate::opened::Opened;
use crate::source_file::{Packing, SourceFile, read_little};

pub(crate) const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";

/// Text of one file, for guessing.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// Its number among the table's files.
    pub file: usize,
    pub first: Vec<u8>,
    /// Whole lines from further on.
    pub others: Vec<Vec<u8>>,
    pub is_whole: bool,
    /// The last of the texts is the end of the file.
    pub has_end: bool,
    /// Length of the byte order mark at the beginning.
    pub bom_bytes: usize,
    /// What follows it and is skipped since the job says so, and how many lines that are.
    pub skipped_bytes: usize,
    pub skipped_lines: u64,
    /// Where the table begins in the first text, and where its records do if it has a header.
    pub starts: [usize; 2],
    /// The one of these that holds.
    pub data_start: usize,
}

impl Samples {
    /// Where its records begin, once it is known whether there is a header.
    pub fn settle(&mut self, header: Header) {
        self.data_start = self.starts[usize::from(header != Header::None)].min(self.first.len());
    }

    /// The first text, without its byte order mark and what is skipped.
    pub fn text(&self) -> &[u8] {
        &self.first[self.start()..]
    }

    fn start(&self) -> usize {
        (self.bom_bytes + self.skipped_bytes).min(self.first.len())
    }

    /// Whether there is nothing in the file.
    pub fn is_empty(&self) -> bool {
        self.first.len() <= self.bom_bytes
    }

    /// Skips the first lines.
    pub fn skip(&mut self, lines: u64, line_end: LineEnd) {
        let text = &self.first[self.bom_bytes..];
        let mut at = 0;
        for _ in 0..lines {
            if at == text.len() {
                break;
            }
            at = line_end.after(text, at, self.is_whole).unwrap_or(text.len());
        }
        self.skipped_lines = line_end.count(&text[..at]);
        self.skipped_bytes = at;
    }

    /// Takes so many bytes off its end.
    pub fn cut_end(&mut self, bytes: usize) {
        let from = self.start();
        match self.others.last_mut() {
            Some(text) => text.truncate(text.len().saturating_sub(bytes)),
            None => self.first.truncate(self.first.len().saturating_sub(bytes).max(from)),
        }
    }

    /// A whole file's last record needs no line end to be a record.
    #[must_use]
    pub fn with_last_line_ended(mut self) -> Self {
        let last = self.others.last_mut().filter(|_| self.has_end).unwrap_or(&mut self.first);
        if self.has_end && !last.is_empty() && !last.ends_with(b"\n") && !last.ends_with(b"\r") {
            let end: &[u8] = match memchr::memchr2(b'\n', b'\r', last).map(|at| &last[at..]) {
                Some([b'\r', b'\n', ..]) => b"\r\n",
                Some([b'\r', ..]) => b"\r",
                _ => b"\n",
            };
            last.extend_from_slice(end);
        }
        self
    }

    /// The texts cut into rows: the beginning, and what is from further on. The first row of each of
    /// these may have been begun before it.
    pub fn cut(&self, style: &Style) -> (Cuts<'_>, Vec<Cuts<'_>>) {
        let head = Cuts::of(self.text(), self.is_whole, style, usize::MAX);
        let rest = self.others.iter().map(|text| Cuts::of(text, true, style, usize::MAX));
        (head, rest.collect())
    }

    /// Puts a quote before each text from further on that begins within quotes, as far as can be seen:
    /// the reading is taken in which fewer quotes stand where nobody writes them.
    pub fn open_quotes(&mut self, style: &Style) {
        let Some(quote) = style.quote else { return };
        for text in &mut self.others {
            if strange_quotes(text, quote, true, style) < strange_quotes(text, quote, false, style)
            {
                text.insert(0, quote);
            }
        }
    }
}

/// Quotes that open anywhere but at a cell's beginning, or close anywhere but at its end.
fn strange_quotes(text: &[u8], quote: u8, mut inside: bool, style: &Style) -> usize {
    let is_end = |byte: Option<&u8>| byte.is_none_or(|byte| matches!(byte, b'\n' | b'\r'));
    let mut strange = 0;
    for at in memchr::memchr_iter(quote, text) {
        let (is_edge, next) = match inside {
            true => {
                let next = text.get(at + 1);
                (is_end(next) || text[at + 1..].starts_with(&style.delimiter), next)
            }
            false => {
                let before = at.checked_sub(1).and_then(|at| text.get(at));
                (is_end(before) || text[..at].ends_with(&style.delimiter), before)
            }
        };
        // A doubled quote closes and opens again.
        strange += usize::from(!is_edge && next != Some(&quote));
        inside = !inside;
    }
    strange
}

/// Reads the beginning of a file, and of one that can be read anywhere also middle and end.
pub fn sample(file: &SourceFile, bytes: usize) -> Result<Samples> {
    let mut samples = beginning(file, bytes)?;
    if file.is_seekable() && !samples.is_whole {
        let end = file.size.saturating_sub(bytes as u64);
        if file.size / 2 < end {
            samples.others.extend(lines_at(file, file.size / 2, bytes)?);
        }
        end_of(file, end.max(samples.first.len() as u64), &mut samples)?;
    }
    Ok(samples)
}

/// Reads the beginning of a file, and a little of its end.
pub fn glance(file: &SourceFile, bytes: usize, end_bytes: usize) -> Result<Samples> {
    let mut samples = beginning(file, bytes)?;
    if file.is_seekable() && !samples.is_whole {
        let end = file.size.saturating_sub(end_bytes as u64).max(samples.first.len() as u64);
        end_of(file, end, &mut samples)?;
    }
    Ok(samples)
}

fn end_of(file: &SourceFile, at: u64, samples: &mut Samples) -> Result<()> {
    let Some(text) = lines_at(file, at, (file.size - at) as usize)? else { return Ok(()) };
    samples.others.push(text);
    samples.has_end = true;
    Ok(())
}

/// Reads the beginning of a file.
pub fn beginning(file: &SourceFile, bytes: usize) -> Result<Samples> {
    use std::io::Read;
    let mut first = Vec::new();
    let mut stream = match &file.peeked {
        None if file.is_regular => {
            let opened = file.open_range(0..file.size, Pace::Ramp)?;
            let is_plain = file.packing == Packing::Plain && file.encoding.is_none();
            let limit = if is_plain { bytes as u64 + 1 } else { u64::MAX };
            unpack(file, file.packing, Box::new(opened.take(limit)))?
        }
        None => open_stream(file, &Cancellation::default())?,
        Some(peeked) => {
            let begun = std::io::Cursor::new(peeked.first.as_ref().clone());
            unpack(file, file.packing, Box::new(begun))?
        }
    }
    .take(bytes as u64 + 1);
    let read = stream.read_to_end(&mut first);
    // Of a packed pipe only the beginning is at hand: that it breaks off there is no fault.
    let is_begun = file.peeked.as_ref().is_some_and(|peeked| !peeked.is_whole);
    if !is_begun {
        read.map_err(|error| file.broken(error))?;
    }
    let is_whole = first.len() <= bytes && !is_begun;
    first.truncate(bytes);
    if first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff") {
        return Err(Error::Source {
            path: file.path.clone(),
            message: "is UTF-16".into(),
            hint: Some("load it with --encoding utf-16le or utf-16be".into()),
        });
    }
    let bom_bytes = if first.starts_with(UTF8_BOM) { UTF8_BOM.len() } else { 0 };
    Ok(Samples { first, is_whole, has_end: is_whole, bom_bytes, ..Samples::default() })
}

fn open_for_a_look(file: &SourceFile) -> Result<Opened> {
    let opened = file.open()?;
    opened.file().map(read_little);
    Ok(opened)
}

/// Whole lines from somewhere in a file, up to its end if that is reached.
fn lines_at(file: &SourceFile, at: u64, bytes: usize) -> Result<Option<Vec<u8>>> {
    let open = open_for_a_look(file)?;
    let mut text = vec![0; bytes.min((file.size - at) as usize)];
    open.read_exact_at(&mut text, at).map_err(|error| file.unreadable(error))?;
    let is_end = at + text.len() as u64 == file.size;
    let feed = memchr::memchr(b'\n', &text).or_else(|| memchr::memchr(b'\r', &text));
    let Some(feed) = feed else { return Ok(None) };
    text.drain(..=feed);
    if !is_end {
        let last = memchr::memrchr(b'\n', &text).or_else(|| memchr::memrchr(b'\r', &text));
        text.truncate(last.map_or(0, |at| at + 1));
    }
    Ok((!text.is_empty()).then_some(text))
}
