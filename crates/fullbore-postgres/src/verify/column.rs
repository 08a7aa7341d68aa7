//! The hashes of a column's values, out of its Arrow array.
//!
//! What is hashed are the bytes that the server's send function will give of the value once it is
//! stored: rounded to the column's digits, padded to its length, a numeric without zeros at its ends.
//! They are made from the typed values, not from what an encoder wrote: a mistake of an encoder is
//! found like any other.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ListArray};
use fullbore_load::plan::Plan;
use fullbore_parse::types::FieldType;

use super::hash::Hash;
use super::numeric;
use crate::digits::Scale;
use crate::encode_copy::{EPOCH_DAYS, EPOCH_MICROSECONDS};

/// What stands for the hash of NULL.
pub const NULL_HASH: u32 = 1;

/// A column whose values are summed.
#[derive(Debug, Clone)]
pub struct SummedColumn {
    pub name: String,
    pub field_type: FieldType,
    /// Microseconds that times are rounded to.
    pub unit: i64,
    /// Characters that a value is padded to; 0 where it isn't.
    pub padded: usize,
    /// For arrays, the object id of the element type.
    pub element_oid: u32,
}

/// Microseconds that a type modifier of times leaves: `time(3)` keeps milliseconds.
pub fn unit(modifier: i32) -> i64 {
    match modifier {
        digits @ 0..6 => 10i64.pow(6 - digits as u32),
        _ => 1,
    }
}

/// As the server rounds times (`AdjustTimestampForTypmod`): half away from zero.
fn rounded(value: i64, unit: i64) -> i64 {
    if unit == 1 {
        return value;
    }
    let half = unit / 2;
    let rest = if value >= 0 { value.saturating_add(half) } else { value.saturating_sub(half) };
    rest / unit * unit
}

/// Microseconds since 2000, as they are stored.
pub fn moment(value: i64, unit: i64) -> i64 {
    rounded(value.wrapping_sub(EPOCH_MICROSECONDS), unit)
}

pub fn time(value: i64, unit: i64) -> i64 {
    rounded(value, unit)
}

pub fn day(value: i32) -> i32 {
    value.wrapping_sub(EPOCH_DAYS)
}

/// Decimals below this many units have their hashes kept: quantities, discounts and rates are often
/// that small, and taking one apart costs more than anything else here.
const SMALL_UNITS: usize = 8192;

/// Writes the hash of each value of `array` into `hashes`, which is as long. `small` is the column's own,
/// for hashes that are kept.
#[inline(always)]
pub fn hashes<H: Hash>(
    column: &SummedColumn,
    small: &mut Vec<u32>,
    array: &dyn Array,
    hashes: &mut [u32],
) {
    not_null::<H>(column, small, array, hashes);
    if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
        for (row, hash) in hashes.iter_mut().enumerate() {
            if nulls.is_null(row) {
                *hash = NULL_HASH;
            }
        }
    }
}

/// Hashes of whole numbers of fixed length.
#[inline(always)]
fn fixed<H: Hash, T: Copy>(
    values: &[T],
    hashes: &mut [u32],
    bytes: usize,
    big_endian: impl Fn(T) -> u64,
) {
    for (hash, value) in hashes.iter_mut().zip(values) {
        *hash = H::word(big_endian(*value), bytes);
    }
}

