//! What is known of a source of columns before its rows are read.

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;

/// What kind of columns a source has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columnar {
    Parquet,
    Arrow,
}

impl Columnar {
    /// Its name in records of runs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
        }
    }

    /// Its name for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Parquet => "Parquet",
            Self::Arrow => "Arrow",
        }
    }
}

/// What the planner wants to know of a source.
pub struct Inspected {
    pub schema: SchemaRef,
    /// Rows and bytes of each group of rows; none of what can be read only once.
    pub groups: Vec<(u64, u64)>,
}

/// The smallest and largest value of a column in a group of rows, in the column's target type.
pub struct GroupRange {
    pub rows: u64,
    /// Both as arrays of one value; none where they are not known exactly, or there are NULLs.
    pub ends: Option<(ArrayRef, ArrayRef)>,
}
