//! Keys of the sources, for pieces that become RANGE partitions.
//!
//! A key is held as a whole number of its type's smallest unit (days, microseconds, units of the
//! last decimal place), so that "the next key" is one more, whatever the type. [`edges`] reads the
//! keys at the cuts of sorted text; [`scan`] reads all keys of a stretch of any source;
//! [`ranges`] takes row groups' ranges from Parquet's statistics where they are exact.

pub mod edges;
pub mod ranges;
pub mod scan;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, Date32Array, Decimal128Array, TimestampMicrosecondArray};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, TimeUnit};
use fullbore_parse::Parser;
use fullbore_parse::block::Block;
use fullbore_parse::dialect::Dialect;
use fullbore_parse::types::{FieldType, ParseColumn, ParseShape};
use fullbore_read::FileRange;
use fullbore_read::error::{Error, Result};

/// A key by its order: units of its type.
pub type Key = i128;

/// A stretch of a source and the keys in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyStretch {
    /// Bytes of text (after decompression), or rows of a Parquet file.
    pub range: FileRange,
    pub bytes: u64,
    pub first: Key,
    pub last: Key,
    /// All keys were read, or are known from statistics; else the stretch is believed to be sorted
    /// and is held to its range while it is loaded.
    pub is_exact: bool,
}

/// The column that a table is partitioned by, and how its keys are read and written.
#[derive(Debug, Clone)]
pub struct KeyColumn {
    pub name: String,
    pub field_type: FieldType,
    /// A record's shape with nothing but the key.
    pub shape: Arc<ParseShape>,
    /// What the destination rounds keys to: more than one for moments with fewer digits than
    /// microseconds.
    pub unit: Key,
}

/// 2000-01-01, from where the server counts and rounds, in microseconds from where we count.
const ROUNDED_FROM: Key = 946_684_800_000_000;

impl KeyColumn {
    /// Refuses keys whose order is not known here.
    pub fn new(shape: &ParseShape, name: &str) -> Result<Self> {
        let Some(key) = shape.columns.iter().find(|candidate| candidate.name == name) else {
            return Err(Error::usage_with_hint(
                format!("the key {name:?} is not among the loaded columns"),
                "load it too, with --columns, or load with --publish append",
            ));
        };
        if key.field >= shape.field_names.len() {
            return Err(Error::usage_with_hint(
                format!(
                    "the key {name:?} is filled in during the load (--lineage, or folder names)"
                ),
                "partition by a column of the files, or load with --publish append",
            ));
        }
        let ordered = matches!(
            key.field_type,
            FieldType::Int16
                | FieldType::Int32
                | FieldType::Int64
                | FieldType::Date
                | FieldType::Timestamp
                | FieldType::TimestampTz { .. }
                | FieldType::Decimal { .. }
        );
        if key.field == usize::MAX {
            return Err(Error::usage_with_hint(
                format!(
                    "partition key {name:?} is computed, so its ranges can't be found in the files"
                ),
                "partition by a field of the files, or load with --publish append or replace",
            ));
        }
        if !ordered {
            return Err(Error::usage_with_hint(
                format!("{name:?} has a type whose ranges can't be found in the files"),
                "partition by a number, date or timestamp, or load with --publish append",
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            field_type: key.field_type.clone(),
            shape: Arc::new(ParseShape { columns: vec![key.clone()], ..shape.clone() }),
            unit: 1,
        })
    }

    /// The same for a column that keeps so many digits of a second.
    #[must_use]
    pub fn with_second_digits(self, digits: u32) -> Self {
        Self { unit: 10_i128.pow(6_u32.saturating_sub(digits)), ..self }
    }

    /// A key as the destination stores it: to the nearest unit, a half away from 2000-01-01 (see
    /// `AdjustTimestampForTypmod` in PostgreSQL's timestamp.c).
    pub fn stored(&self, key: Key) -> Key {
        if self.unit == 1 {
            return key;
        }
        let (key, half) = (key - ROUNDED_FROM, self.unit / 2);
        let rounded = (key.abs() + half) / self.unit * self.unit;
        rounded * key.signum() + ROUNDED_FROM
    }

    /// The smallest key of a file that is stored as this one, or as one after it.
    pub fn first_stored_as(&self, key: Key) -> Key {
        let half = self.unit / 2;
        match self.unit {
            1 => key,
            _ if key > ROUNDED_FROM => key - half,
            _ => key - half + 1,
        }
    }

    /// Calls `take` with each row's key as it is stored, `None` for NULL, until it says that it has
    /// enough.
    pub fn each(&self, column: &dyn Array, mut take: impl FnMut(usize, Option<Key>) -> bool) {
        each_key(column, |row, key| take(row, key.map(|key| self.stored(key))));
    }

    /// The key as people and the destination write it.
    pub fn text(&self, key: Key) -> String {
        let array: ArrayRef = match (self.field_type.arrow(), self.narrow(key)) {
            (DataType::Date32, Some(days)) => Arc::new(Date32Array::from(vec![days as i32])),
            (DataType::Timestamp(_, zone), Some(microseconds)) => {
                let array = TimestampMicrosecondArray::from(vec![microseconds]);
                // A zone is shown only where it is an offset.
                Arc::new(array.with_timezone_opt(zone.map(|_| "+00:00")))
            }
            (DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale), _) => {
                let array = Decimal128Array::from(vec![key]).with_precision_and_scale(38, scale);
                Arc::new(array.expect("a scale is within 38 digits"))
            }
            _ => return key.to_string(),
        };
        let text = array_value_to_string(&array, 0).unwrap_or_else(|_| key.to_string());
        // Years of five digits get a plus sign, which servers take for a zone.
        text.strip_prefix('+').map_or(text.clone(), str::to_owned)
    }

