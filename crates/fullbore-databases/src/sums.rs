//! Sums of the columns that are sent, and those that the database makes of what it holds.
//!
//! Both are taken modulo 2^64, so that neither overflows ([`fullbore_load::sums::Sums`]).

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal64Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use fullbore_load::plan::TablePlan;
use fullbore_load::sink::Summer;
use fullbore_load::sums::{ColumnSums, Sums};
use fullbore_parse::types::FieldType;
use fullbore_pgwire::quote_identifier;
use fullbore_read::error::{Error, Result};

use crate::dialect::{Dialect, Measure};
use crate::error::differs;
use crate::link::Link;
use crate::sent::sent;
use crate::table::{Column, Table};

/// Floating numbers beyond this are not added up: their 1024ths would not fit.
const FLOAT_MAX: f64 = 1e12;

/// A column that is loaded, and what of it is added up.
struct Summed {
    column: Column,
    /// Its place among the columns that are parsed, and what it is parsed into.
    place: usize,
    field_type: FieldType,
    measure: Measure,
}

/// The columns of a table that are loaded.
pub struct Summing {
    columns: Vec<Summed>,
    dialect: &'static dyn Dialect,
}

impl Summing {
    pub fn of(plan: &TablePlan, table: &Table, dialect: &'static dyn Dialect) -> Self {
        let parsed = plan.shape.columns.iter().enumerate();
        let columns = parsed.filter_map(|(place, parsed)| {
            let column = table.columns.iter().find(|column| column.name == parsed.name)?;
            Some(Summed {
                column: column.clone(),
                place,
                field_type: parsed.field_type.clone(),
                measure: dialect.measure(&parsed.field_type),
            })
        });
        Self { columns: columns.collect(), dialect }
    }

    /// How many columns are compared by more than the number of their values.
    pub fn compared(&self) -> u64 {
        self.columns.iter().filter(|column| column.measure != Measure::Count).count() as u64
    }

    /// What a table holds now, by one query for each of the links, which share the columns.
    pub fn held(
        &self,
        link: &mut dyn Link,
        more: &mut [Box<dyn Link>],
        table: &str,
    ) -> Result<Sums> {
        let each = self.columns.len().div_ceil(more.len() + 1).max(1);
        let (own, others) = self.columns.split_at(each.min(self.columns.len()));
        std::thread::scope(|scope| {
            let asked = more.iter_mut().zip(others.chunks(each)).map(|(link, columns)| {
                scope.spawn(move || self.share(link.as_mut(), table, columns))
            });
            let asked: Vec<_> = asked.collect();
            let mut held = self.share(link, table, own)?;
            for thread in asked {
                held.columns.extend(thread.join().unwrap_or_else(|_| Err(ended()))?.columns);
            }
            Ok(held)
        })
    }

    /// The rows of a table, and sums of some of its columns.
    fn share(&self, link: &mut dyn Link, table: &str, columns: &[Summed]) -> Result<Sums> {
        let mut terms = vec!["count(*)".to_owned()];
        let mut weights = Vec::new();
        for Summed { column, field_type, measure, .. } in columns {
            let name = quote_identifier(&column.name).map_err(|e| Error::usage(e.to_string()))?;
            if column.is_nullable {
                terms.push(format!("count({name})"));
            }
            let sum = match measure {
                Measure::Count => Vec::new(),
                _ => self.dialect.sum(&name, field_type, column),
            };
            weights.push(sum.iter().map(|(_, weight)| *weight).collect::<Vec<_>>());
            terms.extend(sum.into_iter().map(|(term, _)| term));
        }
        let row = link.query(&format!("SELECT {} FROM {table}", terms.join(", ")))?;
        let mut values = row.into_iter().next().unwrap_or_default().into_iter();
        let mut next = |scale| whole(values.next().flatten().as_deref().unwrap_or("0"), scale);
        let rows = next(0)?;
        let mut sums = Sums { rows: rows as u64, ..Sums::default() };
        for (Summed { column, field_type, .. }, weights) in columns.iter().zip(weights) {
            let known = if column.is_nullable { next(0)? } else { rows };
            let scale = match *field_type {
                // Where a database adds up decimals as such, they come with their point.
                FieldType::Decimal { scale, .. } if weights.len() == 1 => scale,
                _ => 0,
            };
            let mut sum = 0_i128;
            for weight in weights {
                sum = sum.wrapping_add(next(scale)?.wrapping_mul(weight));
            }
            let nulls = (rows - known) as u64;
            sums.columns.push(ColumnSums { sum: sum as u64, nulls, ..ColumnSums::default() });
        }
        Ok(sums)
    }

