//! The columns of a table that is read, and how they are asked for.

use fullbore_parse::types::FieldType;
use fullbore_pgwire::quote_identifier;

use crate::catalog::Relation;

/// A column of a source.
#[derive(Debug, Clone)]
pub struct SourceColumn {
    pub name: String,
    pub type_name: String,
    /// Any server has its type.
    pub is_known: bool,
    /// What it is read as.
    pub field_type: FieldType,
    /// What the statement asks for: itself, or its text.
    pub expression: String,
}

/// Whether values of a type are read as they are; others are asked for as text.
fn is_read(field_type: &FieldType) -> bool {
    !matches!(field_type, FieldType::NumericText { .. } | FieldType::Array(_))
}

/// All columns; what the server generates is the target's to make again.
pub fn of(relation: &Relation, as_text: bool) -> Vec<SourceColumn> {
    let columns = relation.columns.iter().filter(|column| !column.is_generated);
    columns
        .filter_map(|column| {
            let quoted = quote_identifier(&column.name).ok()?;
            let known = column.catalog_type.field_type(true).filter(is_read).filter(|_| !as_text);
            let is_enum = matches!(known, Some(FieldType::Enum { .. }));
            let expression = match &known {
                Some(_) if !is_enum => quoted,
                _ => format!("{quoted}::text"),
            };
            Some(SourceColumn {
                name: column.name.clone(),
                type_name: column.type_name.clone(),
                is_known: column.catalog_type.is_built_in(),
                field_type: known.unwrap_or_else(FieldType::text),
                expression,
            })
        })
        .collect()
}
