//! DuckDB.

use arrow_schema::DataType;
use fullbore_load::target::NewColumn;
use fullbore_parse::sql_types;
use fullbore_parse::types::FieldType;
use fullbore_pgwire::QualifiedName;
use fullbore_read::error::Result;

use super::{Dialect, Measure, Terms, is_value, literal};
use crate::link::Link;
use crate::table::Column;

/// Digits that are left of the largest sum that there can be, for the values of one column of 10^11 rows.
const DIGITS_SUMMED_MAX: u8 = 27;

/// A transaction of less than some row groups (122,880 rows each) goes through the log and is written twice.
/// lineitem of 760 MB took 20 s in pieces of 16 MB, 10 s in pieces of 95.
const PIECE_BYTES_LEAST: u64 = 96 << 20;

pub struct DuckDb;

impl Dialect for DuckDb {
    fn name(&self) -> &'static str {
        "DuckDB"
    }

    fn columns(&self, link: &mut dyn Link, table: &QualifiedName) -> Result<Option<Vec<Column>>> {
        let schema = match table.schema() {
            Some(schema) => literal(schema)?,
            None => "current_schema()".into(),
        };
        let rows = link.query(&format!(
            "SELECT column_name, data_type, is_nullable, column_default IS NOT NULL
               FROM duckdb_columns()
              WHERE database_name = current_database() AND NOT internal
                AND lower(schema_name) = lower({schema}) AND lower(table_name) = lower({})
              ORDER BY column_index",
            literal(table.name())?
        ))?;
        let is = |value: &Option<String>| value.as_deref() == Some("true");
        let columns: Vec<Column> = rows
            .into_iter()
            .map(|row| {
                let text = |at: usize| row[at].clone().unwrap_or_default();
                let field_type = field_type(&text(1));
                Column {
                    name: text(0),
                    type_name: text(1),
                    sent: field_type.as_ref().map_or(DataType::Utf8, sent),
                    field_type,
                    is_nullable: is(&row[2]),
                    takes_utf8: true,
                    is_generated: false,
                    fills_itself: is(&row[3]),
                }
            })
            .collect();
        Ok((!columns.is_empty()).then_some(columns))
    }

    fn made_as(&self, column: &NewColumn) -> String {
        match (column.type_name.as_str(), column.fraction) {
            ("jsonb", _) => "JSON".into(),
            ("bytea", _) => "BLOB".into(),
            ("jsonb[]", _) => "JSON[]".into(),
            // Without limits a decimal has 18 digits here, 3 of them after the point.
            ("numeric", fraction) => format!("DECIMAL(38,{})", fraction.unwrap_or(18)),
            (other, _) => other.to_owned(),
        }
    }

    fn measure(&self, field_type: &FieldType) -> Measure {
        match field_type {
            FieldType::Decimal { precision, .. } if *precision > DIGITS_SUMMED_MAX => {
                Measure::Count
            }
            FieldType::Uuid | FieldType::Array(_) => Measure::Count,
            value if is_value(value) => Measure::Value,
            _ => Measure::Length,
        }
    }

    fn sum(&self, column: &str, field_type: &FieldType, _: &Column) -> Terms {
        let term = match field_type {
            FieldType::Boolean => format!("sum({column}::INTEGER)"),
            FieldType::Float32 | FieldType::Float64 => format!(
                "sum(CASE WHEN abs({column}::DOUBLE) < 1e12
                          THEN CAST(trunc({column}::DOUBLE * 1024) AS HUGEINT) ELSE 0 END)"
            ),
            FieldType::Date => format!("sum({column} - DATE '1970-01-01')"),
            FieldType::Time | FieldType::Timestamp | FieldType::TimestampTz { .. } => {
                format!("sum(epoch_us({column})::HUGEINT)")
            }
            FieldType::Bytea => format!("sum(octet_length({column}))"),
            FieldType::Text { .. } | FieldType::Json | FieldType::Enum { .. } => {
                format!("sum(strlen({column}::VARCHAR))")
            }
            _ => format!("sum({column})"),
        };
        vec![(term, 1)]
    }

    fn writers(&self) -> Option<usize> {
        None
    }

    fn piece_bytes_least(&self) -> u64 {
        PIECE_BYTES_LEAST
    }

    fn keeps_ledger(&self) -> bool {
        true
    }

    fn is_positional(&self) -> bool {
        true
    }

    fn settles(&self) -> Option<&'static str> {
        Some("CHECKPOINT")
    }

    fn greeting(&self) -> &'static [&'static str] {
        // Moments without a zone are taken as UTC by the parser.
        &["SET TimeZone = 'UTC'"]
    }
}

fn field_type(type_name: &str) -> Option<FieldType> {
    if let Some(item) = type_name.strip_suffix("[]") {
        return match field_type(item)? {
            FieldType::Array(_) | FieldType::Uuid | FieldType::Enum { .. } => None,
            item => Some(FieldType::Array(Box::new(item))),
        };
    }
    Some(match type_name {
        "VARCHAR" => FieldType::text(),
        "FLOAT" => FieldType::Float32,
        "DOUBLE" => FieldType::Float64,
        "BLOB" => FieldType::Bytea,
        _ if type_name.starts_with("ENUM(") => {
            FieldType::Enum { labels: labels(&type_name[4..])?.into() }
        }
        _ => match sql_types::field_type(type_name)? {
            FieldType::NumericText { .. } | FieldType::Jsonb => return None,
            known => known,
        },
    })
}

/// The labels of `('a', 'it''s')`.
pub fn labels(listed: &str) -> Option<Vec<String>> {
    let mut rest = listed.strip_prefix('(')?.strip_suffix(')')?;
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start().strip_prefix('\'')?;
        let mut label = String::new();
        loop {
            let end = rest.find('\'')?;
            label.push_str(&rest[..end]);
            rest = &rest[end + 1..];
            match rest.strip_prefix('\'') {
                Some(more) => {
                    label.push('\'');
                    rest = more;
                }
                None => break,
            }
        }
        labels.push(label);
        match rest.trim_start().strip_prefix(',') {
            Some(more) => rest = more,
            None if rest.trim().is_empty() => return Some(labels),
            None => return None,
        }
    }
}

fn sent(field_type: &FieldType) -> DataType {
    match field_type {
        FieldType::Uuid => DataType::Utf8,
        other => other.arrow(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_hold_every_value_are_known_and_others_are_not() {
        let decimal = |precision, scale| Some(FieldType::Decimal { precision, scale });
        let array = |item| Some(FieldType::Array(Box::new(item)));
        for (name, known) in [
            ("BIGINT", Some(FieldType::Int64)),
            ("DECIMAL(15,2)", decimal(15, 2)),
            ("TIMESTAMP WITH TIME ZONE", Some(FieldType::TimestampTz { zoneless_is_utc: true })),
            ("INTEGER[]", array(FieldType::Int32)),
            ("UUID", Some(FieldType::Uuid)),
            ("HUGEINT", None),
            ("UTINYINT", None),
            ("TIMESTAMP_NS", None),
            ("STRUCT(a INTEGER)", None),
            ("INTEGER[][]", None),
            ("INTEGER[3]", None),
        ] {
            assert_eq!(field_type(name), known, "{name}");
        }
    }

    #[test]
    fn labels_are_read_with_their_quotes() {
        assert_eq!(labels("('a', 'it''s', 'b,c')").expect("labels"), ["a", "it's", "b,c"]);
        assert_eq!(labels("('a"), None);
    }
}
