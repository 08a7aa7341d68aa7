//! Inferred members: rows that a load adds to a table of the destination in which it looks keys up.

use fullbore_read::error::Result;

/// Adds rows to a table that keys are looked up in, while rows are loaded.
pub trait Members: std::fmt::Debug + Send + Sync {
    /// Inserts keys that the table lacks, each once, even if other sessions do the same; gives the rows of all of them as
    /// `Target::read_table` does. A key has a text for each of its columns.
    fn insert(&self, keys: &[Vec<String>], take: &mut dyn FnMut(&[u8]) -> Result<()>)
    -> Result<()>;
}
