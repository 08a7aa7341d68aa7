//! From separators to rows: every record gets exactly the fields it should have, or is a fault.
//!
//! Nearly every block is *even*: its separators are a matrix of records times fields, and nothing
//! needs to be moved. Otherwise the rows are walked one by one, and what doesn't fit is set aside.

use std::ops::Range;

use super::block::Block;
use super::dialect::{Dialect, Family, LineEnd};
use super::index::{FieldIndex, OFFSET, SPECIAL};
use super::json::JsonFault;
use super::types::ParseShape;
use crate::constants::{BLOCK_PADDING, REJECT_VALUE_BYTES};

/// Why a record can't be a row, whatever its fields say. The words are COPY's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultReason {
    /// The record ends before this field (from 0).
    MissingField(usize),
    ExtraField,
    /// Bytes that are not UTF-8, the first few of them.
    NotUtf8(Vec<u8>),
    Nul,
    UnterminatedQuote,
    /// What follows a closing quote is no delimiter, under strict quotes.
    DataAfterQuote,
    /// The last line end is escaped.
    Unterminated,
    CarriageReturn,
    LineFeed,
    /// A backslash sequence gives bytes that are no text.
    NotText,
    /// `\.` of COPY's text format.
    EndMark,
    /// A value that the type guessed for its column would change, or can't hold.
    Unfit {
        column: usize,
        value: Vec<u8>,
    },
    /// A line that is no JSON object, or has a value that can't be loaded.
    Json(Box<JsonFault>),
}

impl FaultReason {
    /// The sentence for people.
    pub fn message(&self, shape: &ParseShape, file: usize) -> String {
        match self {
            Self::MissingField(place) => {
                format!("missing data for column \"{}\"", shape.name_at(file, *place))
            }
            Self::Unfit { value, .. } => {
                let end = value.len().min(REJECT_VALUE_BYTES);
                let value = String::from_utf8_lossy(&value[..end]);
                format!("{value:?} does not fit as it is written")
            }
            Self::Json(fault) => fault.reason.clone(),
            Self::ExtraField => "extra data after last expected column".into(),
            Self::NotUtf8(bytes) => {
                let hex: Vec<_> = bytes.iter().map(|b| format!("0x{b:02x}")).collect();
                format!("invalid byte sequence for encoding \"UTF8\": {}", hex.join(" "))
            }
            Self::Nul => "invalid byte sequence for encoding \"UTF8\": 0x00".into(),
            Self::UnterminatedQuote => "unterminated CSV quoted field".into(),
            Self::DataAfterQuote => "data follows the closing quote of a field".into(),
            Self::Unterminated => "the last line ends with a backslash".into(),
            Self::CarriageReturn => "unquoted carriage return found in data".into(),
            Self::LineFeed => "unquoted newline found in data".into(),
            Self::NotText => {
                "invalid byte sequence for encoding \"UTF8\" made by a backslash sequence".into()
            }
            Self::EndMark => {
                "\\. is not a value: COPY ends the data there or rejects it; load the lines after \
                 it as a separate file"
                    .into()
            }
        }
    }
}

/// A record that can't be a row: where it stands in the block's text, line end included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub range: Range<usize>,
    pub reason: FaultReason,
}

/// The rows of a block.
///
/// Row `r` has its field `f` between separators `r * stride + f` and `r * stride + f + 1` of
/// [`Rows::separators`].
#[derive(Debug, Default)]
pub struct Rows {
    moved: Vec<u32>,
    is_even: bool,
    pub stride: usize,
    pub count: usize,
    /// Blank lines that were passed over.
    pub blank: u64,
}

impl Rows {
    /// Rows that are known to be even.
    pub fn even(stride: usize, count: usize) -> Self {
        Self { is_even: true, stride, count, ..Self::default() }
    }

    /// Lays out the rows where nothing needs to be moved; false, and nothing done, elsewhere.
    pub fn build_even(
        &mut self,
        block: &Block,
        index: &FieldIndex,
        dialect: &Dialect,
        shape: &ParseShape,
        text_is_clean: bool,
    ) -> bool {
        let per_record = shape.fields + usize::from(dialect.trailing_delimiter);
        let suspicious = !text_is_clean
            || index.ends_in_quotes
            || index.has_carriage_return
            || dialect.line_end == LineEnd::CrLf;
        self.is_even = !suspicious && is_even(block, index, per_record, dialect);
        if self.is_even {
            self.stride = per_record;
            self.count = index.line_ends;
            self.blank = 0;
        }
        self.is_even
    }

