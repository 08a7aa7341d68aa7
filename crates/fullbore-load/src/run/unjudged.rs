//! Why rows are refused by destinations that judge none: the first value that is not canonical, and its column.

use fullbore_parse::block::Block;
use fullbore_parse::dialect::Dialect;
use fullbore_parse::sql_types::type_name;
use fullbore_parse::types::{FieldType, ParseColumn, ParseShape};
use fullbore_parse::{Parsed, Parser};

use crate::sink::{Refusal, TextRows};

/// SQL's code for a value that can't be one of its type.
const DATA_EXCEPTION: &str = "22000";

/// Refuses all of these rows, which were set aside since they are not canonical.
pub fn refusals(shape: &ParseShape, rows: TextRows<'_>) -> Vec<Refusal> {
    let mut parsers: Vec<Parser> =
        shape.columns.iter().enumerate().map(|(at, column)| parser_of(shape, at, column)).collect();
    let lines = rows.parts.iter().flat_map(|part| part.split_inclusive(|byte| *byte == b'\n'));
    let numbered = (0..rows.rows).zip(lines);
    numbered.map(|(row, line)| refusal(row, line, shape, &mut parsers)).collect()
}

/// Parses one column of lines of COPY's text format.
fn parser_of(shape: &ParseShape, at: usize, column: &ParseColumn) -> Parser {
    let column = ParseColumn { field: at, ..column.clone() };
    let names = shape.columns.iter().map(|column| column.name.clone()).collect();
    let alone = ParseShape {
        fields: shape.columns.len(),
        field_names: names,
        ..ParseShape::of_one(column)
    };
    Parser::new(Dialect::text(), alone.into())
}

fn refusal(row: u64, line: &[u8], shape: &ParseShape, parsers: &mut [Parser]) -> Refusal {
    let block = Block::of(line);
    let is_odd = |parsed: Parsed| !parsed.odd.is_empty() || !parsed.faults.is_empty();
    let found = parsers.iter_mut().position(|parser| is_odd(parser.parse(&block)));
    let column = found.map(|at| &shape.columns[at]);
    let value = found.and_then(|at| line.trim_ascii_end().split(|byte| *byte == b'\t').nth(at));
    let reason = match column {
        Some(ParseColumn { field_type: FieldType::Enum { .. }, .. }) => {
            "the value is none of the column's labels".into()
        }
        Some(column) => {
            format!("the value is not in the canonical form of {}", type_name(&column.field_type))
        }
        None => "a value is not in the canonical form of its type".into(),
    };
    Refusal {
        row,
        column: column.map(|column| column.name.clone()),
        value: value.map(|value| String::from_utf8_lossy(value).into_owned()),
        constraint: None,
        code: DATA_EXCEPTION.into(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_of_the_first_odd_value_is_named() {
        let column = |name: &str, field, field_type| ParseColumn {
            name: name.into(),
            field,
            field_type,
            guess: None,
        };
        // As they stand in the source, which has other fields besides.
        let columns = vec![
            column("id", 3, FieldType::Int32),
            column("day", 1, FieldType::Date),
            column("note", 0, FieldType::text()),
        ];
        let shape = ParseShape { fields: 4, ..ParseShape::of_one(columns[0].clone()) };
        let shape = ParseShape { columns, ..shape };
        let text = b"1\t2024-13-01\tx\nseven\tnever\t\\N\n5\t\\N\ty\n";
        let found = refusals(&shape, TextRows { parts: &[text], rows: 3 });
        let told: Vec<_> =
            found.iter().map(|r| (r.row, r.column.as_deref(), r.value.as_deref())).collect();
        let expected =
            [(0, Some("day"), Some("2024-13-01")), (1, Some("id"), Some("seven")), (2, None, None)];
        assert_eq!(told, expected);
        assert_eq!(found[1].reason, "the value is not in the canonical form of integer");
    }
}
