//! Proposes a schema: for each column the narrowest type that all sampled values have, wide enough
//! for values of the same kind that come later.
//!
//! One odd value among thousands does not make a column text: a type that nearly all values have is
//! proposed, and how many don't fit is said. Such values are rejects then, each with its reason, and
//! not a column of numbers that was silently loaded as text.

#[cfg(test)]
mod tests;

use crate::constants::{INFER_ODD_PERCENT_MAX, INFER_ODD_VALUES_FROM, SAMPLED_VALUE_SHOWN_BYTES};
use crate::parse::dialect::{Dialect, Family};
use crate::parse::reference::{Record, records};
use crate::parse::types::FieldType;
use crate::parse::{floats, numbers, temporal, text};

/// A column and the type it seems to have.
#[derive(Debug, Clone)]
pub struct InferredColumn {
    pub name: String,
    pub field_type: FieldType,
    pub is_nullable: bool,
    /// Why, in a few words.
    pub because: String,
    /// Sampled values that are not of the type, where there are any, and one of them.
    pub odd: Option<(u64, String)>,
}

/// A kind of value and how it is recognised. Order matters: the first that fits all values wins.
type Kind = (FieldType, &'static str, fn(&[u8]) -> bool);

const KINDS: [Kind; 9] = [
    (FieldType::Boolean, "words for true and false", |v| {
        matches!(v, b"t" | b"f" | b"true" | b"false" | b"TRUE" | b"FALSE" | b"True" | b"False")
    }),
    (FieldType::Int64, "whole numbers", |v| !is_code(v) && is_int64(v)),
    (FieldType::NumericText { limits: None }, "decimal numbers", |v| {
        !is_code(v) && numbers::is_plain_decimal(v, None)
    }),
    (FieldType::Float64, "numbers with exponents", |v| !is_code(v) && floats::float64(v).is_some()),
    (FieldType::Date, "dates", |v| temporal::date(v).is_some()),
    (FieldType::Timestamp, "dates with a time", |v| temporal::timestamp(v).is_some()),
    (FieldType::TimestampTz { zoneless_is_utc: false }, "dates with time and zone", |v| {
        temporal::timestamp_tz(v, true).is_some()
    }),
    (FieldType::Time, "times", |v| temporal::time(v).is_some()),
    (FieldType::Uuid, "UUIDs", |v| text::uuid(v).is_some()),
];

fn is_int64(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok_and(|v| !v.starts_with('+') && v.parse::<i64>().is_ok())
}

/// `00123` and `+4930123` are codes, not numbers: they would lose their zeros and their sign.
fn is_code(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.strip_prefix(b"+").is_some_and(is_number)
        || digits.len() > 1 && digits[0] == b'0' && digits[1].is_ascii_digit()
}

/// What the samples of one column hold.
#[derive(Default)]
struct Seen {
    values: u64,
    has_nulls: bool,
    /// Digits that are a code: a type of numbers would take them, and change them.
    has_codes: bool,
    /// For each kind, how many values are of it, and the first that is not.
    fits: [u64; KINDS.len()],
    odd: [Option<Vec<u8>>; KINDS.len()],
}

impl Seen {
    fn take(&mut self, value: Option<Vec<u8>>) {
        let Some(value) = value else {
            self.has_nulls = true;
            return;
        };
        self.values += 1;
        self.has_codes |= is_code(&value);
        for (kind, (_, _, is)) in KINDS.iter().enumerate() {
            if is(&value) {
                self.fits[kind] += 1;
            } else if self.odd[kind].is_none() {
                self.odd[kind] = Some(value.clone());
            }
        }
    }

    /// The kind to propose: the first that all values are of, else the one that nearly all are of.
    fn kind(&self) -> Option<usize> {
        let all = (0..KINDS.len()).find(|kind| self.fits[*kind] == self.values);
        all.or_else(|| {
            let enough = self.values >= INFER_ODD_VALUES_FROM;
            (0..KINDS.len()).find(|kind| {
                let odd = self.values - self.fits[*kind];
                enough
                    && odd * 100 <= self.values * INFER_ODD_PERCENT_MAX
                    && !(self.has_codes && is_number(&KINDS[*kind].0))
            })
        })
    }

    fn column(mut self, name: &str) -> InferredColumn {
        let name = name.to_owned();
        let is_nullable = self.has_nulls || self.values == 0;
        let values = self.values;
        let Some(kind) = self.kind().filter(|_| values > 0) else {
            let what = if values == 0 { "text: no value was seen" } else { "text" };
            let because = format!("{what}, from {values} sampled values");
            return InferredColumn {
                name,
                field_type: FieldType::text(),
                is_nullable,
                because,
                odd: None,
            };
        };
        let (field_type, what, _) = &KINDS[kind];
        let count = values - self.fits[kind];
        let odd = self.odd[kind].take().map(|mut value| {
            value.truncate(SAMPLED_VALUE_SHOWN_BYTES);
            (count, String::from_utf8_lossy(&value).into_owned())
        });
        let because = match &odd {
            None => format!("{what}, from {values} sampled values"),
            Some((count, value)) => {
                format!("{what}, from {values} sampled values; {count} are not, such as {value:?}")
            }
        };
        InferredColumn { name, field_type: field_type.clone(), is_nullable, because, odd }
    }
}

/// `col=text` for --type, quoted for a shell where it must be.
pub fn option_text(column: &str) -> String {
    let is_plain = column.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if is_plain {
        format!("{column}=text")
    } else {
        format!("'{}=text'", column.replace('\'', "'\\''"))
    }
}

fn is_number(field_type: &FieldType) -> bool {
    matches!(field_type, FieldType::Int64 | FieldType::NumericText { .. } | FieldType::Float64)
}

/// A sample of a source: text, and where in the file it stood.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    pub text: &'a [u8],
    /// It begins with a header.
    pub has_header: bool,
    /// It begins somewhere in the file, perhaps within quotes.
    pub is_from_within: bool,
}

