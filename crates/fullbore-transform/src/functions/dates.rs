//! `to_date` and `to_timestamp` with PostgreSQL's patterns.

use std::sync::Arc;

use chrono::NaiveDate;
use datafusion_common::cast::{as_float64_array, as_string_array};
use datafusion_common::{Result, exec_datafusion_err, plan_datafusion_err};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use engine_arrow::array::{ArrayRef, Date32Array, TimestampMicrosecondArray};
use engine_arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};

use super::pattern::Pattern;

const DATE: &str = "YYYY-MM-DD";
const MOMENT: &str = "YYYY-MM-DD HH24:MI:SS";

/// Reads texts: as dates, or as moments, which may be those of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reads {
    name: &'static str,
    gives: DataType,
    signature: Signature,
}

/// `to_date(text[, pattern])`, `to_timestamp(text[, pattern])` and `to_timestamptz(text[, pattern])`; the latter two take
/// seconds since 1970 UTC as well.
pub fn all() -> [Reads; 3] {
    let moment = |zone| DataType::Timestamp(TimeUnit::Microsecond, zone);
    [
        Reads::new("to_date", DataType::Date32),
        Reads::new("to_timestamp", moment(None)),
        Reads::new("to_timestamptz", moment(Some("UTC".into()))),
    ]
}

impl Reads {
    fn new(name: &'static str, gives: DataType) -> Self {
        let text = || DataType::Utf8;
        let mut taken =
            vec![TypeSignature::Exact(vec![text()]), TypeSignature::Exact(vec![text(), text()])];
        if gives != DataType::Date32 {
            taken.push(TypeSignature::Exact(vec![DataType::Float64]));
        }
        Self { name, gives, signature: Signature::one_of(taken, Volatility::Immutable) }
    }

    fn is_date(&self) -> bool {
        self.gives == DataType::Date32
    }

    fn read(&self, texts: &ArrayRef, patterns: Patterns<'_>) -> Result<ArrayRef> {
        let texts = as_string_array(texts)?;
        let epoch = NaiveDate::default();
        let mut patterns = patterns.by_row();
        let mut dates = Vec::new();
        let mut moments = Vec::new();
        for (row, text) in texts.iter().enumerate() {
            let pattern = patterns(row)?;
            let read = text.zip(pattern.as_deref());
            let wrong = |words: String| exec_datafusion_err!("{words}");
            if self.is_date() {
                let date = read.map(|(text, pattern)| pattern.date(text)).transpose();
                let days = date.map_err(wrong)?.map(|date| (date - epoch).num_days() as i32);
                dates.push(days);
            } else {
                let moment = read.map(|(text, pattern)| pattern.moment(text)).transpose();
                let moment = moment.map_err(wrong)?;
                moments.push(moment.map(|moment| moment.and_utc().timestamp_micros()));
            }
        }
        Ok(match &self.gives {
            DataType::Timestamp(_, zone) => {
                Arc::new(TimestampMicrosecondArray::from(moments).with_timezone_opt(zone.clone()))
            }
            _ => Arc::new(Date32Array::from(dates)),
        })
    }
}

/// The patterns of rows: mostly one for all.
enum Patterns<'a> {
    Same(Option<&'a str>),
    Each(&'a ArrayRef),
}

impl<'a> Patterns<'a> {
    /// The pattern of each row, in their order.
    fn by_row(self) -> impl FnMut(usize) -> Result<Option<Arc<Pattern>>> + 'a {
        let mut last: Option<(String, Arc<Pattern>)> = None;
        move |row| {
            let text = match &self {
                Self::Same(text) => *text,
                Self::Each(array) => as_string_array(array)?.iter().nth(row).flatten(),
            };
            let Some(text) = text else { return Ok(None) };
            match &last {
                Some((known, pattern)) if known == text => Ok(Some(Arc::clone(pattern))),
                _ => {
                    let pattern =
                        Pattern::new(text).map_err(|why| exec_datafusion_err!("{why}"))?;
                    let pattern = Arc::new(pattern);
                    last = Some((text.to_owned(), Arc::clone(&pattern)));
                    Ok(Some(pattern))
                }
            }
        }
    }
}

impl ScalarUDFImpl for Reads {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.gives.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if let Some(Some(pattern)) = args.scalar_arguments.get(1)
            && let Some(Some(text)) = pattern.try_as_str()
        {
            Pattern::new(text).map_err(|why| plan_datafusion_err!("{why}"))?;
        }
        Ok(Arc::new(Field::new(self.name, self.gives.clone(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let values = args.args[0].clone().into_array(rows)?;
        if *values.data_type() == DataType::Float64 {
            let seconds = as_float64_array(&values)?;
            let moments: TimestampMicrosecondArray = seconds.unary(|s| (s * 1e6).round() as i64);
            let zone = match &self.gives {
                DataType::Timestamp(_, zone) => zone.clone(),
                _ => None,
            };
            return Ok(ColumnarValue::Array(Arc::new(moments.with_timezone_opt(zone))));
        }
        let array = match args.args.get(1) {
            None => {
                let usual = if self.is_date() { DATE } else { MOMENT };
                self.read(&values, Patterns::Same(Some(usual)))?
            }
            Some(ColumnarValue::Scalar(pattern)) => {
                let text = pattern.try_as_str().flatten();
                self.read(&values, Patterns::Same(text))?
            }
            Some(ColumnarValue::Array(patterns)) => self.read(&values, Patterns::Each(patterns))?,
        };
        Ok(ColumnarValue::Array(array))
    }
}
