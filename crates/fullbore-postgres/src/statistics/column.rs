//! A column's statistics out of what is known of all rows and of a sample, by the rules of ANALYZE
//! (`compute_scalar_stats` and `analyze_mcv_list` in PostgreSQL's analyze.c). Only the number of different
//! values, NULLs and widths are not estimated from the sample.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use fullbore_parse::types::FieldType;
use fullbore_read::error::{Error, Result};

use super::order::{Order, Ordered, ordered};
use super::sketch::{Column, Tally};
use crate::verify::column::SummedColumn;
use crate::verify::numeric;

/// What is kept of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnStatistics {
    pub name: String,
    pub null_fraction: f64,
    /// Bytes of a stored value.
    pub width: u32,
    /// How many different values, or below 0, for each row, as `stadistinct`.
    pub distinct: f64,
    /// The most common values, and the share of rows that has each.
    pub common: Vec<(String, f64)>,
    pub spread: Spread,
}

/// How the other values are spread.
#[derive(Debug, Clone, PartialEq)]
pub enum Spread {
    /// Values have no order, or there are none.
    None,
    Known {
        histogram: Vec<String>,
        /// Between the order of values and that of rows.
        correlation: Option<f64>,
    },
    /// The server is to put these in order first.
    ToOrder { collation: String, values: Vec<Value>, bounds: usize },
}

/// A value, and which rows of those that were picked have it.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    pub text: String,
    rows: Vec<u32>,
    is_common: bool,
}

/// Rows of which the server puts the values in order: 20 for each part of a histogram at the default
/// target.
const ORDERED_ROWS: usize = 2_000;
/// Values whose width is looked at where that differs and is not known.
const WIDTHS: usize = 1_000;

/// Makes a column's statistics. `rows` have passed, `array` is the sample of them in the order in which they are
/// stored, and `target` limits how many values are listed.
pub fn column_statistics(
    column: &Column,
    tally: &Tally,
    rows: u64,
    array: &dyn Array,
    target: usize,
) -> Result<ColumnStatistics> {
    let Column { hashed, order } = column;
    let values = rows - tally.nulls;
    let total = rows as f64;
    let mut made = ColumnStatistics {
        name: hashed.name.clone(),
        null_fraction: tally.nulls as f64 / total,
        width: width(hashed, tally, values, array),
        distinct: 0.0,
        common: Vec::new(),
        spread: Spread::None,
    };
    if values == 0 || *order == Order::None {
        return Ok(made);
    }
    let ordered = ordered(hashed, array);
    let groups: Vec<&[u32]> = ordered.groups().collect();
    let is_whole = array.len() as u64 == rows && ordered.too_wide == 0;
    let estimate = if is_whole { 0.0 } else { tally.distinct.estimate().round() };
    let seen = groups.len() as f64;
    // Where each value was drawn more than once, and about as many were counted, these are all of them.
    let are_all_seen = groups.iter().all(|rows| rows.len() > 1) && estimate <= 1.02 * seen + 1.0;
    let count = if are_all_seen { seen } else { estimate.max(seen).min(values as f64) };
    // Within the error of the estimate, all of them may be different.
    let is_unique = groups.len() == ordered.rows.len() && count >= 0.97 * values as f64;
    made.distinct = match count {
        _ if is_unique => -(values as f64) / total,
        count if count > 0.1 * total => -count / total,
        count => count,
    };
    let common = common(&groups, &ordered, &made, (array.len() as u64, rows), target);
    let text = Texts::of(hashed, array);
    for at in &common {
        let share = groups[*at].len() as f64 / array.len() as f64;
        made.common.push((text.of_row(groups[*at][0])?, share));
    }
    let common: BTreeSet<usize> = common.into_iter().collect();
    let is_common = |at: usize| common.contains(&at);
    made.spread = match order {
        Order::Collation(collation) => {
            to_order(collation, &groups, is_common, array.len(), target, &text)?
        }
        _ => {
            let bounds = bounds(&groups, is_common, target);
            let histogram =
                bounds.into_iter().map(|row| text.of_row(row)).collect::<Result<_>>()?;
            Spread::Known { histogram, correlation: correlation(&groups) }
        }
    };
    Ok(made)
}

