//! The statement that makes a table: from inferred columns, or from a schema file.

use fullbore_load::target::NewColumn;
use fullbore_pgwire::{ConnectionError, QualifiedName, quote_identifier};

use crate::types::own_with_schema;

/// `CREATE TABLE` for these columns.
pub fn create_table(
    table: &QualifiedName,
    columns: &[NewColumn],
    key: &[String],
    partition_by: Option<&str>,
) -> Result<String, ConnectionError> {
    let mut lines = columns
        .iter()
        .map(|column| {
            let type_name = own_with_schema(column.type_name.trim());
            Ok(format!("    {} {type_name}", quote_identifier(&column.name)?))
        })
        .collect::<Result<Vec<String>, ConnectionError>>()?;
    if !key.is_empty() {
        let key: Result<Vec<_>, _> = key.iter().map(|column| quote_identifier(column)).collect();
        lines.push(format!("    PRIMARY KEY ({})", key?.join(", ")));
    }
    let partition = match partition_by {
        Some(key) => format!(" PARTITION BY RANGE ({})", quote_identifier(key)?),
        None => String::new(),
    };
    Ok(format!("CREATE TABLE {table} (\n{}\n){partition}", lines.join(",\n")))
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
