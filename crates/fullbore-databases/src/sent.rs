//! Rows in the form in which a driver takes them.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow_cast::display::FormatOptions;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use fullbore_load::plan::TablePlan;
use fullbore_load::sink::Encoder;
use fullbore_load::sink::arrow_stream::ArrowEncoder;
use fullbore_parse::types::FieldType;
use fullbore_read::error::{DestinationFailure, Error, Result};
use serde::de::IgnoredAny;

use crate::table::Table;

/// Moments as text, as SQL's literals write them.
const FORMATS: FormatOptions<'static> = FormatOptions::new()
    .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f+00"));

/// How the rows of a table are sent.
#[derive(Debug, Clone)]
pub struct Form {
    pub schema: SchemaRef,
    columns: Vec<SentColumn>,
}

#[derive(Debug, Clone)]
struct SentColumn {
    /// Its place among the columns that are parsed, and what it is parsed into; none where it is not loaded.
    from: Option<(usize, FieldType)>,
    name: String,
    to: DataType,
    takes_utf8: bool,
}

impl Form {
    /// Of all columns of a table where the driver takes them by their places, else of those that are loaded.
    pub fn of(plan: &TablePlan, table: &Table, is_positional: bool) -> Self {
        let parsed = &plan.shape.columns;
        let columns = table.columns.iter().filter_map(|column| {
            let place = parsed.iter().position(|parsed| parsed.name == column.name);
            let from = place.map(|place| (place, parsed[place].field_type.clone()));
            let is_sent = from.is_some() || is_positional;
            is_sent.then(|| SentColumn {
                from,
                name: column.name.clone(),
                to: column.sent.clone(),
                takes_utf8: column.takes_utf8,
            })
        });
        let columns: Vec<SentColumn> = columns.collect();
        let fields: Vec<Field> = columns
            .iter()
            .map(|column| Field::new(&column.name, column.to.clone(), true))
            .collect();
        Self { schema: Arc::new(Schema::new(fields)), columns }
    }

    /// Whether each of its columns takes UTF-8 as it is.
    pub fn takes_utf8(&self) -> bool {
        self.columns.iter().all(|column| column.takes_utf8)
    }

    /// The columns that are sent.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.schema.fields().iter().map(|field| field.name().as_str())
    }

    pub fn batch(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.columns.iter().map(|column| match &column.from {
            None => Ok(new_null_array(&column.to, batch.num_rows())),
            Some((place, field_type)) => {
                sent(batch.column(*place), field_type, &column.to, &column.name)
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        RecordBatch::try_new(self.schema.clone(), columns).map_err(|error| defect(&error))
    }
}

/// A column's values as they are sent.
pub fn sent(array: &ArrayRef, of: &FieldType, to: &DataType, name: &str) -> Result<ArrayRef> {
    match of {
        FieldType::Uuid if *to == DataType::Utf8 => return Ok(Arc::new(uuids(array))),
        FieldType::Json => check_json(array, name)?,
        _ => {}
    }
    if array.data_type() == to {
        return Ok(array.clone());
    }
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
    let made = match (of, to) {
        // To be written, a zone must be an offset.
        (FieldType::TimestampTz { .. }, DataType::Utf8) => {
            cast(array, &utc).and_then(|array| cast(&array, to))
        }
        _ => cast(array, to),
    };
    made.map_err(|error| Error::Destination {
        message: format!("column {name}: {error}"),
        hint: Some("give the column a type that holds its values".into()),
        kind: DestinationFailure::Other,
    })
}

pub fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(array, to, &CastOptions { safe: false, format_options: FORMATS })
}

fn uuids(array: &ArrayRef) -> StringArray {
    let array = array.as_fixed_size_binary();
    let mut texts = StringBuilder::with_capacity(array.len(), array.len() * 36);
    for row in 0..array.len() {
        if array.is_null(row) {
            texts.append_null();
            continue;
        }
        let mut text = String::with_capacity(36);
        for (at, byte) in array.value(row).iter().enumerate() {
            if [4, 6, 8, 10].contains(&at) {
                text.push('-');
            }
            text.push_str(&format!("{byte:02x}"));
        }
        texts.append_value(text);
    }
    texts.finish()
}

/// No driver checks it.
fn check_json(array: &ArrayRef, name: &str) -> Result<()> {
    let texts = array.as_string::<i32>();
    for text in texts.iter().flatten() {
        if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
            let shown: String = text.chars().take(60).collect();
            return Err(Error::Destination {
                message: format!("column {name}: {shown:?} is not valid JSON ({error})"),
                hint: Some("load it into a column of type text".into()),
                kind: DestinationFailure::Other,
            });
        }
    }
    Ok(())
}

pub fn defect(error: &ArrowError) -> Error {
    Error::Client { message: format!("a batch can't be sent: {error}"), hint: None }
}

/// Carries batches to a writer in the form in which they are sent.
pub struct BatchEncoder(pub Form);

impl Encoder for BatchEncoder {
    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        ArrowEncoder.encode(&self.0.batch(batch)?, out)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Decimal64Array, FixedSizeBinaryArray, TimestampMicrosecondArray};

    use super::*;

    fn texts(array: ArrayRef, of: &FieldType) -> Vec<Option<String>> {
        let sent = sent(&array, of, &DataType::Utf8, "c").expect("sent");
        sent.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn values_become_texts_as_sql_writes_them() {
        let decimals = Decimal64Array::from(vec![Some(-105), Some(5), None]);
        let decimals = decimals.with_precision_and_scale(15, 2).expect("fits");
        let of = FieldType::Decimal { precision: 15, scale: 2 };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(texts(Arc::new(decimals), &of), [text("-1.05"), text("0.05"), None]);
        let moments = TimestampMicrosecondArray::from(vec![0, 1_500_000]);
        assert_eq!(
            texts(Arc::new(moments.clone()), &FieldType::Timestamp),
            [text("1970-01-01 00:00:00"), text("1970-01-01 00:00:01.500")]
        );
        let zoned = moments.with_timezone("UTC");
        let of = FieldType::TimestampTz { zoneless_is_utc: true };
        assert_eq!(texts(Arc::new(zoned), &of)[0], text("1970-01-01 00:00:00+00"));
        let uuid = FixedSizeBinaryArray::try_from_iter([[0x1f_u8; 16]].into_iter()).expect("one");
        assert_eq!(
            texts(Arc::new(uuid), &FieldType::Uuid),
            [text("1f1f1f1f-1f1f-1f1f-1f1f-1f1f1f1f1f1f")]
        );
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_column() {
        let array: ArrayRef = Arc::new(StringArray::from(vec![Some("{\"a\": 1}"), Some("{a}")]));
        let error = sent(&array, &FieldType::Json, &DataType::Utf8, "doc").expect_err("no JSON");
        assert!(error.to_string().starts_with("column doc: \"{a}\" is not valid JSON"));
    }
}
