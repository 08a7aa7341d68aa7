//! SQLite. Its types are its columns' affinities: a decimal is held as a double where it is no integer, and dates
//! are text. So numbers of more than 15 digits that are no integers are refused rather than rounded.

use arrow_schema::DataType;
use fullbore_load::target::NewColumn;
use fullbore_parse::sql_types;
use fullbore_parse::types::FieldType;
use fullbore_pgwire::QualifiedName;
use fullbore_read::error::Result;

use super::{Dialect, Measure, Terms, literal};
use crate::link::Link;
use crate::table::Column;

/// Significant digits that a double holds of any decimal.
const DIGITS_MAX: u8 = 15;

/// A sum of integers must not leave 64 bits, where it is an error: their upper and lower halves are added up apart.
const HALF: i128 = 1 << 32;

pub struct Sqlite;

impl Dialect for Sqlite {
    fn name(&self) -> &'static str {
        "SQLite"
    }

    fn columns(&self, link: &mut dyn Link, table: &QualifiedName) -> Result<Option<Vec<Column>>> {
        let schema = match table.schema() {
            Some(schema) => format!(", {}", literal(schema)?),
            None => String::new(),
        };
        let rows = link.query(&format!(
            "SELECT name, type, \"notnull\", dflt_value IS NOT NULL, pk, hidden,
                    sum(pk > 0) OVER () AS keys
               FROM pragma_table_xinfo({}{schema}) ORDER BY cid",
            literal(table.name())?
        ))?;
        let columns: Vec<Column> = rows
            .into_iter()
            .map(|row| {
                let text = |at: usize| row[at].as_deref().unwrap_or_default();
                let is = |at: usize| text(at) == "1";
                let field_type = field_type(text(1));
                // The alias of the number of the row.
                let is_number = is(4) && text(6) == "1" && text(1).eq_ignore_ascii_case("integer");
                Column {
                    name: text(0).to_owned(),
                    type_name: text(1).to_owned(),
                    sent: field_type.as_ref().map_or(DataType::Utf8, sent),
                    field_type,
                    is_nullable: !is(2),
                    takes_utf8: true,
                    is_generated: !["0", ""].contains(&text(5)),
                    fills_itself: is(3) || is_number,
                }
            })
            .collect();
        Ok((!columns.is_empty()).then_some(columns))
    }

    fn made_as(&self, column: &NewColumn) -> String {
        let name = column.type_name.as_str();
        match (name, sql_types::field_type(name)) {
            ("jsonb", _) => "json".into(),
            ("bytea", _) => "blob".into(),
            ("numeric", _) => {
                let fraction = column.fraction.unwrap_or(6).min(DIGITS_MAX - 1);
                format!("numeric({DIGITS_MAX},{fraction})")
            }
            (_, Some(FieldType::Decimal { precision, .. })) if precision > DIGITS_MAX => {
                "text".into()
            }
            (_, Some(FieldType::Array(_))) => "text".into(),
            _ => name.to_owned(),
        }
    }

    fn measure(&self, field_type: &FieldType) -> Measure {
        use FieldType::{Boolean, Decimal, Float32, Float64, Int16, Int32, Int64};
        match field_type {
            Boolean | Int16 | Int32 | Int64 | Float32 | Float64 | Decimal { .. } => Measure::Value,
            _ => Measure::Length,
        }
    }

    fn sum(&self, column: &str, field_type: &FieldType, _: &Column) -> Terms {
        let value = match field_type {
            FieldType::Float32 | FieldType::Float64 => format!(
                "CASE WHEN abs({column}) < 1e12 THEN CAST({column} * 1024.0 AS INTEGER) ELSE 0 END"
            ),
            FieldType::Decimal { scale, .. } => {
                format!("CAST(round({column} * 1e{scale}) AS INTEGER)")
            }
            FieldType::Boolean | FieldType::Int16 | FieldType::Int32 | FieldType::Int64 => {
                column.to_owned()
            }
            // Not as many as would leave 64 bits.
            _ => return vec![(format!("sum(length(CAST({column} AS BLOB)))"), 1)],
        };
        vec![(format!("sum({value} / {HALF})"), HALF), (format!("sum({value} % {HALF})"), 1)]
    }

    fn writers(&self) -> Option<usize> {
        Some(1)
    }

    fn keeps_ledger(&self) -> bool {
        true
    }

    fn is_positional(&self) -> bool {
        false
    }

    fn greeting(&self) -> &'static [&'static str] {
        &["PRAGMA busy_timeout = 10000"]
    }
}

/// By SQLite's rules for declared types, those first that say more than an affinity.
fn field_type(declared: &str) -> Option<FieldType> {
    let name = declared.trim().to_ascii_lowercase();
    let has = |part: &str| name.contains(part);
    match sql_types::field_type(&name) {
        Some(FieldType::Decimal { precision, .. }) if precision > DIGITS_MAX => return None,
        Some(
            known @ (FieldType::Boolean
            | FieldType::Decimal { .. }
            | FieldType::Date
            | FieldType::Time
            | FieldType::Timestamp
            | FieldType::TimestampTz { .. }
            | FieldType::Uuid
            | FieldType::Json),
        ) => return Some(known),
        _ => {}
    }
    Some(match name.as_str() {
        "datetime" => FieldType::Timestamp,
        _ if has("int") => FieldType::Int64,
        _ if has("char") || has("clob") || has("text") => FieldType::text(),
        _ if has("blob") => FieldType::Bytea,
        "" => FieldType::text(),
        _ if has("real") || has("floa") || has("doub") => FieldType::Float64,
        _ => return None,
    })
}

fn sent(field_type: &FieldType) -> DataType {
    use FieldType::{Boolean, Bytea, Float64, Int64};
    match field_type {
        Boolean | Bytea | Float64 | Int64 => field_type.arrow(),
        _ => DataType::Utf8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_types_are_read_by_sqlites_rules() {
        let decimal = |precision, scale| Some(FieldType::Decimal { precision, scale });
        for (declared, known) in [
            ("INTEGER", Some(FieldType::Int64)),
            ("smallint", Some(FieldType::Int64)),
            ("VARCHAR(3)", Some(FieldType::text())),
            ("DECIMAL(15,2)", decimal(15, 2)),
            ("DECIMAL(16,2)", None),
            ("NUMERIC", None),
            ("double precision", Some(FieldType::Float64)),
            ("REAL", Some(FieldType::Float64)),
            ("datetime", Some(FieldType::Timestamp)),
            ("", Some(FieldType::text())),
            ("BLOB", Some(FieldType::Bytea)),
            ("geometry", None),
        ] {
            assert_eq!(field_type(declared), known, "{declared}");
        }
    }
}