/// The places of the groups that are listed as most common, the largest first.
fn common(
    groups: &[&[u32]],
    ordered: &Ordered,
    made: &ColumnStatistics,
    (sampled, rows): (u64, u64),
    target: usize,
) -> Vec<usize> {
    let mut places: Vec<usize> = (0..groups.len()).filter(|at| groups[*at].len() > 1).collect();
    places.sort_by_key(|at| std::cmp::Reverse(groups[*at].len()));
    let are_all = places.len() == groups.len() && ordered.too_wide == 0;
    places.truncate(target);
    // All that there are: then nothing else is left to be estimated.
    if are_all && places.len() == groups.len() && made.distinct == groups.len() as f64 {
        return places;
    }
    if sampled == rows {
        return places;
    }
    let (n, all) = (sampled as f64, rows as f64);
    let distinct = if made.distinct < 0.0 { -made.distinct * all } else { made.distinct };
    let mut listed: usize = places.iter().map(|at| groups[*at].len()).sum();
    // The rarest must be more common, beyond doubt, than one that is not listed would be taken for.
    while let Some(last) = places.last() {
        let count = groups[*last].len();
        listed -= count;
        let share = (1.0 - listed as f64 / n - made.null_fraction).clamp(0.0, 1.0);
        let others = distinct - (places.len() - 1) as f64;
        let share = if others > 1.0 { share / others } else { share };
        let expected = all * count as f64 / n;
        // Of a hypergeometric distribution.
        let variance = n * expected * (all - expected) * (all - n) / (all * all * (all - 1.0));
        if count as f64 > share * n + 2.0 * variance.max(0.0).sqrt() + 0.5 {
            break;
        }
        places.pop();
    }
    places
}

/// The rows whose values bound the parts of a histogram of as many values each: of all that are not listed.
fn bounds(groups: &[&[u32]], is_common: impl Fn(usize) -> bool, target: usize) -> Vec<u32> {
    let others: Vec<&&[u32]> =
        groups.iter().enumerate().filter(|(at, _)| !is_common(*at)).map(|(_, rows)| rows).collect();
    let bounds = others.len().min(target + 1);
    if bounds < 2 {
        return Vec::new();
    }
    let rows: Vec<u32> = others.into_iter().flat_map(|rows| rows.iter().copied()).collect();
    (0..bounds).map(|at| rows[at * (rows.len() - 1) / (bounds - 1)]).collect()
}

/// Between the order of values and that of rows, from -1 to 1; none of one value.
fn correlation(groups: &[&[u32]]) -> Option<f64> {
    let count = groups.iter().map(|rows| rows.len()).sum::<usize>();
    if count < 2 {
        return None;
    }
    // Rows without a value have no place among them.
    let last = groups.iter().flat_map(|rows| rows.last()).max().copied().unwrap_or_default();
    let mut ranks = vec![0u32; last as usize + 1];
    groups.iter().flat_map(|rows| rows.iter()).for_each(|row| ranks[*row as usize] = 1);
    let mut before = 0;
    for rank in &mut ranks {
        before += std::mem::replace(rank, before);
    }
    let rank = |row: &u32| f64::from(ranks[*row as usize]);
    let sorted = groups.iter().flat_map(|rows| rows.iter());
    let products: f64 = sorted.enumerate().map(|(at, row)| at as f64 * rank(row)).sum();
    let n = count as f64;
    let sum = n * (n - 1.0) / 2.0;
    let squares = n * (n - 1.0) * (2.0 * n - 1.0) / 6.0;
    Some((n * products - sum * sum) / (n * squares - sum * sum))
}

/// Picks rows whose values the server is to put in order.
fn to_order(
    collation: &str,
    groups: &[&[u32]],
    is_common: impl Fn(usize) -> bool,
    rows: usize,
    target: usize,
    text: &Texts<'_>,
) -> Result<Spread> {
    let step = rows.div_ceil(ORDERED_ROWS).max(1) as u32;
    let mut values = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let rows: Vec<u32> = group.iter().copied().filter(|row| row % step == 0).collect();
        if let Some(first) = rows.first() {
            let text = text.of_row(*first)?;
            values.push(Value { text, rows, is_common: is_common(at) });
        }
    }
    Ok(Spread::ToOrder { collation: collation.to_owned(), values, bounds: target })
}

