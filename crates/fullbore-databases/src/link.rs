//! A connection to a database. Nothing is committed unless [`Link::commit`] is called.

use fullbore_pgwire::QualifiedName;
use fullbore_read::error::Result;

use crate::sent::Form;

/// One row of an answer, every value as text.
pub type Row = Vec<Option<String>>;

pub trait Link: Send {
    fn execute(&mut self, sql: &str) -> Result<()>;
    /// The rows of an answer.
    fn query(&mut self, sql: &str) -> Result<Vec<Row>>;
    fn commit(&mut self) -> Result<()>;
    fn rollback(&mut self) -> Result<()>;
    /// The columns of a table as Arrow has them, where only the driver knows them; none where there is no such table.
    fn schema_of(&mut self, table: &QualifiedName) -> Result<Option<arrow_schema::Schema>>;
    /// Begins to append rows of a form to a table.
    fn ingest(&mut self, table: &QualifiedName, form: &Form) -> Result<Box<dyn Ingest>>;

    /// The rows of an answer, while nothing is under way: no lock of it stays.
    fn ask(&mut self, sql: &str) -> Result<Vec<Row>> {
        let rows = self.query(sql);
        self.rollback()?;
        rows
    }
}

/// Rows on their way into a table. What was sent of those that are dropped before their end is rolled back with the
/// transaction.
pub trait Ingest: Send {
    /// Sends what an encoder of the link's kind has written.
    fn send(&mut self, encoded: &[u8]) -> Result<()>;
    /// The rows are all sent; how many were taken, where that is said.
    fn end(&mut self) -> Result<Option<u64>>;
}
