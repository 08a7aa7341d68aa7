//! Tables and queries of databases as sources, by way of an ADBC driver.
//!
//! A driver answers a query with Arrow batches, one after the other and once: they are read like a pipe.

use adbc_core::{Connection, Database, Statement};
use adbc_driver_manager::{ManagedConnection, ManagedDatabase, ManagedStatement};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use fullbore_pgwire::QualifiedName;
use fullbore_read::columnar::data::ArrowData;
use fullbore_read::error::{Error, Result};

use crate::driver;
use crate::error::words;
use crate::place::{Place, Way};

/// What is read.
pub enum Asked<'a> {
    Table(&'a str),
    Query(&'a str),
}

/// The rows of a table or a query. `told` is what messages call it.
pub fn rows(place: &Place, asked: &Asked<'_>, told: &str) -> Result<ArrowData> {
    if let Some(file) = place.missing_file() {
        return Err(unreadable(told, &format!("there is no file {file}"), Some("check the path")));
    }
    let Way::Driver { name, options } = &place.way else {
        return Err(unreadable(
            told,
            "MariaDB and MySQL are loaded into, not read",
            Some("read it by way of an ADBC driver: adbc:DRIVER?option=value"),
        ));
    };
    let sql = match asked {
        Asked::Query(query) => (*query).to_owned(),
        Asked::Table(table) => {
            let table = QualifiedName::parse(table)
                .map_err(|error| unreadable(told, &error.to_string(), None))?;
            format!("SELECT * FROM {table}")
        }
    };
    let failed = |error: adbc_core::error::Error| unreadable(told, &words(&error.message), None);
    let database = driver::open(place.kind, name, options)?;
    let mut connection = database.new_connection().map_err(failed)?;
    let mut statement = connection.new_statement().map_err(failed)?;
    statement.set_sql_query(&sql).map_err(failed)?;
    let batches = statement.execute().map_err(failed)?;
    let answer =
        Answer { batches, _statement: statement, _connection: connection, _database: database };
    Ok(ArrowData::stream(Box::new(answer)).called(told))
}

fn unreadable(told: &str, message: &str, hint: Option<&str>) -> Error {
    Error::Source { path: told.into(), message: message.to_owned(), hint: hint.map(str::to_owned) }
}

/// What a driver answers, with what has to stay open until it is read. Dropped in this order.
struct Answer {
    batches: Box<dyn RecordBatchReader + Send>,
    _statement: ManagedStatement,
    _connection: ManagedConnection,
    _database: ManagedDatabase,
}

impl Iterator for Answer {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next()
    }
}

impl RecordBatchReader for Answer {
    fn schema(&self) -> SchemaRef {
        self.batches.schema()
    }
}
