//! Tables and queries of a PostgreSQL server as sources: read by several sessions, all as it was at one moment.
//!
//! A session exports its snapshot and keeps it (`pg_export_snapshot`); the others read stretches of pages, or ranges of a
//! key ([`ranges`]), under it by binary COPY ([`decode`]). A server that has the extension sends many rows to a message,
//! which costs it a fraction of what COPY does. A row has a number that its page or range and its place among those that
//! are read decide, so that numbers ascend and no two rows share one.

mod columns;
mod decode;
mod ranges;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{
    ConnectionError, ConnectionOptions, Copied, QualifiedName, Session, quote_literal,
};
use fullbore_read::columnar::data::{RowBatches, RowStretches};
use fullbore_read::constants::PARQUET_BATCH_ROWS;
use fullbore_read::error::{Error, Result};

use crate::catalog;
use crate::direct::check;
use crate::error::{failed, refuse, refused};
use crate::ledger::locks;
use crate::{session_settings, timeouts};
use columns::SourceColumn;
use decode::{Decoder, Unreadable};
use ranges::Ranges;

/// More rows than a page has.
const ROWS_PER_PAGE: u64 = 1 << 16;
/// Pages that are read by one statement at least.
const PAGES_MIN: u64 = 1024;
/// Bytes of a batch.
const BATCH_BYTES: usize = 1 << 20;

/// A table, or the partitions of one, under a snapshot.
pub struct TableSource {
    /// What messages call it: its URL without a password.
    told: String,
    options: ConnectionOptions,
    /// Keeps the snapshot as long as it lives.
    _keeper: Mutex<Session>,
    snapshot: String,
    /// Sessions under the snapshot that nobody reads by.
    idle: Mutex<Vec<Session>>,
    columns: Vec<SourceColumn>,
    schema: SchemaRef,
    body: Body,
    /// The extension's function that gives a query's rows, where the server has it.
    rows_of: Option<String>,
}

/// What is read.
pub enum Asked<'a> {
    Table(&'a str),
    Query(&'a str),
}

/// How its rows are divided among sessions.
enum Body {
    Pages(Vec<Leaf>),
    Ranges(Ranges),
}

/// A table that has pages.
#[derive(Debug, Clone)]
struct Leaf {
    name: String,
    pages: u64,
    bytes: u64,
    /// The number of its first page among all leaves'.
    first: u64,
}

/// The tables of a partition tree that rows are in; of one that others inherit from, all of them.
const LEAVES: &str = "
    WITH RECURSIVE tree AS (
        SELECT {oid}::oid AS oid
        UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree ON i.inhparent = tree.oid)
    SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name, c.relkind,
           pg_relation_size(c.oid) / current_setting('block_size')::bigint AS pages,
           pg_table_size(c.oid) AS bytes
      FROM tree JOIN pg_class c ON c.oid = tree.oid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relkind <> 'p' ORDER BY 1";

impl TableSource {
    /// Connects, and takes a snapshot; `told` is what messages call it. With `key`, ranges of this column are read
    /// rather than pages. With `as_text`, every column is read as its server writes it.
    pub fn open(
        options: ConnectionOptions,
        asked: &Asked<'_>,
        key: Option<&str>,
        told: &str,
        as_text: bool,
    ) -> Result<Self> {
        let mut options = options;
        timeouts::limit(&mut options);
        let mut keeper = connect(&options).map_err(refused)?;
        if locks::is_pooled(&mut keeper).map_err(refused)? {
            return Err(refuse(
                format!(
                    "{told}: the connection goes through a pooler, which does not preserve snapshots"
                ),
                "connect to the server itself",
            ));
        }
        locks::unhurry(&mut keeper).map_err(refused)?;
        let name = match asked {
            Asked::Table(table) => QualifiedName::parse(table).map_err(refused)?,
            Asked::Query(query) => ranges::view_of(&mut keeper, query, told)?,
        };
        let found = catalog::relation(&mut keeper, &name).map_err(refused)?;
        let Some(relation) =
            found.filter(|relation| matches!(relation.kind, 'r' | 'p' | 'v' | 'm' | 'f'))
        else {
            return Err(refuse(
                format!("{told}: there is no table or view {name}"),
                "check ?table= in the source's URL",
            ));
        };
        // A query of somebody's own may have a plan whose work several processors share, which only COPY runs.
        let is_plain = matches!(asked, Asked::Table(_)) && matches!(relation.kind, 'r' | 'p');
        let rows_of = if is_plain { working_rows_of(&mut keeper)? } else { None };
        // Locked before there is a snapshot: TRUNCATE would take rows from it.
        let lock = match relation.kind {
            'r' | 'p' | 'v' => format!("; LOCK TABLE {} IN ACCESS SHARE MODE", relation.name),
            _ => String::new(),
        };
        keeper
            .execute(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY{lock}"))
            .map_err(refused)?;
        let taken = keeper.query("SELECT pg_export_snapshot() AS snapshot").map_err(refused)?;
        let snapshot = taken.first().map(|row| row.text("snapshot")).unwrap_or_default();
        let body = match (asked, key) {
            (Asked::Query(query), key) => {
                Body::Ranges(Ranges::of(&mut keeper, &relation, query, key, told)?)
            }
            (Asked::Table(_), None) if matches!(relation.kind, 'r' | 'p') => {
                Body::Pages(leaves(&mut keeper, relation.oid, told)?)
            }
            (Asked::Table(_), key) => {
                let query = format!("SELECT * FROM {}", relation.name);
                Body::Ranges(Ranges::of(&mut keeper, &relation, &query, key, told)?)
            }
        };
        let columns = columns::of(&relation, as_text);
        let schema = schema_of(columns.iter());
        Ok(Self {
            told: told.to_owned(),
            options,
            _keeper: Mutex::new(keeper),
            snapshot,
            idle: Mutex::default(),
            columns,
            schema,
            body,
            rows_of,
        })
    }

    /// What its server calls the snapshot.
    pub fn snapshot(&self) -> &str {
        &self.snapshot
    }

    /// The types of its columns that any server has, as they are written.
    pub fn types(&self) -> impl Iterator<Item = (&str, &str)> {
        let known = self.columns.iter().filter(|column| column.is_known);
        known.map(|column| (column.name.as_str(), column.type_name.as_str()))
    }

    /// A session under the snapshot.
    fn session(&self) -> Result<Session> {
        if let Some(session) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(session);
        }
        let mut session = connect(&self.options).map_err(failed)?;
        locks::unhurry(&mut session).map_err(failed)?;
        let snapshot = quote_literal(&self.snapshot).map_err(failed)?;
        session
            .execute(&format!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT {snapshot}"
            ))
            .map_err(|error| self.gone(&error.to_string()))?;
        Ok(session)
    }

    fn gone(&self, why: &str) -> Error {
        Error::Source {
            path: self.told.clone().into(),
            message: format!("can't be read as it was when the load began: {why}"),
            hint: Some("load again".into()),
        }
    }

    /// The stretches that hold these rows.
    fn stretches(&self, rows: &Range<u64>) -> VecDeque<Stretch> {
        match &self.body {
            Body::Pages(leaves) => leaves.iter().filter_map(|leaf| leaf.stretch(rows)).collect(),
            Body::Ranges(ranges) => ranges.stretches(rows),
        }
    }
}