    pub fn separators<'a>(&'a self, index: &'a FieldIndex) -> &'a [u32] {
        if self.is_even { &index.separators } else { &self.moved }
    }

    /// Has the fields decoded that are one of these NULL strings.
    pub fn mark_nulls(
        &mut self,
        padded: &[u8],
        index: &mut FieldIndex,
        fields: usize,
        nulls: &[Vec<u8>],
    ) {
        let separators = if self.is_even { &mut index.separators } else { &mut self.moved };
        for row in 0..self.count {
            let its = &mut separators[row * self.stride..][..=fields];
            for at in 1..its.len() {
                let (start, end) =
                    ((its[at - 1] & OFFSET) as usize + 1, (its[at] & OFFSET) as usize);
                let field = &padded[start..end];
                if nulls.iter().any(|null| null == field) {
                    its[at] |= SPECIAL;
                }
            }
        }
    }

    /// Where a row's record stands in the block's text, without its line end.
    pub fn record(&self, index: &FieldIndex, row: usize) -> Range<usize> {
        let separators = self.separators(index);
        let fields = if self.is_even { self.stride } else { self.stride - 1 };
        let start = (separators[row * self.stride] & OFFSET) as usize + 1 - BLOCK_PADDING;
        let end = (separators[row * self.stride + fields] & OFFSET) as usize - BLOCK_PADDING;
        start..end
    }

    /// Lays out the rows one by one; records that can't be rows are appended to `faults`.
    #[cold]
    pub fn build_uneven(
        &mut self,
        block: &Block,
        index: &FieldIndex,
        dialect: &Dialect,
        shape: &ParseShape,
        text_is_clean: bool,
        faults: &mut Vec<Fault>,
    ) {
        // A moved row keeps the place before its first field too, since the row before it may be
        // missing, or end with a carriage return that is no part of it.
        self.stride = shape.fields + usize::from(dialect.trailing_delimiter) + 1;
        (self.count, self.blank) = (0, 0);
        self.moved.clear();
        let padded = block.padded();
        let mut start = 0;
        let mut ended_at = BLOCK_PADDING;
        for at in 1..index.separators.len() {
            let end = (index.separators[at] & OFFSET) as usize;
            if padded[end] != b'\n' {
                continue;
            }
            let record = ended_at..end + 1;
            let fields = &index.separators[start..=at];
            if is_blank(&padded[record.clone()], fields.len() - 1, shape) {
                self.blank += 1;
                (ended_at, start) = (end + 1, at);
                continue;
            }
            match self.accept(padded, fields, &record, dialect, shape, text_is_clean) {
                None => self.count += 1,
                Some(reason) => {
                    let range = record.start - BLOCK_PADDING..record.end - BLOCK_PADDING;
                    faults.push(Fault { range, reason });
                }
            }
            ended_at = end + 1;
            start = at;
        }
        let text_end = BLOCK_PADDING + block.len();
        if ended_at < text_end {
            faults.push(Fault {
                range: ended_at - BLOCK_PADDING..text_end - BLOCK_PADDING,
                reason: match dialect.family {
                    Family::Csv => FaultReason::UnterminatedQuote,
                    Family::Text | Family::Plain | Family::Json | Family::Fixed => {
                        FaultReason::Unterminated
                    }
                },
            });
        }
    }