/// Infers the columns from samples of records, but for those whose type is given, which the samples
/// are not asked for.
pub fn infer(
    names: &[String],
    is_given: impl Fn(&str) -> bool,
    samples: &[Sample<'_>],
    dialect: &Dialect,
) -> Vec<Option<InferredColumn>> {
    let mut seen: Vec<Option<Seen>> =
        names.iter().map(|name| (!is_given(name)).then(Seen::default)).collect();
    let samples = if seen.iter().all(Option::is_none) { &[] } else { samples };
    for sample in samples {
        for record in read(sample, dialect, names.len()) {
            // A record that is none, or was cut at the sample's end, says nothing.
            let Record::Fields(fields) = record else { continue };
            for (seen, value) in seen.iter_mut().zip(fields) {
                if let Some(seen) = seen {
                    seen.take(value);
                }
            }
        }
    }
    seen.into_iter().zip(names).map(|(seen, name)| seen.map(|seen| seen.column(name))).collect()
}

/// The records of a sample. Whether one from within begins inside quotes is not known: the reading
/// is taken in which fewer quotes stand where nobody writes them.
fn read(sample: &Sample<'_>, dialect: &Dialect, fields: usize) -> Vec<Record> {
    let mut skipped = usize::from(sample.has_header);
    let mut text = std::borrow::Cow::Borrowed(sample.text);
    let strange = |inside| strange_quotes(sample.text, inside, dialect);
    if sample.is_from_within && dialect.family == Family::Csv && strange(true) < strange(false) {
        text.to_mut().insert(0, dialect.quote);
        // The first record was begun before the sample.
        skipped = 1;
    }
    records(&text, dialect, fields).into_iter().skip(skipped).collect()
}

/// Quotes that open anywhere but at a field's beginning, or close anywhere but at its end.
fn strange_quotes(text: &[u8], mut inside: bool, dialect: &Dialect) -> usize {
    let is_edge = |byte: Option<&u8>| {
        byte.is_none_or(|byte| *byte == dialect.delimiter || matches!(byte, b'\n' | b'\r'))
    };
    let mut strange = 0;
    for at in memchr::memchr_iter(dialect.quote, text) {
        let before = at.checked_sub(1).and_then(|at| text.get(at));
        let edge = if inside { text.get(at + 1) } else { before };
        // A doubled quote closes and opens again.
        let is_doubled = edge == Some(&dialect.quote);
        strange += usize::from(!is_edge(edge) && !is_doubled);
        inside = !inside;
    }
    strange
}