impl Leaf {
    /// Its pages that hold these rows.
    fn stretch(&self, rows: &Range<u64>) -> Option<Stretch> {
        let begin = (rows.start / ROWS_PER_PAGE).max(self.first);
        let end = rows.end.div_ceil(ROWS_PER_PAGE).min(self.first + self.pages);
        let (first, last) = (begin.checked_sub(self.first)?, end.checked_sub(self.first)?);
        (begin < end).then(|| Stretch {
            from: format!(
                "ONLY {} WHERE ctid >= '({first},0)'::tid AND ctid < '({last},0)'::tid",
                self.name
            ),
            // Whatever a table gained since its pages were counted is not of the snapshot.
            first_row: begin * ROWS_PER_PAGE,
        })
    }
}

/// The extension's function that gives a query's rows, quoted, where it is there and works: a standby's host may lack the
/// library, or have an older one.
fn working_rows_of(session: &mut Session) -> Result<Option<String>> {
    let found = check::callable(session, check::ROWS_OF).map_err(refused)?;
    Ok(found.filter(|function| session.query(&format!("SELECT {function}('SELECT')")).is_ok()))
}

/// The tables that hold the rows of one.
fn leaves(keeper: &mut Session, oid: u32, told: &str) -> Result<Vec<Leaf>> {
    let rows = keeper.query(&LEAVES.replace("{oid}", &oid.to_string())).map_err(refused)?;
    let mut leaves: Vec<Leaf> = Vec::new();
    for row in &rows {
        if row.text("relkind") != "r" {
            return Err(refuse(
                format!("{told}: {} is no table with pages of its own", row.text("name")),
                "read it by one session, as a query: --query \"SELECT * FROM TABLE\" without ?table=",
            ));
        }
        let first = leaves.last().map_or(0, |leaf| leaf.first + leaf.pages);
        leaves.push(Leaf {
            name: row.text("name"),
            pages: row.number("pages").unwrap_or_default(),
            bytes: row.number("bytes").unwrap_or_default(),
            first,
        });
    }
    Ok(leaves)
}

/// Values that go as text are read as what they are: signs of intervals stand by each field, and no digit of a float is
/// missing, whatever the role's defaults. Rows that are read again come in the same order.
const AS_WRITTEN: &str = "SET IntervalStyle = 'postgres'; SET extra_float_digits = 3; \
    SET synchronize_seqscans = off";

/// A session that writes values as all others of the source do.
fn connect(options: &ConnectionOptions) -> std::result::Result<Session, ConnectionError> {
    let mut session = timeouts::connect(options)?;
    session_settings::style(&mut session, options)?;
    session.execute(AS_WRITTEN)?;
    Ok(session)
}

