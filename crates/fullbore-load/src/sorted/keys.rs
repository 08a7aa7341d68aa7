//! Keys of rows as bytes, which compare as their rows do.

use std::ops::Range;

use arrow_array::ArrayRef;
use arrow_row::{RowConverter, RowParser, Rows, SortField};
use arrow_schema::ArrowError;

use super::bytes::first_bytes;

/// A column that rows are put in order by. NULLs come last, or first where it descends, as in PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    pub column: String,
    pub descends: bool,
}

/// Columns in Arrow's own row format.
pub struct Rowed {
    converter: RowConverter,
    parser: RowParser,
}

impl Rowed {
    pub fn new(columns: Vec<SortField>) -> Result<Self, ArrowError> {
        let converter = RowConverter::new(columns)?;
        Ok(Self { parser: converter.parser(), converter })
    }

    pub fn rows(&self, columns: &[ArrayRef]) -> Result<Rows, ArrowError> {
        self.converter.convert_columns(columns)
    }

    pub fn columns(&self, rows: &[&[u8]]) -> Result<Vec<ArrayRef>, ArrowError> {
        self.converter.convert_rows(rows.iter().map(|row| self.parser.parse(row)))
    }
}

/// The bytes that all keys begin with; `None` before there are any.
#[derive(Default)]
pub struct Common(Option<Vec<u8>>);

impl Common {
    /// Takes note of a key, or of what several begin with.
    pub fn note(&mut self, key: &[u8]) {
        match &mut self.0 {
            None => self.0 = Some(key.to_vec()),
            Some(common) => {
                let alike = common.iter().zip(key).take_while(|(one, other)| one == other);
                common.truncate(alike.count());
            }
        }
    }

    pub fn bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }

    /// The same, in no more memory than it needs.
    pub fn shrunk(mut self) -> Self {
        self.0.iter_mut().for_each(Vec::shrink_to_fit);
        self
    }
}

/// Bytes of keys that are compared at once.
pub const PREFIX_BYTES: usize = size_of::<u128>();

/// The first bytes of a key after the `common` ones that all keys begin with, as a number; zeros where it is
/// shorter. The key stands here among records.
pub fn prefix(records: &[u8], key: &Range<usize>, common: usize) -> u128 {
    let start = key.end.min(key.start + common);
    let bytes = PREFIX_BYTES.min(key.end - start);
    // What follows the key is no part of it.
    let others = u128::MAX.checked_shr(8 * bytes as u32).unwrap_or_default();
    u128::from_be_bytes(first_bytes(&records[start..])) & !others
}
