//! The statement that makes a table: from inferred columns, or from a schema file.

use fullbore_parse::types::FieldType;

use crate::connection::{ConnectionError, QualifiedName, quote_identifier};
use crate::types::own_with_schema;

/// A column to be made.
#[derive(Debug, Clone)]
pub struct NewColumn {
    pub name: String,
    /// The SQL type, as it is to be written.
    pub type_name: String,
}

/// `CREATE TABLE` for these columns.
pub fn create_table(
    table: &QualifiedName,
    columns: &[NewColumn],
    partition_by: Option<&str>,
) -> Result<String, ConnectionError> {
    let columns: Result<Vec<String>, ConnectionError> = columns
        .iter()
        .map(|column| {
            let type_name = own_with_schema(column.type_name.trim());
            Ok(format!("    {} {type_name}", quote_identifier(&column.name)?))
        })
        .collect();
    let partition = match partition_by {
        Some(key) => format!(" PARTITION BY RANGE ({})", quote_identifier(key)?),
        None => String::new(),
    };
    Ok(format!("CREATE TABLE {table} (\n{}\n){partition}", columns?.join(",\n")))
}

/// A schema file's statement, partitioned where that is asked for and not written in it.
pub fn with_partition(sql: &str, partition_by: Option<&str>) -> Result<String, ConnectionError> {
    let (words, end) = outline(sql);
    let is_partitioned = words.windows(2).any(|pair| pair == ["partition", "by"]);
    // Without what follows: a comment would swallow the clause.
    let statement = &sql[..end];
    match partition_by {
        Some(key) if !is_partitioned => {
            Ok(format!("{statement}\nPARTITION BY RANGE ({})", quote_identifier(key)?))
        }
        _ => Ok(statement.to_owned()),
    }
}

/// The words of a statement outside quotes and comments, in lower case, and where it ends, without
/// semicolon and comments behind it.
fn outline(sql: &str) -> (Vec<String>, usize) {
    let (mut words, mut end, mut at) = (Vec::new(), 0, 0);
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    while let Some(&byte) = sql.as_bytes().get(at) {
        let rest = &sql[at..];
        let until = |closing: &str, from: usize| {
            rest[from..].find(closing).map_or(rest.len(), |found| from + found + closing.len())
        };
        let (length, counts) = match byte {
            b'-' if rest.starts_with("--") => (until("\n", 2), false),
            b'/' if rest.starts_with("/*") => (until("*/", 2), false),
            // Doubled within, they end and begin again.
            b'\'' => (until("'", 1), true),
            b'"' => (until("\"", 1), true),
            b';' => (1, false),
            byte if byte.is_ascii_whitespace() => (1, false),
            byte if is_word(byte) => {
                let length = rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len());
                words.push(rest[..length].to_ascii_lowercase());
                (length, true)
            }
            _ => (1, true),
        };
        at += length;
        if counts {
            end = at;
        }
    }
    (words, end)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clause_stands_behind_the_statement_and_not_in_a_comment() {
        let made = |sql| with_partition(sql, Some("k")).expect("quoted");
        let clause = "\nPARTITION BY RANGE (\"k\")";
        let plain = "CREATE TABLE t (k int)";
        for sql in [plain, "CREATE TABLE t (k int);\n-- end", "CREATE TABLE t (k int) /* ; */ ;\n"]
        {
            assert_eq!(made(sql), format!("{plain}{clause}"));
        }
        let talks = "CREATE TABLE t (k int -- no PARTITION BY\n, s text DEFAULT 'partition by;')";
        assert_eq!(made(talks), format!("{talks}{clause}"));
        for sql in [
            "CREATE TABLE t (k int) PARTITION  BY RANGE (k)",
            "create table t (k int) partition\nby list (k)",
        ] {
            assert_eq!(made(sql), sql);
        }
        assert_eq!(with_partition("CREATE TABLE t (k int) ; ", None).expect("as it is"), plain);
    }
}
