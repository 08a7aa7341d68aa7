//! How the files of a table are written. A file of its own, since every step knows it, and a plan all steps.

use fullbore_parse::dialect::Dialect;
use fullbore_read::columnar::Columnar;

/// How a table's sources are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    Delimited(Dialect),
    /// Rows come as batches.
    Columnar(Columnar),
}

impl Format {
    pub fn is_columnar(&self) -> bool {
        matches!(self, Self::Columnar(_))
    }
}
