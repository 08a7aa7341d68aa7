//! MariaDB and MySQL by their own protocol: rows go by LOAD DATA LOCAL.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use arrow_schema::{DataType, Schema};
use fullbore_pgwire::{QualifiedName, quote_identifier};
use fullbore_read::error::{DestinationFailure, Error, Result};
use mysql::prelude::Queryable;
use mysql::{Conn, LocalInfileHandler, Opts, OptsBuilder, Value};
use url::Url;

use crate::error::cannot;
use crate::link::{Ingest, Link, Row};
use crate::sent::Form;

/// What each session begins with: names and texts are written as in other databases, moments are UTC, nothing is
/// committed by itself, a value that does not fit is an error, and 0 is a number, not a wish for the next one.
const GREETING: [&str; 4] = [
    "SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO'",
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION autocommit = 0",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
];

/// Blocks that wait for the server.
const BLOCKS_WAITING: usize = 2;

/// The options of connections to the server of a URL.
pub fn options_of(url: &Url) -> Result<Opts> {
    // The URL is not repeated: it may hold a password.
    let options = Opts::from_url(url.as_str()).map_err(|_| {
        Error::usage_with_hint(
            "--to mysql://: a parameter of the URL is not known",
            "see the documentation of the mysql crate for the parameters of URLs",
        )
    })?;
    let builder = OptsBuilder::from_opts(options).prefer_socket(false).tcp_nodelay(true);
    Ok(builder.init(GREETING.to_vec()).into())
}

/// A connection. While rows are on their way it is with the thread that sends them.
pub struct MySqlLink {
    options: Opts,
    session: Arc<Mutex<Option<Conn>>>,
}

impl MySqlLink {
    pub fn open(options: &Opts) -> Result<Self> {
        let session = Conn::new(options.clone()).map_err(|error| match error {
            mysql::Error::MySqlError(error) => {
                cannot(error.message, "check --to mysql://USER@HOST:PORT/DATABASE and MYSQL_PWD")
            }
            error => failed(&error),
        })?;
        Ok(Self { options: options.clone(), session: Arc::new(Mutex::new(Some(session))) })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Conn) -> mysql::Result<T>) -> Result<T> {
        let mut slot = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let session = slot.as_mut().ok_or_else(lost)?;
        work(session).map_err(|error| {
            let error = failed(&error);
            if error.is_lost() {
                *slot = None;
            }
            error
        })
    }
}

fn lost() -> Error {
    Error::Destination {
        message: "the connection to the server was lost".into(),
        hint: None,
        kind: DestinationFailure::Lost,
    }
}

fn failed(error: &mysql::Error) -> Error {
    use DestinationFailure::{Constraint, Data, Locked, Lost, Other};
    let (message, kind, hint) = match error {
        mysql::Error::MySqlError(error) => {
            let kind = match error.code {
                // Duplicate keys, foreign keys, checks, NULL where there can't be one.
                1022 | 1048 | 1062 | 1169 | 1216 | 1217 | 1451 | 1452 | 3819 | 4025 => Constraint,
                1264 | 1265 | 1292 | 1366 | 1406 => Data,
                1205 | 1213 => Locked,
                1053 | 1927 | 2006 | 2013 => Lost,
                _ => Other,
            };
            let hint = match error.code {
                1148 | 3948 | 4166 => {
                    Some("the server must allow it: SET GLOBAL local_infile = 1".to_owned())
                }
                _ => None,
            };
            (error.message.clone(), kind, hint)
        }
        error => (format!("the connection to the server was lost: {error}"), Lost, None),
    };
    Error::Destination { message, hint, kind }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        other => Some(other.as_sql(true).trim_matches('\'').to_owned()),
    }
}

impl Link for MySqlLink {
    fn execute(&mut self, sql: &str) -> Result<()> {
        self.with(|session| session.query_drop(sql))
    }

    fn query(&mut self, sql: &str) -> Result<Vec<Row>> {
        let rows: Vec<mysql::Row> = self.with(|session| session.query(sql))?;
        Ok(rows.into_iter().map(|row| row.unwrap().iter().map(text_of).collect()).collect())
    }

    fn commit(&mut self) -> Result<()> {
        self.execute("COMMIT")
    }

    /// Begins anew, with another connection where the last one was lost.
    fn rollback(&mut self) -> Result<()> {
        let is_there = self.session.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if is_there && self.execute("ROLLBACK").is_ok() {
            return Ok(());
        }
        let session = Conn::new(self.options.clone()).map_err(|error| failed(&error))?;
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
        Ok(())
    }

    fn schema_of(&mut self, _: &QualifiedName) -> Result<Option<Schema>> {
        Ok(None)
    }