    /// Refuses what is held if it is not what was sent.
    pub fn compare(&self, table: &str, sent: &Sums, held: &Sums) -> Result<()> {
        let hint = "another session may have changed the table meanwhile; otherwise its driver altered \
                    values: load into an empty table to find out";
        if sent.rows != held.rows {
            let (sent, held) = (sent.rows, held.rows);
            return Err(differs(
                format!("{table} holds {held} of {sent} rows that were sent"),
                hint,
            ));
        }
        let columns = self.columns.iter().zip(sent.columns.iter().zip(&held.columns));
        for (Summed { column, .. }, (sent, held)) in columns {
            if sent.nulls != held.nulls || sent.sum != held.sum {
                let what = if sent.nulls == held.nulls { "sum" } else { "number of NULLs" };
                return Err(differs(
                    format!(
                        "{table}: the {what} of column {} is not that of the values that were sent",
                        column.name
                    ),
                    hint,
                ));
            }
        }
        Ok(())
    }
}

/// A number as a database writes it, without its point: `-1.5` with two digits after it is -150.
fn whole(text: &str, scale: u8) -> Result<i128> {
    let unreadable = || Error::Client {
        message: format!("the database answered {text:?} where a sum was asked for"),
        hint: None,
    };
    let (before, after) = text.split_once('.').unwrap_or((text, ""));
    let digits = usize::from(scale);
    let after_point = after.trim_end_matches('0');
    if after_point.len() > digits {
        return Err(unreadable());
    }
    format!("{before}{after_point:0<digits$}").parse().map_err(|_| unreadable())
}

fn ended() -> Error {
    Error::Client { message: "a thread that asks for sums ended".into(), hint: None }
}

/// Adds up what is sent.
pub struct BatchSums(pub Summing);

impl Summer for BatchSums {
    fn sums(&mut self, batch: &RecordBatch) -> Sums {
        let columns = self.0.columns.iter().map(|column| {
            let array = batch.column(column.place);
            let nulls = array.null_count() as u64;
            let sum = match column.measure {
                Measure::Count => 0,
                Measure::Value => values(array),
                Measure::Length => lengths(array, column),
            };
            ColumnSums { sum, nulls, ..ColumnSums::default() }
        });
        Sums { rows: batch.num_rows() as u64, columns: columns.collect(), ..Sums::default() }
    }
}

/// The sum of what is not NULL.
fn sum<T>(values: impl Iterator<Item = Option<T>>, of: impl Fn(T) -> u64) -> u64 {
    values.flatten().fold(0, |sum: u64, value| sum.wrapping_add(of(value)))
}

/// A floating number in 1024ths: that is exact, and so is their sum in any order.
fn parts(value: f64) -> u64 {
    if value.abs() < FLOAT_MAX { (value * 1024.0).trunc() as i64 as u64 } else { 0 }
}

fn values(array: &ArrayRef) -> u64 {
    macro_rules! whole {
        ($type:ty) => {
            sum(array.as_primitive::<$type>().iter(), |value| value as i64 as u64)
        };
    }
    match array.data_type() {
        DataType::Boolean => sum(array.as_boolean().iter(), u64::from),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::Decimal64(..) => whole!(Decimal64Type),
        DataType::Decimal128(..) => {
            sum(array.as_primitive::<Decimal128Type>().iter(), |v| v as u64)
        }
        DataType::Float32 => {
            sum(array.as_primitive::<Float32Type>().iter(), |value| parts(f64::from(value)))
        }
        DataType::Float64 => sum(array.as_primitive::<Float64Type>().iter(), parts),
        DataType::Date32 => whole!(Date32Type),
        DataType::Time64(_) => whole!(Time64MicrosecondType),
        DataType::Timestamp(..) => whole!(TimestampMicrosecondType),
        _ => 0,
    }
}

/// The bytes of the values as they are sent. What can't be sent is told when it is.
fn lengths(array: &ArrayRef, Summed { column, field_type, .. }: &Summed) -> u64 {
    let Ok(array) = sent(array, field_type, &column.sent, &column.name) else { return 0 };
    match array.data_type() {
        DataType::Utf8 => sum(array.as_string::<i32>().iter(), |text| text.len() as u64),
        DataType::Binary => sum(array.as_binary::<i32>().iter(), |bytes| bytes.len() as u64),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read_with_and_without_a_point() {
        let whole = |text, scale| whole(text, scale).ok();
        assert_eq!(whole("12", 0), Some(12));
        assert_eq!(whole("-1.50", 2), Some(-150));
        assert_eq!(whole("-0.5", 2), Some(-50));
        assert_eq!(whole("7", 3), Some(7000));
        assert_eq!(whole("7.000", 0), Some(7));
        assert_eq!(whole("7.5", 0), None);
        assert_eq!(whole("1e10", 0), None);
    }

    #[test]
    fn floating_numbers_are_added_up_in_any_order() {
        let sum = |values: &[f64]| values.iter().fold(0_u64, |sum, v| sum.wrapping_add(parts(*v)));
        assert_eq!(sum(&[0.1, -3.7, 1e11]), sum(&[1e11, 0.1, -3.7]));
        assert_eq!(parts(f64::NAN), 0);
        assert_eq!(parts(f64::INFINITY), 0);
        assert_eq!(parts(-1.5) as i64, -1536);
    }
}
