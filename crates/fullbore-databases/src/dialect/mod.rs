//! What databases write otherwise: how they name their columns' types, which Arrow types their drivers take, and
//! the SQL of sums.

mod duckdb;
mod exchange;
mod mysql;
mod other;
mod sqlite;

use fullbore_load::sink::Encoder;
use fullbore_load::target::NewColumn;
use fullbore_parse::types::FieldType;
use fullbore_pgwire::QualifiedName;
use fullbore_read::error::{Error, Result};
use fullbore_record::terms::Publish;

use crate::link::Link;
use crate::place::Kind;
use crate::sent::{BatchEncoder, Form};
use crate::table::{Column, Table};

/// What of a column's values is added up, by both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The values: numbers without their decimal point, floating ones in 1024ths, days, microseconds.
    Value,
    /// The bytes of each value in the form in which it is sent.
    Length,
    /// Nothing: only how many are not NULL.
    Count,
}

/// A sum that a database makes: all terms together, each times its weight.
pub type Terms = Vec<(String, i128)>;

pub trait Dialect: Send + Sync {
    /// The database, as people call it.
    fn name(&self) -> &'static str;
    /// The columns of a table; none where there is no such table.
    fn columns(&self, link: &mut dyn Link, table: &QualifiedName) -> Result<Option<Vec<Column>>>;
    /// The columns of a table that a statement would make: it is made, looked at, and taken back with the transaction.
    fn columns_made(
        &self,
        link: &mut dyn Link,
        table: &QualifiedName,
        create: &str,
    ) -> Result<Option<Vec<Column>>> {
        link.execute(create)?;
        self.columns(link, table)
    }
    /// The type of a column to be made, given as PostgreSQL names it or as the database does.
    fn made_as(&self, column: &NewColumn) -> String;
    fn measure(&self, field_type: &FieldType) -> Measure;
    /// The SQL that adds up a column's values, named by its quoted name and sent as a type.
    fn sum(&self, quoted: &str, sent: &FieldType, column: &Column) -> Terms;
    /// By how many connections sums are asked for, which see the same rows.
    fn summing_sessions(&self) -> usize {
        1
    }
    /// How rows are sent, in words.
    fn sends(&self) -> String {
        format!("rows go as Arrow batches to the driver of {}", self.name())
    }
    /// What turns batches into what a link of the database sends.
    fn encoder(&self, form: Form) -> Box<dyn Encoder> {
        Box::new(BatchEncoder(form))
    }
    /// Makes the table in which rows of these columns are staged.
    fn make_stage(
        &self,
        link: &mut dyn Link,
        table: &Table,
        stage: &QualifiedName,
        columns: &str,
    ) -> Result<()> {
        let name = &table.name;
        link.execute(&format!("CREATE TABLE {stage} AS SELECT {columns} FROM {name} WHERE 1 = 0"))
    }
    /// Shows staged rows: adds them to the table, or puts them in the place of its own.
    fn show(
        &self,
        link: &mut dyn Link,
        table: &Table,
        stage: &QualifiedName,
        columns: &str,
    ) -> Result<()> {
        let name = &table.name;
        if table.publish == Publish::Replace {
            link.execute(&format!("DELETE FROM {name}"))?;
        }
        link.execute(&format!("INSERT INTO {name} ({columns}) SELECT {columns} FROM {stage}"))?;
        link.execute(&format!("DROP TABLE {stage}"))
    }
    /// Continues to show what [`show`](Self::show), or that of an earlier attempt, has begun to.
    fn show_rest(&self, _: &mut dyn Link, _: &Table, _: &QualifiedName) -> Result<()> {
        Ok(())
    }
    /// Whether rows whose staging table is gone are shown already, by an attempt that did not come to its end.
    fn was_shown(&self, _: &mut dyn Link, _: &Table, _: &QualifiedName) -> Result<bool> {
        Ok(true)
    }
    /// Refuses to give up a run that can only be gone on with.
    fn check_over(&self, _: &mut dyn Link, _: &QualifiedName) -> Result<()> {
        Ok(())
    }
    /// Puts a table back that the staged one had taken the place of, where that is not undone with the transaction.
    fn hide(&self, _: &mut dyn Link, _: &QualifiedName, _: &QualifiedName) -> Result<()> {
        Ok(())
    }
    /// What keeps a row that is selected from being changed by others, where they are many.
    fn for_update(&self) -> &'static str {
        ""
    }
    /// Whether rows find their partitions by themselves, and these can be exchanged for others.
    fn exchanges_partitions(&self) -> bool {
        false
    }
    /// The type of a text of any length.
    fn text(&self) -> &'static str {
        "TEXT"
    }
    /// Takes away what was staged, where that is not done as it is shown; refuses where some of it is not shown yet.
    fn tidy(&self, _: &mut dyn Link, _: &QualifiedName) -> Result<()> {
        Ok(())
    }
    /// Whether a table that is made or dropped is made or dropped with the transaction.
    fn makes_tables_in_transactions(&self) -> bool {
        true
    }
    /// Refuses a table that can't be loaded so.
    fn check(&self, _: &mut dyn Link, _: &QualifiedName, _: Publish) -> Result<()> {
        Ok(())
    }
    /// How many may write at once; any number where none is given.
    fn writers(&self) -> Option<usize>;
    /// Pieces of fewer bytes of source cost it more than they are worth.
    fn piece_bytes_least(&self) -> u64 {
        0
    }
    /// Whether a ledger can be kept in it: its transactions take in what a driver ingests and the making of tables.
    fn keeps_ledger(&self) -> bool;
    /// Whether its driver takes columns by their places, all of them, rather than by name.
    fn is_positional(&self) -> bool;
    /// What has the database write down what was committed, where that is not done with it.
    fn settles(&self) -> Option<&'static str> {
        None
    }
    /// What is executed once a connection is open.
    fn greeting(&self) -> &'static [&'static str];
}

pub fn of(kind: Kind) -> &'static dyn Dialect {
    match kind {
        Kind::DuckDb => &duckdb::DuckDb,
        Kind::Sqlite => &sqlite::Sqlite,
        Kind::MySql => &mysql::MySql,
        Kind::Other => &other::Other,
    }
}

/// A text as a literal of standard SQL.
pub fn literal(text: &str) -> Result<String> {
    if text.contains('\0') {
        return Err(Error::usage("a text in SQL can't hold a NUL character"));
    }
    Ok(format!("'{}'", text.replace('\'', "''")))
}

/// Whether a value is measured the same however it is stored: exact numbers and moments.
fn is_value(field_type: &FieldType) -> bool {
    use FieldType::{
        Boolean, Date, Decimal, Float32, Float64, Int16, Int32, Int64, Time, Timestamp, TimestampTz,
    };
    matches!(
        field_type,
        Boolean
            | Int16
            | Int32
            | Int64
            | Float32
            | Float64
            | Decimal { .. }
            | Date
            | Time
            | Timestamp
            | TimestampTz { .. }
    )
}
