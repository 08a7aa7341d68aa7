//! Proposes a schema: for each column the narrowest type that all sampled values have, wide enough
//! for values of the same kind that come later.
//!
//! A type is proposed only if it preserves every sampled value's digits. Otherwise the column is text,
//! which loses nothing, and the plan reports why. A later value that does not fit is rejected
//! ([`gives_back`]).

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use fullbore_parse::dialect::Dialect;
use fullbore_parse::fixed;
use fullbore_parse::guess::{gives_back, is_code};
use fullbore_parse::json::{each_key, text_of};
use fullbore_parse::types::FieldType;
use fullbore_read::sniff::cut::{Cuts, Style};
use fullbore_read::sniff::kind::{Kind, is_null_word};
use fullbore_read::sniff::samples::Samples;

use crate::constants::{INFER_ODD_PERCENT_MAX, INFER_ODD_VALUES_FROM, SAMPLED_VALUE_SHOWN_BYTES};
use crate::plan::look::json::each_line;

/// A column and the type it seems to have.
#[derive(Debug, Clone)]
pub struct InferredColumn {
    pub name: String,
    pub field_type: FieldType,
    pub is_nullable: bool,
    /// Digits after the point, at most.
    pub fraction: u8,
    /// Why, in a few words.
    pub because: String,
    /// What kept the column from another type, if little did.
    pub spoilt: Option<Spoilt>,
    /// A number or date of a text column that stands there in a country's way, and that it does.
    pub local: Option<String>,
}

/// What keeps a column from a type that nearly all of its values have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spoilt {
    pub field_type: FieldType,
    pub by: SpoiltBy,
}

/// The values that are not of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpoiltBy {
    /// Words that stand for no value.
    NullWords(Vec<String>),
    /// So many others, such as this one.
    Values(u64, String),
}

/// The types that are proposed, and what their values are called. Order matters: the first that all
/// values have wins.
const TYPES: [(FieldType, &str); 9] = [
    (FieldType::Boolean, "words for true and false"),
    (FieldType::Int64, "whole numbers"),
    (FieldType::NumericText { limits: None }, "decimal numbers"),
    (FieldType::Float64, "numbers with exponents"),
    (FieldType::Date, "dates"),
    (FieldType::Timestamp, "dates with a time"),
    (FieldType::TimestampTz { zoneless_is_utc: false }, "dates with time and zone"),
    (FieldType::Time, "times"),
    (FieldType::Uuid, "UUIDs"),
];

/// Words for no value that are told apart.
const NULL_WORDS_MAX: usize = 4;

/// What the samples of one column hold.
#[derive(Default)]
struct Seen {
    values: u64,
    has_nulls: bool,
    /// Words that stand for no value, and how often.
    null_words: BTreeMap<Vec<u8>, u64>,
    /// For each type, how many values it gives back, and the first that it does not.
    fits: [u64; TYPES.len()],
    /// Digits after the point, at most.
    fraction: usize,
    odd: [Option<Vec<u8>>; TYPES.len()],
    /// Objects or arrays stand among them.
    is_nested: bool,
    /// The first value of a kind that stays text although it looks like more.
    code: Option<Vec<u8>>,
    local_number: Option<Vec<u8>>,
    local_date: Option<Vec<u8>>,
}

impl Seen {
    fn take(&mut self, value: Option<&[u8]>) {
        self.take_as(value, |_| true);
    }

    /// Takes a value that only some types may hold.
    fn take_as(&mut self, value: Option<&[u8]>, may_be: impl Fn(&FieldType) -> bool) {
        let Some(value) = value else {
            self.has_nulls = true;
            return;
        };
        self.values += 1;
        let point = memchr::memrchr(b'.', value);
        self.fraction = self.fraction.max(point.map_or(0, |at| value.len() - at - 1));
        if is_null_word(value) || value.trim_ascii().is_empty() {
            *self.null_words.entry(value.to_vec()).or_default() += 1;
        }
        let mut fits_any = false;
        for (place, (field_type, _)) in TYPES.iter().enumerate() {
            if may_be(field_type) && gives_back(field_type, value) {
                self.fits[place] += 1;
                fits_any = true;
            } else if self.odd[place].is_none() {
                self.odd[place] = Some(value.to_vec());
            }
        }
        if fits_any {
            return;
        }
        let kept = match Kind::of(value) {
            Kind::LocalDate => &mut self.local_date,
            Kind::LocalNumber => &mut self.local_number,
            _ if is_code(value) => &mut self.code,
            _ => return,
        };
        kept.get_or_insert_with(|| value.to_vec());
    }