    /// Takes one record as a row, or says why it can't be one.
    fn accept(
        &mut self,
        padded: &[u8],
        fields: &[u32],
        record: &Range<usize>,
        dialect: &Dialect,
        shape: &ParseShape,
        text_is_clean: bool,
    ) -> Option<FaultReason> {
        let text = &padded[record.clone()];
        if let Some(reason) = text_fault(text, text_is_clean) {
            return Some(reason);
        }
        let separators = fields.len() - 1;
        let mut last = fields[separators];
        match dialect.line_end {
            LineEnd::CrLf if text.ends_with(b"\r\n") => last -= 1,
            LineEnd::CrLf => return Some(FaultReason::LineFeed),
            LineEnd::Lf | LineEnd::Cr | LineEnd::Mixed => {}
        }
        if has_bare_carriage_return(padded, fields, last, dialect) {
            return Some(FaultReason::CarriageReturn);
        }
        let wanted = self.stride - 1;
        if separators > wanted {
            return Some(FaultReason::ExtraField);
        }
        if separators < wanted {
            // Of one column it is seen when the field is decoded.
            if dialect.family == Family::Text && text.trim_ascii_end() == b"\\." {
                return Some(FaultReason::EndMark);
            }
            return Some(FaultReason::MissingField(separators.min(shape.fields - 1)));
        }
        if dialect.trailing_delimiter && !ends_with_delimiter(fields[separators - 1], last) {
            return Some(FaultReason::ExtraField);
        }
        self.moved.push(record.start as u32 - 1);
        self.moved.extend_from_slice(&fields[1..separators]);
        self.moved.push(last);
        None
    }
}

/// Why a record is no text, where it is none; `is_clean` says that all of its block is.
pub(super) fn text_fault(record: &[u8], is_clean: bool) -> Option<FaultReason> {
    if is_clean {
        return None;
    }
    if memchr::memchr(0, record).is_some() {
        return Some(FaultReason::Nul);
    }
    let error = std::str::from_utf8(record).err()?;
    let bad = &record[error.valid_up_to()..];
    let length = error.error_len().unwrap_or(bad.len()).clamp(1, 4);
    Some(FaultReason::NotUtf8(bad[..length.min(bad.len())].to_vec()))
}

/// Whether a record of so many fields is a blank line, which is passed over. In a table of one column it
/// is a value, as it is for COPY.
pub(super) fn is_blank(record: &[u8], fields: usize, shape: &ParseShape) -> bool {
    fields == 1 && shape.fields > 1 && record.trim_ascii().is_empty()
}

/// Whether nothing stands between the last delimiter and the line end.
fn ends_with_delimiter(last_delimiter: u32, line_end: u32) -> bool {
    (last_delimiter & OFFSET) + 1 == line_end & OFFSET
}

/// A carriage return outside quotes that is not part of the line end.
fn has_bare_carriage_return(padded: &[u8], fields: &[u32], last: u32, dialect: &Dialect) -> bool {
    let start = (fields[0] & OFFSET) as usize + 1;
    let mut rest = &padded[start.min((last & OFFSET) as usize)..(last & OFFSET) as usize];
    if memchr::memchr(b'\r', rest).is_none() {
        return false;
    }
    match dialect.family {
        Family::Plain | Family::Json | Family::Fixed => true,
        Family::Text => {
            while let Some(at) = memchr::memchr2(b'\\', b'\r', rest) {
                if rest[at] == b'\r' {
                    return true;
                }
                rest = &rest[(at + 2).min(rest.len())..];
            }
            false
        }
        Family::Csv => {
            let (mut inside, mut escaped) = (false, false);
            for byte in rest {
                if inside && *byte == dialect.escape && !dialect.quote_is_doubled() {
                    escaped = !escaped;
                    continue;
                }
                if *byte == dialect.quote && !escaped {
                    inside = !inside;
                }
                escaped = false;
                if *byte == b'\r' && !inside {
                    return true;
                }
            }
            false
        }
    }
}

/// Whether every record has just as many separators as it should, the last of them its line end.
fn is_even(block: &Block, index: &FieldIndex, per_record: usize, dialect: &Dialect) -> bool {
    let separators = &index.separators;
    if separators.len() - 1 != index.line_ends * per_record {
        return false;
    }
    let padded = block.padded();
    // Nothing may stand after the last record: it would be passed over.
    let last = (separators[separators.len() - 1] & OFFSET) as usize;
    if last + 1 != BLOCK_PADDING + block.len() {
        return false;
    }
    // As many line ends as records, each at its record's end: so none stands elsewhere.
    let line_ends = separators[1..].chunks_exact(per_record);
    line_ends.into_iter().all(|record| {
        let last = record[per_record - 1];
        padded[(last & OFFSET) as usize] == b'\n'
            && (!dialect.trailing_delimiter
                || per_record < 2
                || ends_with_delimiter(record[per_record - 2], last))
    })
}