/// As [`hashes`], whatever stands where a value is NULL.
#[inline(always)]
fn not_null<H: Hash>(
    column: &SummedColumn,
    small: &mut Vec<u32>,
    array: &dyn Array,
    hashes: &mut [u32],
) {
    let swapped = |value: u32| u64::from(value.swap_bytes());
    match &column.field_type {
        FieldType::Boolean => {
            let values = array.as_boolean().values();
            for (row, hash) in hashes.iter_mut().enumerate() {
                *hash = H::word(u64::from(values.value(row)), 1);
            }
        }
        FieldType::Int16 => {
            let values = array.as_primitive::<Int16Type>().values();
            fixed::<H, _>(values, hashes, 2, |value| u64::from(value.swap_bytes() as u16));
        }
        FieldType::Int32 => {
            let values = array.as_primitive::<Int32Type>().values();
            fixed::<H, _>(values, hashes, 4, |value| swapped(value as u32));
        }
        FieldType::Int64 => {
            let values = array.as_primitive::<Int64Type>().values();
            fixed::<H, _>(values, hashes, 8, |value| (value as u64).swap_bytes());
        }
        FieldType::Float32 => {
            let values = array.as_primitive::<Float32Type>().values();
            fixed::<H, _>(values, hashes, 4, |value| swapped(value.to_bits()));
        }
        FieldType::Float64 => {
            let values = array.as_primitive::<Float64Type>().values();
            fixed::<H, _>(values, hashes, 8, |value| value.to_bits().swap_bytes());
        }
        FieldType::Date => {
            let values = array.as_primitive::<Date32Type>().values();
            fixed::<H, _>(values, hashes, 4, |value| swapped(day(value) as u32));
        }
        FieldType::Time => {
            let values = array.as_primitive::<Time64MicrosecondType>().values();
            let unit = column.unit;
            fixed::<H, _>(values, hashes, 8, |value| (time(value, unit) as u64).swap_bytes());
        }
        FieldType::Timestamp | FieldType::TimestampTz { .. } => {
            let values = array.as_primitive::<TimestampMicrosecondType>().values();
            match column.unit {
                1 => fixed::<H, _>(values, hashes, 8, |v| (moment(v, 1) as u64).swap_bytes()),
                unit => {
                    fixed::<H, _>(values, hashes, 8, |v| (moment(v, unit) as u64).swap_bytes());
                }
            }
        }
        FieldType::Decimal { precision, scale } if *precision <= 18 => {
            let scale = Scale::new(*scale);
            let values = array.as_primitive::<Decimal64Type>().values();
            if small.is_empty() && hashes.len() > 100 {
                let units = 0..SMALL_UNITS as i64;
                small.extend(units.map(|units| numeric::hash_64::<H>(units, scale)));
            }
            for (hash, value) in hashes.iter_mut().zip(values) {
                *hash = match small.get(*value as u64 as usize) {
                    Some(kept) => *kept,
                    None => numeric::hash_64::<H>(*value, scale),
                };
            }
        }
        FieldType::Uuid => {
            let values = array.as_fixed_size_binary().value_data();
            for (hash, value) in hashes.iter_mut().zip(values.as_chunks::<16>().0) {
                *hash = H::bytes(value);
            }
        }
        FieldType::Text { .. } | FieldType::Json | FieldType::Enum { .. } => {
            let array = array.as_string::<i32>();
            ranges::<H>(array.value_offsets(), array.value_data(), column.padded, hashes);
        }
        FieldType::Bytea => {
            let array = array.as_binary::<i32>();
            ranges::<H>(array.value_offsets(), array.value_data(), 0, hashes);
        }
        _ => slowly::<H>(column, array, hashes),
    }
}

#[inline(always)]
fn ranges<H: Hash>(offsets: &[i32], bytes: &[u8], padded: usize, hashes: &mut [u32]) {
    let all = offsets[0] as usize..offsets[hashes.len()] as usize;
    match padded {
        0 => H::ranges(offsets, bytes, hashes),
        _ if bytes[all].is_ascii() => H::padded_ranges(offsets, bytes, padded, hashes),
        _ => {
            for (ends, hash) in offsets.windows(2).zip(hashes) {
                let (start, end) = (ends[0] as usize, ends[1] as usize);
                // Padding counts characters.
                let more = end - start - characters(&bytes[start..end]);
                *hash = H::range(bytes, start, end, padded + more);
            }
        }
    }
}

fn characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// Hashes of what is rare enough to be written out first.
#[inline(never)]
fn slowly<H: Hash>(column: &SummedColumn, array: &dyn Array, hashes: &mut [u32]) {
    let mut bytes = Vec::new();
    for (row, hash) in hashes.iter_mut().enumerate() {
        if array.is_valid(row) {
            bytes.clear();
            write(column, array, row, &mut bytes);
            *hash = H::bytes(&bytes);
        }
    }
}

