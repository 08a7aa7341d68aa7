//! Columns whose values are looked up or rounded for a whole batch before rows are written.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Time64MicrosecondType, TimestampMicrosecondType};
use arrow_buffer::NullBuffer;

use super::layout::{Form, Labels, LayoutColumn};
use crate::encode_copy::EPOCH_MICROSECONDS;

/// What a column's values are turned into before rows are written.
pub enum Prepared {
    AsTheyAre,
    /// Object ids; 0 for a label that the server did not tell.
    Labels(Vec<u32>),
    Rounded(Vec<i64>),
}

impl Prepared {
    pub fn new(layout: &LayoutColumn, array: &dyn Array) -> Self {
        match &layout.form {
            Form::Enum(labels) => Self::Labels(label_oids(labels, array)),
            Form::Time { unit } if *unit > 1 => {
                let values = array.as_primitive::<Time64MicrosecondType>().values();
                Self::Rounded(values.iter().map(|value| rounded(*value, *unit)).collect())
            }
            Form::Timestamp { unit } if *unit > 1 => {
                let values = array.as_primitive::<TimestampMicrosecondType>().values();
                let since_2000 = |value: &i64| value.wrapping_sub(EPOCH_MICROSECONDS);
                Self::Rounded(values.iter().map(|v| rounded(since_2000(v), *unit)).collect())
            }
            _ => Self::AsTheyAre,
        }
    }

    /// Whether a row has a value that can't be laid out here.
    pub fn is_unknown(&self, row: usize, nulls: Option<&NullBuffer>) -> bool {
        match self {
            Self::Labels(oids) => oids[row] == 0 && nulls.is_none_or(|nulls| nulls.is_valid(row)),
            _ => false,
        }
    }
}

fn label_oids(labels: &Labels, array: &dyn Array) -> Vec<u32> {
    let array = array.as_string::<i32>();
    array.iter().map(|l| l.and_then(|l| labels.get(l.as_bytes())).copied().unwrap_or(0)).collect()
}

/// As PostgreSQL rounds times to a column's digits (`AdjustTimestampForTypmod`): half away from
/// zero, where zero is the beginning of 2000.
fn rounded(value: i64, unit: i64) -> i64 {
    let half = unit / 2;
    let rest = if value >= 0 { value.saturating_add(half) } else { value.saturating_sub(half) };
    rest / unit * unit
}
