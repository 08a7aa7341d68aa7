//! What a query returns, as text.

use std::str::FromStr;
use std::sync::Arc;

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::DataRowBody;

use super::error::ConnectionError;

/// A row: each value as the server prints it, or NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    columns: Arc<[String]>,
    values: Vec<Option<Box<str>>>,
}

/// The outcome of one or several statements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryResult {
    /// The rows of the last statement that returns any.
    pub rows: Vec<Row>,
    /// How many rows the last statement touched, where it says so.
    pub rows_affected: u64,
}

impl Row {
    pub(super) fn new(
        columns: &Arc<[String]>,
        body: &DataRowBody,
    ) -> Result<Self, ConnectionError> {
        let malformed = |error: std::io::Error| ConnectionError::protocol(error.to_string());
        let buffer = body.buffer();
        let mut values = Vec::with_capacity(columns.len());
        let mut ranges = body.ranges();
        while let Some(range) = ranges.next().map_err(malformed)? {
            let value = range
                .map(|range| {
                    // Invalid only where the database itself is SQL_ASCII: nobody converts there.
                    let bytes = buffer.get(range)?;
                    Some(String::from_utf8_lossy(bytes).into_owned().into_boxed_str())
                })
                .map(|value| value.ok_or_else(|| ConnectionError::protocol("a row cut short")))
                .transpose()?;
            values.push(value);
        }
        if values.len() != columns.len() {
            return Err(ConnectionError::protocol(format!(
                "a row of {} values for {} columns",
                values.len(),
                columns.len()
            )));
        }
        Ok(Self { columns: Arc::clone(columns), values })
    }

    /// A row of these columns and values: what reads rows can be tested without a server.
    pub fn of_values(columns: &[(&str, Option<&str>)]) -> Self {
        Self {
            columns: columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
            values: columns.iter().map(|(_, value)| value.map(Into::into)).collect(),
        }
    }

    /// A value by the column's index or name; `None` for NULL, and for a column that is not there.
    pub fn get<I: ColumnIndex>(&self, index: I) -> Option<&str> {
        self.values.get(index.of(&self.columns)?)?.as_deref()
    }

    /// Whether a value is true; NULL is not.
    pub fn flag<I: ColumnIndex>(&self, index: I) -> bool {
        self.get(index) == Some("t")
    }

    /// A value as a number, where it is one.
    pub fn number<T: FromStr>(&self, index: impl ColumnIndex) -> Option<T> {
        self.get(index)?.parse().ok()
    }

    /// A value of its own; empty for NULL.
    pub fn text<I: ColumnIndex>(&self, index: I) -> String {
        self.get(index).unwrap_or_default().to_owned()
    }

    /// The columns' names.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// What names a column.
pub trait ColumnIndex: sealed::Sealed {
    #[doc(hidden)]
    fn of(&self, columns: &[String]) -> Option<usize>;
}

impl ColumnIndex for usize {
    fn of(&self, _columns: &[String]) -> Option<usize> {
        Some(*self)
    }
}

impl ColumnIndex for &str {
    fn of(&self, columns: &[String]) -> Option<usize> {
        columns.iter().position(|column| column == self)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for usize {}
    impl Sealed for &str {}
}

/// The rows in a command's tag: the last word of `INSERT 0 5`, `COPY 5`, `UPDATE 3`.
pub(super) fn rows_of_tag(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags() {
        assert_eq!(rows_of_tag("INSERT 0 5"), 5);
        assert_eq!(rows_of_tag("COPY 18446744073709551615"), u64::MAX);
        assert_eq!(rows_of_tag("CREATE TABLE"), 0);
        assert_eq!(rows_of_tag(""), 0);
    }
}