impl Spread {
    /// What comes of values once the server has said in which order they are, by their places.
    pub fn ordered(self, order: &[usize]) -> Self {
        let Self::ToOrder { values, bounds: target, .. } = self else { return self };
        let sorted: Vec<&Value> = order.iter().filter_map(|at| values.get(*at)).collect();
        let groups: Vec<&[u32]> = sorted.iter().map(|value| value.rows.as_slice()).collect();
        let rows = bounds(&groups, |at| sorted[at].is_common, target);
        let with = |row: u32| sorted.iter().find(|value| value.rows.contains(&row));
        let texts = rows.into_iter().filter_map(|row| Some(with(row)?.text.clone()));
        Self::Known { histogram: texts.collect(), correlation: correlation(&groups) }
    }
}

/// The values of a column as the server reads them.
struct Texts<'a> {
    column: &'a SummedColumn,
    array: &'a dyn Array,
    /// The same moments, which are UTC, without saying so.
    zoneless: Option<ArrayRef>,
}

impl<'a> Texts<'a> {
    fn of(column: &'a SummedColumn, array: &'a dyn Array) -> Self {
        let zoneless = match column.field_type {
            FieldType::TimestampTz { .. } => {
                let moments = array.as_primitive::<TimestampMicrosecondType>().clone();
                Some(Arc::new(moments.with_timezone_opt(None::<Arc<str>>)) as ArrayRef)
            }
            _ => None,
        };
        Self { column, array, zoneless }
    }

    fn of_row(&self, row: u32) -> Result<String> {
        let row = row as usize;
        Ok(match &self.column.field_type {
            FieldType::Text { .. } | FieldType::NumericText { .. } | FieldType::Enum { .. } => {
                self.array.as_string::<i32>().value(row).to_owned()
            }
            FieldType::Bytea => {
                let value = self.array.as_binary::<i32>().value(row);
                value.iter().fold("\\x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
            }
            _ => {
                let (array, zone) = match &self.zoneless {
                    Some(zoneless) => (zoneless.as_ref(), "Z"),
                    None => (self.array, ""),
                };
                let options = FormatOptions::default();
                let formatter = ArrayFormatter::try_new(array, &options).map_err(unexpected)?;
                formatter.value(row).try_to_string().map_err(unexpected)? + zone
            }
        })
    }
}

/// A short varlena has a header of one byte, up to so many bytes of value.
const SHORT_MAX: f64 = 126.0;

/// The average width of stored values.
fn width(column: &SummedColumn, tally: &Tally, values: u64, array: &dyn Array) -> u32 {
    // Whole bytes, as ANALYZE has it.
    let varlena = |bytes: f64| (bytes + if bytes > SHORT_MAX { 4.0 } else { 1.0 }) as u32;
    match &column.field_type {
        FieldType::Boolean => 1,
        FieldType::Int16 => 2,
        FieldType::Int32 | FieldType::Float32 | FieldType::Date | FieldType::Enum { .. } => 4,
        FieldType::Int64
        | FieldType::Float64
        | FieldType::Time
        | FieldType::Timestamp
        | FieldType::TimestampTz { .. } => 8,
        FieldType::Uuid => 16,
        _ if values == 0 => 0,
        FieldType::Text { .. } if column.padded > 0 => varlena(column.padded as f64),
        FieldType::Decimal { .. } | FieldType::NumericText { .. } => {
            numeric_width(column, array) as u32
        }
        _ => varlena(tally.bytes as f64 / values as f64),
    }
}

/// Of numerics: a header of three bytes, and two for each digit to the base 10,000.
fn numeric_width(column: &SummedColumn, array: &dyn Array) -> f64 {
    let step = array.len().div_ceil(WIDTHS).max(1);
    let (mut bytes, mut count) = (0, 0);
    let mut sent = Vec::new();
    for row in (0..array.len()).step_by(step).filter(|row| array.is_valid(*row)) {
        sent.clear();
        match &column.field_type {
            FieldType::Decimal { precision: ..19, scale } => {
                let units = array.as_primitive::<Decimal64Type>().value(row);
                numeric::write(units.into(), *scale, &mut sent);
            }
            FieldType::Decimal { scale, .. } => {
                numeric::write(
                    array.as_primitive::<Decimal128Type>().value(row),
                    *scale,
                    &mut sent,
                );
            }
            _ => {
                let text = array.as_string::<i32>().value(row);
                numeric::write_text(text.as_bytes(), None, &mut sent);
            }
        }
        // What is sent has a header of eight.
        bytes += sent.len() - 5;
        count += 1;
    }
    if count == 0 { 0.0 } else { bytes as f64 / f64::from(count) }
}

fn unexpected(error: arrow_schema::ArrowError) -> Error {
    Error::usage(format!("values for statistics: {error}"))
}
