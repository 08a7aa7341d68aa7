//! Whole days added to dates: the engine's own way is by the calendar, which takes ten times as long.

use std::sync::Arc;

use chrono::NaiveDate;
use datafusion_common::cast::as_date32_array;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue, exec_datafusion_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use engine_arrow::array::Date32Array;
use engine_arrow::datatypes::DataType;
use engine_arrow::error::ArrowError;

/// An expression in which intervals of days alone are added to dates, or taken from them, as numbers.
pub fn counted_days(expression: Expr, schema: &DFSchema) -> Result<Expr> {
    let counted = expression.transform_up(|part| {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &part else {
            return Ok(Transformed::no(part));
        };
        let days = match (op, days_alone(right)) {
            (Operator::Plus, Some(days)) => Some(days),
            (Operator::Minus, Some(days)) => days.checked_neg(),
            _ => None,
        };
        // Of constants the engine says at once that they can't be added.
        let is_dates = || {
            left.any_column_refs() && left.get_type(schema).is_ok_and(|of| of == DataType::Date32)
        };
        let Some(days) = days.filter(|_| is_dates()) else {
            return Ok(Transformed::no(part));
        };
        let function = Arc::new(ScalarUDF::from(AddDays::new(days)));
        let call = ScalarFunction::new_udf(function, vec![left.as_ref().clone()]);
        Ok(Transformed::yes(Expr::ScalarFunction(call)))
    });
    counted.map(|found| found.data)
}

/// The days of an interval that has nothing else.
fn days_alone(expression: &Expr) -> Option<i32> {
    match expression {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _)
            if interval.months == 0 && interval.nanoseconds == 0 =>
        {
            Some(interval.days)
        }
        _ => None,
    }
}

/// Adds so many days.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct AddDays {
    days: i32,
    signature: Signature,
}

impl AddDays {
    fn new(days: i32) -> Self {
        let signature = Signature::exact(vec![DataType::Date32], Volatility::Immutable);
        Self { days, signature }
    }
}

impl ScalarUDFImpl for AddDays {
    fn name(&self) -> &str {
        "add_days"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Date32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let dates = args.args[0].clone().into_array(args.number_rows)?;
        // As far as the engine has dates.
        let number = |date: NaiveDate| (date - NaiveDate::default()).num_days() as i32;
        let (first, last) = (number(NaiveDate::MIN), number(NaiveDate::MAX));
        let add = |date: i32| {
            let moved = date.checked_add(self.days).filter(|date| (first..=last).contains(date));
            moved.ok_or_else(|| ArrowError::ComputeError("date out of range".into()))
        };
        let moved = as_date32_array(&dates)?.try_unary::<_, _, ArrowError>(add);
        let moved: Date32Array = moved.map_err(|error| exec_datafusion_err!("{error}"))?;
        Ok(ColumnarValue::Array(Arc::new(moved)))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Date32Type;
    use arrow_array::{ArrayRef, Date32Array};
    use arrow_schema::DataType;

    use super::*;
    use crate::{Compiler, Input};

    fn evaluated(sql: &str, days: &[Option<i32>]) -> std::result::Result<Vec<Option<i32>>, String> {
        let input = Input { relation: None, name: "d".into(), data_type: DataType::Date32 };
        let compiler = Compiler::new(&[input], 0)?;
        let array: ArrayRef = Arc::new(Date32Array::from(days.to_vec()));
        let frame = compiler.frame(&[array], days.len())?;
        let found = compiler.value(sql)?.evaluate(&frame)?;
        Ok(found.as_primitive::<Date32Type>().iter().collect())
    }

    #[test]
    fn days_are_counted_and_the_rest_is_the_calendars() {
        let days = [Some(0), None, Some(58), Some(-1)];
        for (sql, expected) in [
            ("d + interval '1 day'", [Some(1), None, Some(59), Some(0)]),
            ("d - interval '2 days'", [Some(-2), None, Some(56), Some(-3)]),
            ("d + interval '1 week'", [Some(7), None, Some(65), Some(6)]),
            // 28 February, and the day before 1970.
            ("d + interval '1 month'", [Some(31), None, Some(86), Some(30)]),
        ] {
            assert_eq!(evaluated(sql, &days).expect(sql), expected, "{sql}");
        }
        assert!(evaluated("date '2024-01-01' + interval '100000000 days'", &[]).is_err());
        for beyond in [i32::MAX, i32::MIN] {
            for sql in ["d + interval '5 days'", "d - interval '5 days'"] {
                assert!(evaluated(sql, &[Some(beyond)]).is_err(), "{sql} of {beyond}");
            }
        }
    }
}