fn schema_of<'a>(columns: impl Iterator<Item = &'a SourceColumn>) -> SchemaRef {
    let fields = columns.map(|column| Field::new(&column.name, column.field_type.arrow(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// What one statement reads: what follows its `FROM`.
struct Stretch {
    from: String,
    first_row: u64,
}

impl RowStretches for TableSource {
    fn told(&self) -> String {
        self.told.clone()
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn groups(&self) -> Vec<(u64, u64)> {
        let of_leaf = |leaf: &Leaf| {
            let each = leaf.pages.clamp(1, PAGES_MIN);
            let (pages, bytes) = (leaf.pages, leaf.bytes);
            (0..pages).step_by(each as usize).map(move |start| {
                let its = each.min(pages - start);
                let share = u128::from(bytes) * u128::from(its) / u128::from(pages);
                (its * ROWS_PER_PAGE, share as u64)
            })
        };
        match &self.body {
            Body::Pages(leaves) => leaves.iter().flat_map(of_leaf).collect(),
            Body::Ranges(ranges) => ranges.groups(),
        }
    }

    fn open(self: Arc<Self>, rows: Range<u64>, columns: &[usize]) -> Result<Box<dyn RowBatches>> {
        let stretches = self.stretches(&rows);
        let columns: Vec<&SourceColumn> = columns.iter().map(|at| &self.columns[*at]).collect();
        let list: Vec<&str> = columns.iter().map(|column| column.expression.as_str()).collect();
        let types: Vec<_> = columns.iter().map(|column| column.field_type.clone()).collect();
        let names = columns.iter().map(|column| column.name.clone()).collect();
        let schema = schema_of(columns.iter().copied());
        let list = list.join(", ");
        Ok(Box::new(Reading { source: self, stretches, list, names, schema, types, open: None }))
    }
}

/// Rows on their way from the server.
struct Reading {
    source: Arc<TableSource>,
    stretches: VecDeque<Stretch>,
    /// The columns, as the statement has them.
    list: String,
    names: Vec<String>,
    schema: SchemaRef,
    types: Vec<fullbore_parse::types::FieldType>,
    open: Option<Open>,
}

/// A statement that gives rows.
struct Open {
    session: Session,
    decoder: Decoder,
    next_row: u64,
}

impl Reading {
    fn begin(&mut self, stretch: &Stretch) -> Result<Open> {
        let mut session = self.source.session()?;
        let Stretch { from, first_row } = stretch;
        // A query of somebody's own finds its tables by the role's search path.
        let path = if matches!(self.source.body, Body::Ranges(_)) { OF_ROLE } else { "" };
        let query = format!("SELECT {} FROM {from}", self.list);
        let query = match &self.source.rows_of {
            Some(function) => {
                let literal = quote_literal(&query).map_err(failed)?;
                format!("SELECT {function}({literal})")
            }
            None => query,
        };
        let sql = format!("{path}COPY ({query}) TO STDOUT (FORMAT binary)");
        session.begin_copy_out(&sql).map_err(|error| self.source.gone(&error.to_string()))?;
        let is_stretched = self.source.rows_of.is_some();
        let decoder = Decoder::new(self.schema.clone(), &self.types, is_stretched);
        Ok(Open { session, decoder, next_row: *first_row })
    }

    fn unreadable(&self, why: Unreadable) -> Error {
        let (message, hint) = match why {
            Unreadable::Malformed(what) => (format!("the server sent {what}"), None),
            Unreadable::Unfit { column, value } => (
                format!("column {:?} has the value {value}", self.names[column]),
                Some("load with --as-text, which takes every value as its server writes it".into()),
            ),
        };
        Error::Source { path: self.source.told.clone().into(), message, hint }
    }
}

impl RowBatches for Reading {
    fn next(&mut self) -> Result<Option<(RecordBatch, u64)>> {
        loop {
            let mut open = match self.open.take() {
                Some(open) => open,
                None => match self.stretches.pop_front() {
                    Some(stretch) => self.begin(&stretch)?,
                    None => return Ok(None),
                },
            };
            let is_over = loop {
                match open.session.copied().map_err(|error| self.source.gone(&error.to_string()))? {
                    Copied::Data(data) => {
                        open.decoder.take(&data).map_err(|why| self.unreadable(why))?;
                        let (rows, bytes) = open.decoder.size();
                        if rows >= PARQUET_BATCH_ROWS || bytes >= BATCH_BYTES {
                            break false;
                        }
                    }
                    Copied::All(_) => break true,
                }
            };
            let (rows, _) = open.decoder.size();
            let first = open.next_row;
            open.next_row += rows as u64;
            let batch = open.decoder.batch().map_err(|why| self.unreadable(why))?;
            match is_over {
                true => {
                    let mut idle = self.source.idle.lock().unwrap_or_else(PoisonError::into_inner);
                    idle.push(open.session);
                }
                false => self.open = Some(open),
            }
            if rows > 0 {
                return Ok(Some((batch, first)));
            }
        }
    }
}
