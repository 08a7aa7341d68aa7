//! Databases by way of their ADBC drivers: rows go as Arrow batches.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use adbc_core::options::{IngestMode, OptionConnection, OptionStatement, OptionValue};
use adbc_core::{Connection, Database, Optionable, Statement};
use adbc_driver_manager::{ManagedConnection, ManagedDatabase, ManagedStatement};
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, RecordBatchReader};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use fullbore_load::sink::arrow_stream;
use fullbore_pgwire::QualifiedName;
use fullbore_read::error::{Error, Result};

use crate::error::{failed, refused};
use crate::link::{Ingest, Link, Row};
use crate::sent::Form;

/// Batches that wait for a driver.
const BATCHES_WAITING: usize = 2;

/// A connection by way of an ADBC driver.
pub struct AdbcLink {
    connection: ManagedConnection,
}

impl AdbcLink {
    pub fn open(database: &ManagedDatabase) -> Result<Self> {
        let mut connection = database.new_connection().map_err(|error| refused(&error))?;
        connection
            .set_option(OptionConnection::AutoCommit, OptionValue::String("false".into()))
            .map_err(|error| refused(&error))?;
        Ok(Self { connection })
    }

    fn statement(&mut self, sql: &str) -> Result<ManagedStatement> {
        let mut statement = self.connection.new_statement().map_err(|error| failed(&error))?;
        statement.set_sql_query(sql).map_err(|error| failed(&error))?;
        Ok(statement)
    }
}

impl Link for AdbcLink {
    fn execute(&mut self, sql: &str) -> Result<()> {
        self.statement(sql)?.execute_update().map_err(|error| failed(&error))?;
        Ok(())
    }

    fn query(&mut self, sql: &str) -> Result<Vec<Row>> {
        let mut statement = self.statement(sql)?;
        let batches = statement.execute().map_err(|error| failed(&error))?;
        let mut rows = Vec::new();
        for batch in batches {
            let batch = batch.map_err(unreadable)?;
            let columns = batch.columns().iter().map(|column| cast(column, &DataType::Utf8));
            let columns: Vec<_> = columns.collect::<Result<_, _>>().map_err(unreadable)?;
            let columns: Vec<_> = columns.iter().map(|column| column.as_string::<i32>()).collect();
            rows.extend((0..batch.num_rows()).map(|row| {
                let value = |column: &&arrow_array::StringArray| {
                    column.is_valid(row).then(|| column.value(row).to_owned())
                };
                columns.iter().map(value).collect::<Row>()
            }));
        }
        Ok(rows)
    }

    fn schema_of(&mut self, table: &QualifiedName) -> Result<Option<Schema>> {
        let found = self.connection.get_table_schema(None, table.schema(), table.name());
        Ok(found.ok().filter(|schema| !schema.fields().is_empty()))
    }

    fn commit(&mut self) -> Result<()> {
        self.connection.commit().map_err(|error| failed(&error))
    }

    fn rollback(&mut self) -> Result<()> {
        self.connection.rollback().map_err(|error| failed(&error))
    }

    fn ingest(&mut self, table: &QualifiedName, form: &Form) -> Result<Box<dyn Ingest>> {
        let mut statement = self.connection.new_statement().map_err(|error| failed(&error))?;
        let mut set = |option, value: &str| {
            statement
                .set_option(option, OptionValue::String(value.to_owned()))
                .map_err(|error| failed(&error))
        };
        set(OptionStatement::TargetTable, table.name())?;
        if let Some(schema) = table.schema() {
            set(OptionStatement::TargetDbSchema, schema)?;
        }
        set(OptionStatement::IngestMode, &String::from(IngestMode::Append))?;
        let (to, batches) = sync_channel(BATCHES_WAITING);
        statement
            .bind_stream(Box::new(Batches { schema: form.schema.clone(), batches }))
            .map_err(|error| failed(&error))?;
        let thread = std::thread::Builder::new().name("ingest".into());
        let thread = thread.spawn(move || statement.execute_update()).map_err(|source| {
            Error::Client { message: format!("no thread: {source}"), hint: None }
        })?;
        Ok(Box::new(AdbcIngest { to: Some(to), thread: Some(thread) }))
    }
}

/// What a database answers that can't be read.
fn unreadable(error: ArrowError) -> Error {
    Error::Client {
        message: format!("an answer of the database is unreadable: {error}"),
        hint: None,
    }
}

/// The driver takes rows in a thread of its own, since it asks for them.
struct AdbcIngest {
    to: Option<SyncSender<RecordBatch>>,
    thread: Option<JoinHandle<adbc_core::error::Result<Option<i64>>>>,
}

impl AdbcIngest {
    fn pass(&mut self, batch: RecordBatch) -> Result<()> {
        let is_taken = self.to.as_ref().is_some_and(|to| to.send(batch).is_ok());
        match is_taken {
            true => Ok(()),
            // It has ended before its rows did: it says why.
            false => self.end().and_then(|_| {
                Err(Error::Client { message: "the driver stopped taking rows".into(), hint: None })
            }),
        }
    }
}

impl Ingest for AdbcIngest {
    fn send(&mut self, encoded: &[u8]) -> Result<()> {
        arrow_stream::read(encoded)?.into_iter().try_for_each(|batch| self.pass(batch))
    }

    fn end(&mut self) -> Result<Option<u64>> {
        self.to = None;
        let Some(thread) = self.thread.take() else { return Ok(None) };
        match thread.join() {
            Ok(taken) => {
                let taken = taken.map_err(|error| failed(&error))?;
                Ok(taken.and_then(|rows| u64::try_from(rows).ok()))
            }
            Err(_) => {
                Err(Error::Client { message: "the driver's thread ended".into(), hint: None })
            }
        }
    }
}

impl Drop for AdbcIngest {
    fn drop(&mut self) {
        // What it took is rolled back with the transaction.
        let _ = self.end();
    }
}

/// What a driver reads rows from.
struct Batches {
    schema: SchemaRef,
    batches: Receiver<RecordBatch>,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.recv().ok().map(Ok)
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
