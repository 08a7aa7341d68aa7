//! What became of a batch whose rows were transformed.

use arrow_array::RecordBatch;

pub struct Applied {
    pub batch: RecordBatch,
    /// The row that each row of the batch was, ascending; none where all are there.
    pub kept: Option<Vec<usize>>,
    /// Rows that the filter left out.
    pub filtered: u64,
    pub failed: Vec<Failed>,
}

/// A row that an expression has no value for, or that a check refuses.
pub struct Failed {
    pub row: usize,
    pub column: Option<String>,
    pub value: Option<String>,
    pub constraint: Option<String>,
    pub reason: String,
    pub hint: Option<&'static str>,
}