    fn take_json(&mut self, value: &str) {
        use FieldType::{Boolean, Float64, Int64, NumericText};
        let is_scalar =
            |kind: &FieldType| matches!(kind, Boolean | Int64 | NumericText { .. } | Float64);
        match value.as_bytes().first() {
            Some(b'n') => self.take(None),
            Some(b'{' | b'[') => {
                self.values += 1;
                self.is_nested = true;
            }
            Some(b'"') => {
                let text = text_of(value).unwrap_or_default();
                self.take_as(Some(text.as_bytes()), |kind| !is_scalar(kind));
            }
            _ => self.take_as(Some(value.as_bytes()), is_scalar),
        }
    }

    fn json_column(self, name: &str) -> InferredColumn {
        if !self.is_nested {
            // Which words stand for NULL is not for JSON to say.
            return InferredColumn { spoilt: None, is_nullable: true, ..self.column(name) };
        }
        InferredColumn {
            name: name.to_owned(),
            field_type: FieldType::Jsonb,
            is_nullable: true,
            fraction: 0,
            because: format!("objects or arrays, from {} sampled values", self.values),
            spoilt: None,
            local: None,
        }
    }

    /// The first type that so many values are of.
    fn type_of(&self, values: u64) -> Option<usize> {
        (0..TYPES.len()).find(|place| values > 0 && self.fits[*place] == values)
    }

    fn spoilt(&self) -> Option<Spoilt> {
        let words: u64 = self.null_words.values().sum();
        if words > 0
            && self.null_words.len() <= NULL_WORDS_MAX
            && let Some(place) = self.type_of(self.values - words)
        {
            let words = self.null_words.keys().map(|word| text(word)).collect();
            let by = SpoiltBy::NullWords(words);
            return Some(Spoilt { field_type: TYPES[place].0.clone(), by });
        }
        let odd = |place: &usize| self.values - self.fits[*place];
        let place = (0..TYPES.len()).find(|place| {
            self.values >= INFER_ODD_VALUES_FROM
                && odd(place) * 100 <= self.values * INFER_ODD_PERCENT_MAX
        })?;
        let value = self.odd[place].as_ref().map(|value| shown(value))?;
        let by = SpoiltBy::Values(odd(&place), value);
        Some(Spoilt { field_type: TYPES[place].0.clone(), by })
    }

