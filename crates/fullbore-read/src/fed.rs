//! What feeds give: a block of text, or rows that came as a batch.

use arrow_array::RecordBatch;

/// What a feed gave.
pub enum Fed {
    Block,
    Rows(Rows),
    /// Nothing now: others hold the memory that it needs.
    Later,
    End,
}

/// Rows of a file that came as a batch.
pub struct Rows {
    pub batch: RecordBatch,
    pub file: usize,
    /// Which row of the file each is, from 0.
    pub numbers: Vec<u64>,
    /// Rows that stood among them and can't be loaded.
    pub faults: Vec<RowFault>,
    /// Values whose nanoseconds were rounded.
    pub rounded: u64,
}

/// A row that came as values and can't be loaded.
#[derive(Debug)]
pub struct RowFault {
    /// Its row in the file, from 0.
    pub row: u64,
    pub column: Option<String>,
    pub value: Option<String>,
    pub reason: String,
    /// What stands for it in the reject file.
    pub raw: Vec<u8>,
}
