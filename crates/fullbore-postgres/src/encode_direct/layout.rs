//! The layout of a table's rows, compiled once from the server's descriptor.

use std::collections::HashMap;

use fullbore_parse::types::{FieldType, ParseShape};

use crate::direct::{ColumnDescriptor, Descriptor};

/// Bytes of a tuple's header before its null bitmap (`SizeofHeapTupleHeader`).
const TUPLE_HEADER_BYTES: usize = 23;
/// What tuples and their data are aligned to, where a client can lay them out.
pub const MAXALIGN: usize = 8;

/// How the rows of a table are laid out.
#[derive(Debug, Clone)]
pub struct Layout {
    /// In the order of the table.
    pub columns: Vec<LayoutColumn>,
    /// A longer body travels out of band.
    pub body_bytes_max: usize,
    /// What stands before the data where a value is NULL: the bitmap and its padding.
    pub bitmap_bytes: usize,
}

/// How one column's values are laid out.
#[derive(Debug, Clone)]
pub struct LayoutColumn {
    /// The place among the columns that are parsed.
    pub source: usize,
    pub form: Form,
    /// What it is aligned to; a short varlena is not.
    pub align: usize,
    /// Whether a varlena may have a header of one byte.
    pub short: bool,
}

/// What a value becomes.
#[derive(Debug, Clone)]
pub enum Form {
    Boolean,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    Date,
    /// Microseconds, rounded to so many of them.
    Time {
        unit: i64,
    },
    Timestamp {
        unit: i64,
    },
    Uuid,
    Bytes,
    /// Padded with spaces to so many characters.
    Padded {
        characters: usize,
    },
    Decimal64 {
        scale: u8,
    },
    Decimal128 {
        scale: u8,
    },
    /// Decimal text; with the scale of the column where that has one.
    NumericText {
        scale: Option<u16>,
    },
    Enum(Labels),
}

/// The object ids of an enum's labels.
pub type Labels = HashMap<Vec<u8>, u32>;

impl Layout {
    /// Compiles the layout of rows that are parsed to `shape`.
    ///
    /// The error says why rows can't be laid out by a client and have to travel out of band.
    pub fn new(descriptor: &Descriptor, shape: &ParseShape) -> Result<Self, String> {
        let mut columns = Vec::with_capacity(descriptor.columns.len());
        for column in &descriptor.columns {
            let name = &column.name;
            let source = shape.columns.iter().position(|parsed| parsed.name == *name);
            let source = source.ok_or_else(|| format!("column {name} is not in the files"))?;
            let field_type = &shape.columns[source].field_type;
            let form = form(column, field_type).ok_or_else(|| {
                format!("column {name} is {}, which only the server can lay out", column.type_name)
            })?;
            if let Form::Padded { characters } = form
                && characters > descriptor.body_bytes_max
            {
                return Err(format!("column {name} is always longer than a row in its page"));
            }
            columns.push(LayoutColumn {
                source,
                form,
                align: column.align,
                short: column.storage != "plain",
            });
        }
        let bitmap_end = TUPLE_HEADER_BYTES + columns.len().div_ceil(8);
        Ok(Self {
            body_bytes_max: descriptor.body_bytes_max,
            bitmap_bytes: bitmap_end.next_multiple_of(MAXALIGN) - TUPLE_HEADER_BYTES,
            columns,
        })
    }
}

/// How fields of a type stand in a row, where the server's form is the one that they have here.
fn form(column: &ColumnDescriptor, field_type: &FieldType) -> Option<Form> {
    let unit = match column.modifier {
        // time(3) keeps milliseconds: a thousand microseconds.
        digits @ 0..6 => 10i64.pow(6 - digits as u32),
        _ => 1,
    };
    Some(match (column.form.as_deref()?, field_type) {
        ("bool", FieldType::Boolean) => Form::Boolean,
        ("int2", FieldType::Int16) => Form::Int16,
        ("int4", FieldType::Int32) => Form::Int32,
        ("int8", FieldType::Int64) => Form::Int64,
        ("float4", FieldType::Float32) => Form::Float32,
        ("float8", FieldType::Float64) => Form::Float64,
        ("date", FieldType::Date) => Form::Date,
        ("time", FieldType::Time) => Form::Time { unit },
        ("timestamp", FieldType::Timestamp) => Form::Timestamp { unit },
        ("timestamptz", FieldType::TimestampTz { .. }) => Form::Timestamp { unit },
        ("uuid", FieldType::Uuid) => Form::Uuid,
        ("text" | "varchar", FieldType::Text { .. }) => Form::Bytes,
        ("bpchar", FieldType::Text { characters_max: None }) => Form::Bytes,
        ("bpchar", FieldType::Text { characters_max: Some(characters) }) => {
            Form::Padded { characters: *characters as usize }
        }
        ("bytea", FieldType::Bytea) | ("json", FieldType::Json) => Form::Bytes,
        ("numeric", FieldType::Decimal { precision, scale }) if *precision <= 18 => {
            Form::Decimal64 { scale: *scale }
        }
        ("numeric", FieldType::Decimal { scale, .. }) => Form::Decimal128 { scale: *scale },
        ("numeric", FieldType::NumericText { limits }) => {
            Form::NumericText { scale: limits.map(|(_, scale)| scale) }
        }
        ("enum", FieldType::Enum { .. }) => {
            let labels = column.labels.iter().flatten();
            Form::Enum(labels.map(|(label, oid)| (label.clone().into_bytes(), *oid)).collect())
        }
        _ => return None,
    })
}