    fn column(self, name: &str) -> InferredColumn {
        let name = name.to_owned();
        let is_nullable = self.has_nulls || self.values == 0;
        let values = self.values;
        let fraction = self.fraction.min(u8::MAX.into()) as u8;
        if let Some(place) = self.type_of(values) {
            let (field_type, what) = &TYPES[place];
            let because = format!("{what}, from {values} sampled values");
            let field_type = field_type.clone();
            let (spoilt, local) = (None, None);
            return InferredColumn {
                name,
                field_type,
                is_nullable,
                fraction,
                because,
                spoilt,
                local,
            };
        }
        let spoilt = self.spoilt();
        let date = match self.local_date.as_deref() {
            Some([b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', ..]) => {
                "is not a date of the form YYYY-MM-DD"
            }
            _ => "is a date whose order depends on the country",
        };
        let with = |value: &Option<Vec<u8>>, why| {
            value.as_ref().map(|value| format!("{:?} {why}", shown(value)))
        };
        let local = with(&self.local_number, "is written as a country writes numbers")
            .or_else(|| with(&self.local_date, date));
        let why = with(&self.code, "has a sign or zeros that a number would lose");
        let why = why.or_else(|| local.clone()).map_or(String::new(), |why| format!("; {why}"));
        let what = if values == 0 { "text: no value was seen" } else { "text" };
        let because = format!("{what}, from {values} sampled values{why}");
        let field_type = FieldType::text();
        InferredColumn { name, field_type, is_nullable, fraction, because, spoilt, local }
    }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn shown(value: &[u8]) -> String {
    text(&value[..value.len().min(SAMPLED_VALUE_SHOWN_BYTES)])
}

/// What the values of a type that is proposed are called.
pub fn values_of(field_type: &FieldType) -> &'static str {
    TYPES.iter().find(|(known, _)| known == field_type).map_or("values", |(_, what)| what)
}

/// `col=type` for --type, quoted for a shell where it must be.
pub fn type_option(column: &str, type_name: &str) -> String {
    for_shell(&format!("{column}={type_name}"))
}

/// `--null` for each string that is NULL already, and for those that are to be, quoted for a shell where
/// they must be.
pub fn null_options(known: &[&[u8]], more: &[&str]) -> String {
    let known = known.iter().map(|null| text(null));
    let all = known.chain(more.iter().map(|null| (*null).to_owned()));
    let options: Vec<String> = all.map(|null| format!("--null {}", for_shell(&null))).collect();
    options.join(" ")
}

fn for_shell(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '=' | '/' | ':');
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Infers the columns of JSON lines, by their keys, but for those whose type is given. A string stays text
/// unless it is a date, a time or a UUID, which JSON has no form of its own for.
pub fn infer_keys(
    names: &[String],
    keys: &[String],
    is_given: impl Fn(&str) -> bool,
    samples: &[Samples],
) -> Vec<Option<InferredColumn>> {
    let mut seen: Vec<Option<Seen>> =
        names.iter().map(|name| (!is_given(name)).then(Seen::default)).collect();
    let places: HashMap<&str, usize> =
        keys.iter().enumerate().map(|(place, key)| (key.as_str(), place)).collect();
    for sample in samples {
        each_line(sample, |line| {
            // What is no object says nothing.
            let _ = each_key(line, |key, value| {
                let place = places.get(key);
                if let Some(seen) = place.and_then(|place| seen[*place].as_mut()) {
                    seen.take_json(value);
                }
                Ok(())
            });
        });
    }
    seen.into_iter()
        .zip(names)
        .map(|(seen, name)| seen.map(|seen| seen.json_column(name)))
        .collect()
}

/// Infers the columns of fixed-width text, but for those whose type is given.
pub fn infer_fixed(
    names: &[String],
    is_given: impl Fn(&str) -> bool,
    samples: &[Samples],
    dialect: &Dialect,
) -> Vec<Option<InferredColumn>> {
    let mut seen: Vec<Option<Seen>> =
        names.iter().map(|name| (!is_given(name)).then(Seen::default)).collect();
    for sample in samples {
        each_line(sample, |line| {
            let mut values = Vec::new();
            // What is no record says nothing.
            if fixed::fields(line.trim_end_matches('\r'), dialect, &mut values).is_err() {
                return;
            }
            for (seen, value) in seen.iter_mut().zip(values) {
                if let Some(seen) = seen {
                    seen.take(value.map(str::as_bytes));
                }
            }
        });
    }
    let columns = seen.into_iter().zip(names);
    columns.map(|(seen, name)| seen.map(|seen| seen.column(name))).collect()
}

/// A sample of a source: text, and where in the file it stood.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    pub text: &'a [u8],
    /// It begins somewhere in the file: its first row may have been begun before it.
    pub is_from_within: bool,
    /// Where each field of the first file stands in it, if the order is another.
    pub order: Option<&'a [usize]>,
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
    let style = Style::of(dialect);
    for sample in samples {
        // What is cut off at the sample's end says nothing.
        let cuts = Cuts::of(sample.text, false, &style, usize::MAX);
        for row in cuts.rows.iter().skip(usize::from(sample.is_from_within)) {
            // Nor does a record that is none.
            if row.width() != names.len() || std::str::from_utf8(cuts.whole_line(row)).is_err() {
                continue;
            }
            let cells = cuts.cells(row);
            for (field, seen) in seen.iter_mut().enumerate() {
                let Some(seen) = seen else { continue };
                let cell = &cells[sample.order.map_or(field, |order| order[field])];
                seen.take(cuts.field(cell, dialect.nulls()).as_deref());
            }
        }
    }
    seen.into_iter().zip(names).map(|(seen, name)| seen.map(|seen| seen.column(name))).collect()
}