    fn ingest(&mut self, table: &QualifiedName, form: &Form) -> Result<Box<dyn Ingest>> {
        let sql = statement(table, form)?;
        let (to, blocks) = sync_channel(BLOCKS_WAITING);
        let slot = self.session.clone();
        let thread = std::thread::Builder::new().name("ingest".into());
        let thread = thread.spawn(move || send(&slot, &sql, blocks)).map_err(|source| {
            Error::Client { message: format!("no thread: {source}"), hint: None }
        })?;
        Ok(Box::new(MySqlIngest { to: Some(to), thread: Some(thread) }))
    }
}

/// Bytes come as hexadecimal digits. Of no character set is said what needs no conversion: that takes the server a tenth
/// less (CPU, lineitem, MariaDB 10.11).
fn statement(table: &QualifiedName, form: &Form) -> Result<String> {
    let (mut columns, mut set) = (Vec::new(), Vec::new());
    for (at, field) in form.schema.fields().iter().enumerate() {
        let name = quote_identifier(field.name()).map_err(|e| Error::usage(e.to_string()))?;
        if *field.data_type() == DataType::Binary {
            columns.push(format!("@fb_{at}"));
            set.push(format!("{name} = UNHEX(@fb_{at})"));
        } else {
            columns.push(name);
        }
    }
    let characters = if form.takes_utf8() { "binary" } else { "utf8mb4" };
    let set = if set.is_empty() { String::new() } else { format!(" SET {}", set.join(", ")) };
    Ok(format!(
        "LOAD DATA LOCAL INFILE 'rows' INTO TABLE {table} CHARACTER SET {characters} \
         FIELDS TERMINATED BY 0x09 ESCAPED BY '\\' LINES TERMINATED BY 0x0A ({}){set}",
        columns.join(", ")
    ))
}

/// Sends what comes until its end is said, and looks at what the server made of it.
fn send(slot: &Mutex<Option<Conn>>, sql: &str, blocks: Receiver<Option<Vec<u8>>>) -> Result<u64> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    let mut session = slot.take().ok_or_else(lost)?;
    let blocks = Mutex::new(blocks);
    session.set_local_infile_handler(Some(LocalInfileHandler::new(move |_, to| {
        let blocks = blocks.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match blocks.recv() {
                Ok(Some(block)) => to.write_all(&block)?,
                Ok(None) => return Ok(()),
                // The connection ends with it, and so does the transaction.
                Err(_) => return Err(io::Error::other("the piece was given up")),
            }
        }
    })));
    session.query_drop(sql).map_err(|error| failed(&error))?;
    session.set_local_infile_handler(None);
    let (rows, warnings) = (session.affected_rows(), session.warnings());
    let told = match warnings {
        0 => Ok(rows),
        _ => Err(altered(&mut session)),
    };
    *slot = Some(session);
    told
}

/// With LOCAL, the server skips rows and changes values that it would refuse otherwise, and only warns of it.
fn altered(session: &mut Conn) -> Error {
    let warning: Option<(String, u32, String)> =
        session.query_first("SHOW WARNINGS LIMIT 1").unwrap_or_default();
    let (_, _, message) = warning.unwrap_or_default();
    Error::Destination {
        message: format!("the server would skip or change rows: {message}"),
        hint: Some("nothing of the piece is committed; correct the rows or the table".into()),
        kind: DestinationFailure::Other,
    }
}

struct MySqlIngest {
    to: Option<SyncSender<Option<Vec<u8>>>>,
    thread: Option<JoinHandle<Result<u64>>>,
}

impl MySqlIngest {
    fn join(&mut self) -> Result<Option<u64>> {
        self.to = None;
        let Some(thread) = self.thread.take() else { return Ok(None) };
        match thread.join() {
            Ok(taken) => taken.map(Some),
            Err(_) => Err(Error::Client { message: "a sending thread ended".into(), hint: None }),
        }
    }
}

impl Ingest for MySqlIngest {
    fn send(&mut self, encoded: &[u8]) -> Result<()> {
        let block = Some(encoded.to_vec());
        match self.to.as_ref().is_some_and(|to| to.send(block).is_ok()) {
            true => Ok(()),
            // It has ended before its rows did: it says why.
            false => self.join().and_then(|_| Err(lost())),
        }
    }

    fn end(&mut self) -> Result<Option<u64>> {
        if let Some(to) = &self.to {
            // Where nobody listens any more, the thread says why.
            let _ = to.send(None);
        }
        self.join()
    }
}

impl Drop for MySqlIngest {
    fn drop(&mut self) {
        let _ = self.join();
    }
}