/// Appends what the type's send function gives of a value that is not NULL.
fn write(column: &SummedColumn, array: &dyn Array, row: usize, out: &mut Vec<u8>) {
    match &column.field_type {
        FieldType::Boolean => out.push(u8::from(array.as_boolean().value(row))),
        FieldType::Int16 => out.extend(array.as_primitive::<Int16Type>().value(row).to_be_bytes()),
        FieldType::Int32 => out.extend(array.as_primitive::<Int32Type>().value(row).to_be_bytes()),
        FieldType::Int64 => out.extend(array.as_primitive::<Int64Type>().value(row).to_be_bytes()),
        FieldType::Float32 => {
            out.extend(array.as_primitive::<Float32Type>().value(row).to_be_bytes());
        }
        FieldType::Float64 => {
            out.extend(array.as_primitive::<Float64Type>().value(row).to_be_bytes());
        }
        FieldType::Date => {
            out.extend(day(array.as_primitive::<Date32Type>().value(row)).to_be_bytes());
        }
        FieldType::Time => {
            let value = array.as_primitive::<Time64MicrosecondType>().value(row);
            out.extend(time(value, column.unit).to_be_bytes());
        }
        FieldType::Timestamp | FieldType::TimestampTz { .. } => {
            let value = array.as_primitive::<TimestampMicrosecondType>().value(row);
            out.extend(moment(value, column.unit).to_be_bytes());
        }
        FieldType::Decimal { precision, scale } => {
            let units = match *precision {
                ..=18 => i128::from(array.as_primitive::<Decimal64Type>().value(row)),
                _ => array.as_primitive::<Decimal128Type>().value(row),
            };
            numeric::write(units, *scale, out);
        }
        FieldType::NumericText { limits } => {
            let text = array.as_string::<i32>().value(row);
            numeric::write_text(text.as_bytes(), limits.map(|(_, scale)| scale), out);
        }
        FieldType::Text { .. } | FieldType::Json | FieldType::Enum { .. } => {
            let text = array.as_string::<i32>().value(row).as_bytes();
            out.extend_from_slice(text);
            let missing = column.padded.saturating_sub(characters(text));
            out.resize(out.len() + if column.padded == 0 { 0 } else { missing }, b' ');
        }
        // Its stored form is the server's own: such a table goes as text, which the server sums.
        FieldType::Jsonb => unreachable!("jsonb is summed by the server"),
        FieldType::Bytea => out.extend_from_slice(array.as_binary::<i32>().value(row)),
        FieldType::Uuid => out.extend_from_slice(array.as_fixed_size_binary().value(row)),
        FieldType::Array(item) => write_list(column, item, array.as_list::<i32>(), row, out),
    }
}

/// As `array_send` writes it: dimensions, whether there are NULLs, the element type, then length and
/// lower bound of the one dimension, and the elements with their lengths.
fn write_list(
    column: &SummedColumn,
    item: &FieldType,
    list: &ListArray,
    row: usize,
    out: &mut Vec<u8>,
) {
    let items = list.value(row);
    let has_nulls = items.null_count() > 0;
    out.extend(i32::from(!items.is_empty()).to_be_bytes());
    out.extend(i32::from(has_nulls).to_be_bytes());
    out.extend(column.element_oid.to_be_bytes());
    if items.is_empty() {
        return;
    }
    out.extend((items.len() as i32).to_be_bytes());
    out.extend(1i32.to_be_bytes());
    let element = SummedColumn { field_type: item.clone(), ..column.clone() };
    for place in 0..items.len() {
        if items.is_null(place) {
            out.extend((-1i32).to_be_bytes());
            continue;
        }
        let start = out.len();
        out.extend([0; 4]);
        write(&element, items.as_ref(), place, out);
        let length = (out.len() - start - 4) as i32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// The columns of a table that are sent, by name.
pub fn sent_columns(plan: &Plan, table: usize) -> Vec<String> {
    plan.tables[table].shape.columns.iter().map(|column| column.name.clone()).collect()
}
