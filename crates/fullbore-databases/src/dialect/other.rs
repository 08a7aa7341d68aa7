//! A database that only its driver knows: what standard SQL and ADBC say of it.

use arrow_schema::DataType;
use fullbore_load::target::NewColumn;
use fullbore_parse::types::FieldType;
use fullbore_pgwire::QualifiedName;
use fullbore_read::columnar::types::{field_type, words};
use fullbore_read::error::Result;

use super::{Dialect, Measure, Terms};
use crate::link::Link;
use crate::table::Column;

pub struct Other;

impl Dialect for Other {
    fn name(&self) -> &'static str {
        "the database"
    }

    fn columns(&self, link: &mut dyn Link, table: &QualifiedName) -> Result<Option<Vec<Column>>> {
        let Some(schema) = link.schema_of(table)? else { return Ok(None) };
        let columns = schema.fields().iter().map(|field| Column {
            name: field.name().clone(),
            type_name: words(field.data_type()),
            field_type: known(field.data_type()),
            sent: field.data_type().clone(),
            is_nullable: field.is_nullable(),
            takes_utf8: true,
            is_generated: false,
            // ADBC does not tell: where it has none, the database says so.
            fills_itself: true,
        });
        Ok(Some(columns.collect()))
    }

    fn made_as(&self, column: &NewColumn) -> String {
        column.type_name.clone()
    }

    fn measure(&self, field_type: &FieldType) -> Measure {
        use FieldType::{Decimal, Int16, Int32, Int64};
        match field_type {
            Int16 | Int32 | Int64 | Decimal { .. } => Measure::Value,
            _ => Measure::Count,
        }
    }

    fn sum(&self, column: &str, _: &FieldType, _: &Column) -> Terms {
        vec![(format!("SUM({column})"), 1)]
    }

    fn writers(&self) -> Option<usize> {
        None
    }

    fn keeps_ledger(&self) -> bool {
        false
    }

    fn is_positional(&self) -> bool {
        false
    }

    fn greeting(&self) -> &'static [&'static str] {
        &[]
    }
}

/// What values are parsed into that the driver takes as they are.
fn known(stored: &DataType) -> Option<FieldType> {
    // Of unsigned and of short integers not every value would fit that is parsed.
    match stored {
        DataType::Int8 | DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => None,
        stored => match field_type(stored)? {
            FieldType::Array(_) | FieldType::Jsonb => None,
            known => Some(known),
        },
    }
}
