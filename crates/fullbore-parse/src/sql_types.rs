//! SQL's names of the types that fields are parsed into.

use super::types::FieldType;

/// What a SQL type is parsed into, for destinations without a server to ask: the names of
/// PostgreSQL's manual, `numeric(15,2)` and `varchar(10)` among them.
pub fn field_type(type_name: &str) -> Option<FieldType> {
    let name = type_name.trim().to_ascii_lowercase();
    if let Some(item) = name.strip_suffix("[]") {
        return Some(FieldType::Array(Box::new(field_type(item)?)));
    }
    let (base, arguments) = match name.split_once('(') {
        Some((base, rest)) => (base.trim(), Some(rest.strip_suffix(')')?)),
        None => (name.as_str(), None),
    };
    let numbers: Option<Vec<u32>> = arguments
        .map(|a| a.split(',').map(|n| n.trim().parse().ok()).collect())
        .unwrap_or(Some(vec![]));
    let numbers = numbers?;
    Some(match (base, numbers.as_slice()) {
        ("boolean" | "bool", []) => FieldType::Boolean,
        ("smallint" | "int2", []) => FieldType::Int16,
        ("integer" | "int" | "int4", []) => FieldType::Int32,
        ("bigint" | "int8", []) => FieldType::Int64,
        ("real" | "float4", []) => FieldType::Float32,
        ("double precision" | "float8", []) => FieldType::Float64,
        ("numeric" | "decimal", []) => FieldType::NumericText { limits: None },
        ("numeric" | "decimal", [precision @ 1..=38]) => {
            FieldType::Decimal { precision: *precision as u8, scale: 0 }
        }
        ("numeric" | "decimal", [precision @ 1..=38, scale]) if scale <= precision => {
            FieldType::Decimal { precision: *precision as u8, scale: *scale as u8 }
        }
        ("text", []) => FieldType::text(),
        ("varchar" | "character varying" | "char" | "character", [limit]) => {
            FieldType::Text { characters_max: Some(*limit) }
        }
        ("date", []) => FieldType::Date,
        ("time", []) => FieldType::Time,
        ("timestamp", []) => FieldType::Timestamp,
        ("timestamptz" | "timestamp with time zone", []) => {
            FieldType::TimestampTz { zoneless_is_utc: true }
        }
        ("uuid", []) => FieldType::Uuid,
        ("bytea", []) => FieldType::Bytea,
        ("json", []) => FieldType::Json,
        ("jsonb", []) => FieldType::Jsonb,
        _ => return None,
    })
}

/// The SQL type that holds what is parsed.
pub fn type_name(field_type: &FieldType) -> String {
    match field_type {
        FieldType::Boolean => "boolean".into(),
        FieldType::Int16 => "smallint".into(),
        FieldType::Int32 => "integer".into(),
        FieldType::Int64 => "bigint".into(),
        FieldType::Float32 => "real".into(),
        FieldType::Float64 => "double precision".into(),
        FieldType::Decimal { precision, scale } => format!("numeric({precision},{scale})"),
        FieldType::NumericText { limits: Some((precision, scale)) } => {
            format!("numeric({precision},{scale})")
        }
        FieldType::NumericText { limits: None } => "numeric".into(),
        FieldType::Text { characters_max: Some(limit) } => format!("varchar({limit})"),
        FieldType::Text { characters_max: None } | FieldType::Enum { .. } => "text".into(),
        FieldType::Date => "date".into(),
        FieldType::Time => "time".into(),
        FieldType::Timestamp => "timestamp".into(),
        FieldType::TimestampTz { .. } => "timestamptz".into(),
        FieldType::Uuid => "uuid".into(),
        FieldType::Bytea => "bytea".into(),
        FieldType::Json => "json".into(),
        FieldType::Jsonb => "jsonb".into(),
        FieldType::Array(item) => format!("{}[]", type_name(item)),
    }
}