    fn narrow(&self, key: Key) -> Option<i64> {
        let key = i64::try_from(key).ok()?;
        let is_days = self.field_type == FieldType::Date;
        (!is_days || i32::try_from(key).is_ok()).then_some(key)
    }

    /// The key behind a text, as the destination writes it; `None` for what is no plain value
    /// (`infinity`).
    pub fn of_text(&self, text: &str) -> Option<Key> {
        let column = ParseColumn {
            name: self.name.clone(),
            field: 0,
            field_type: self.field_type.clone(),
            guess: None,
        };
        let shape = ParseShape::of_one(column);
        let block = Block::of(format!("{text}\n").as_bytes());
        let batch = Parser::new(Dialect::text(), Arc::new(shape)).parse(&block).batch;
        if batch.num_rows() != 1 {
            return None;
        }
        let mut key = None;
        self.each(batch.column(0), |_, found| {
            key = found;
            true
        });
        key
    }

    /// The smallest key that the column's type can't hold, for which there is no literal.
    pub fn limit(&self) -> Key {
        match self.field_type {
            FieldType::Int16 => Key::from(i16::MAX) + 1,
            FieldType::Int32 => Key::from(i32::MAX) + 1,
            FieldType::Decimal { precision, .. } => 10_i128.pow(precision.into()),
            _ => Key::from(i64::MAX) + 1,
        }
    }
}

/// Calls `take` with each row's key as the file has it, `None` for NULL, until it says that it has enough.
pub fn each_key(column: &dyn Array, mut take: impl FnMut(usize, Option<Key>) -> bool) {
    macro_rules! walk {
        ($type:ty) => {{
            let values = column.as_primitive::<$type>();
            for (row, value) in values.values().iter().enumerate() {
                let key = values.is_valid(row).then_some(Key::from(*value));
                if take(row, key) {
                    return;
                }
            }
        }};
    }
    match column.data_type() {
        DataType::Int16 => walk!(Int16Type),
        DataType::Int32 => walk!(Int32Type),
        DataType::Int64 => walk!(Int64Type),
        DataType::Date32 => walk!(Date32Type),
        DataType::Timestamp(TimeUnit::Microsecond, _) => walk!(TimestampMicrosecondType),
        DataType::Decimal64(..) => walk!(Decimal64Type),
        DataType::Decimal128(..) => walk!(Decimal128Type),
        other => unreachable!("{other} was refused as a key"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(field_type: FieldType) -> KeyColumn {
        let key = ParseColumn { name: "k".into(), field: 0, field_type, guess: None };
        KeyColumn::new(&ParseShape::of_one(key), "k").expect("ordered")
    }

    #[test]
    fn keys_are_written_as_they_are_read() {
        let decimal = |precision, scale| FieldType::Decimal { precision, scale };
        for (field_type, texts) in [
            (FieldType::Int16, &["-32768", "0", "32767"][..]),
            (FieldType::Int64, &["-9223372036854775808", "9223372036854775807"]),
            (FieldType::Date, &["1992-01-01", "0004-02-29", "2024-12-31"]),
            (FieldType::Timestamp, &["2024-01-01T00:00:00", "1969-12-31T23:59:59.999999"]),
            (FieldType::TimestampTz { zoneless_is_utc: true }, &["2024-01-01T00:00:00Z"]),
            (decimal(15, 2), &["-0.01", "12345.67", "9999999999999.99"]),
            (decimal(38, 0), &["99999999999999999999999999999999999999"]),
        ] {
            let column = column(field_type);
            for text in texts {
                let key = column.of_text(text).unwrap_or_else(|| panic!("{text} is no key"));
                assert_eq!(column.text(key), *text);
                assert!(key < column.limit());
            }
        }
        assert_eq!(column(FieldType::Date).of_text("infinity"), None);
        assert_eq!(column(FieldType::Int16).of_text("32768"), None);
    }

    #[test]
    fn keys_are_rounded_as_the_server_rounds_them() {
        let seconds = column(FieldType::Timestamp).with_second_digits(0);
        for (text, stored) in [
            ("2024-01-01 00:00:00.499999", "2024-01-01T00:00:00"),
            ("2024-01-01 00:00:00.5", "2024-01-01T00:00:01"),
            ("1999-12-31 23:59:58.5", "1999-12-31T23:59:58"),
            ("1999-12-31 23:59:58.500001", "1999-12-31T23:59:59"),
            ("1999-12-31 23:59:59.7", "2000-01-01T00:00:00"),
            ("2000-01-01 00:00:00.4", "2000-01-01T00:00:00"),
        ] {
            assert_eq!(seconds.text(seconds.of_text(text).expect("a key")), stored, "{text}");
        }
        for stored in ["2024-01-01 00:00:00", "2000-01-01 00:00:00", "1999-12-31 23:59:58"] {
            let key = seconds.of_text(stored).expect("a key");
            let first = seconds.first_stored_as(key);
            assert_eq!(
                (seconds.stored(first), seconds.stored(first - 1)),
                (key, key - seconds.unit)
            );
        }
    }

    #[test]
    fn the_next_key_is_one_more() {
        let next = |field_type, text: &str| {
            let column = column(field_type);
            column.text(column.of_text(text).expect("a key") + 1)
        };
        assert_eq!(next(FieldType::Date, "2024-02-28"), "2024-02-29");
        assert_eq!(next(FieldType::Decimal { precision: 5, scale: 2 }, "9.99"), "10.00");
        assert_eq!(next(FieldType::Date, "9999-12-31"), "10000-01-01");
        assert_eq!(next(FieldType::Timestamp, "2024-01-01 00:00:00"), "2024-01-01T00:00:00.000001");
    }
}
