//! The types of the columns that pass from parser to encoder.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::json::JsonFields;

/// Largest precision that fits a 64-bit decimal.
pub const DECIMAL64_PRECISION_MAX: u8 = 18;
/// Largest precision that fits a 128-bit decimal.
pub const DECIMAL128_PRECISION_MAX: u8 = 38;

/// The type that a column's fields are parsed into.
///
/// Each variant names the one Arrow type that carries it (see [`FieldType::arrow`]); a destination
/// maps its own column types onto these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldType {
    Boolean,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    /// Exact decimal of at most 38 digits; `scale` digits after the point.
    Decimal {
        precision: u8,
        scale: u8,
    },
    /// Exact decimal of any size, carried as its canonical text. With limits, both are given.
    NumericText {
        limits: Option<(u16, u16)>,
    },
    /// Text; `characters_max` where the type is limited.
    Text {
        characters_max: Option<u32>,
    },
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since midnight.
    Time,
    /// Microseconds since 1970-01-01 00:00, no zone.
    Timestamp,
    /// Microseconds since 1970-01-01 00:00 UTC. `zoneless_is_utc` says whether a value without a
    /// zone may be read as UTC; otherwise such a value is left to the server.
    TimestampTz {
        zoneless_is_utc: bool,
    },
    Uuid,
    Bytea,
    /// JSON text, passed through; the server checks it.
    Json,
    Jsonb,
    /// One of the labels, as text.
    Enum {
        labels: Arc<[String]>,
    },
    /// A one-dimensional array.
    Array(Box<FieldType>),
}

impl FieldType {
    /// The Arrow type of the column.
    pub fn arrow(&self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Int16 => DataType::Int16,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Decimal { precision, scale } if *precision <= DECIMAL64_PRECISION_MAX => {
                DataType::Decimal64(*precision, *scale as i8)
            }
            Self::Decimal { precision, scale } => DataType::Decimal128(*precision, *scale as i8),
            Self::NumericText { .. }
            | Self::Text { .. }
            | Self::Json
            | Self::Jsonb
            | Self::Enum { .. } => DataType::Utf8,
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::TimestampTz { .. } => {
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
            }
            Self::Uuid => DataType::FixedSizeBinary(16),
            Self::Bytea => DataType::Binary,
            Self::Array(item) => DataType::List(Arc::new(Field::new("item", item.arrow(), true))),
        }
    }

    /// Plain text without limit: the type of every column when a table goes as text.
    pub fn text() -> Self {
        Self::Text { characters_max: None }
    }
}

/// One column to be parsed: where its field stands and what it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseColumn {
    /// The target column's name.
    pub name: String,
    /// The field's place in the record, from 0.
    pub field: usize,
    pub field_type: FieldType,
    /// The type that was guessed for the column, if it was: what it does not give back is rejected.
    pub guess: Option<FieldType>,
}

/// The shape of a record and what becomes of each of its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseShape {
    /// Fields in each record, the empty one after a trailing delimiter not counted.
    pub fields: usize,
    /// The target's columns, in the order in which they are sent.
    pub columns: Vec<ParseColumn>,
    /// The name of each field, for messages; skipped ones included.
    pub field_names: Vec<String>,
    /// Of files whose fields have another order: by file, the place of each field.
    pub orders: BTreeMap<usize, Arc<[usize]>>,
    /// Of JSON lines, how fields are found and what they become.
    pub json: Option<Arc<JsonFields>>,
}

impl ParseShape {
    /// The columns of its batches.
    pub fn schema(&self) -> SchemaRef {
        let fields = self.columns.iter();
        let fields = fields.map(|column| Field::new(&column.name, column.field_type.arrow(), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Records of one field, which becomes this column.
    pub fn of_one(column: ParseColumn) -> Self {
        Self {
            fields: 1,
            field_names: vec![column.name.clone()],
            columns: vec![column],
            orders: BTreeMap::new(),
            json: None,
        }
    }

    /// Records with a field for each of these columns, in their order.
    pub fn of_all(columns: &[(String, FieldType)]) -> Self {
        let parsed = columns.iter().enumerate().map(|(field, (name, field_type))| ParseColumn {
            name: name.clone(),
            field,
            field_type: field_type.clone(),
            guess: None,
        });
        Self {
            fields: columns.len(),
            field_names: columns.iter().map(|(name, _)| name.clone()).collect(),
            columns: parsed.collect(),
            orders: BTreeMap::new(),
            json: None,
        }
    }

    /// Of each field of a file's records whether a column is made of it.
    pub fn loaded_fields(&self, file: usize) -> Vec<bool> {
        let mut is_loaded = vec![false; self.fields];
        for column in self.columns.iter().filter(|column| column.field < self.fields) {
            is_loaded[self.place(file, column.field)] = true;
        }
        is_loaded
    }

    /// Where a field stands in the records of a file.
    pub fn place(&self, file: usize, field: usize) -> usize {
        self.orders.get(&file).map_or(field, |order| order[field])
    }

    /// What the field is called that stands at a place in the records of a file.
    pub fn name_at(&self, file: usize, place: usize) -> &str {
        let field = match self.orders.get(&file) {
            Some(order) => order.iter().position(|found| *found == place),
            None => Some(place),
        };
        field.and_then(|field| self.field_names.get(field)).map_or("?", String::as_str)
    }
}
