//! When each piece was under way.

/// How one piece went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PieceTime {
    pub piece: usize,
    pub table: usize,
    pub stream: usize,
    /// The file of its table that it is from, or the first of them.
    pub file: Option<usize>,
    /// The file is read on by all streams that have pieces of it: they wait for it together.
    pub is_shared: bool,
    pub bytes: u64,
    /// In seconds; the beginning is from any moment, the same for all pieces of a run.
    pub began: f64,
    pub seconds: f64,
}

impl PieceTime {
    pub fn ended(&self) -> f64 {
        self.began + self.seconds
    }

    /// Whether both are of a source that is read on.
    pub fn shares_source(&self, other: &Self) -> bool {
        self.is_shared && other.is_shared && (self.table, self.file) == (other.table, other.file)
    }

    /// Seconds a byte.
    pub fn pace(&self) -> f64 {
        self.seconds / self.bytes.max(1) as f64
    }
}
