//! Tables whose rows replace older ones of the same key: what users read is a view, which has the newest row of each key.
//!
//! A unique index can't span partitions by batch, but each partition has one over its own rows: a batch is merged by key
//! within itself as it is loaded, and partitions are merged by key. Queries by the key look into each partition's index.

use fullbore_pgwire::{QualifiedName, Session, quote_identifier, quote_literal};
use fullbore_read::error::Result;

use super::{COLUMN, Table, shape};
use crate::catalog;
use crate::error::{failed, refuse, refused};
use crate::naming::suffixed;
use crate::publish::replace::tools::fill;

/// The columns that a row is known by, and the view of the newest rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub names: Vec<String>,
    /// The same, quoted and in a row.
    columns: String,
    pub view: QualifiedName,
}

/// What the partitioned table says of itself, so that a later start can't take another key.
const COMMENT: &str = "Fullbore: the newest rows are in the view; key: ";

/// Whether the table `{oid}` is empty, has rows without a key, or a unique index as `{is_over}` says.
const SUITS: &str = "
    SELECT NOT EXISTS (SELECT FROM {name}) AS is_empty,
           EXISTS (SELECT FROM {name} WHERE {is_null}) AS has_null,
           EXISTS (SELECT FROM pg_index i
                    WHERE i.indrelid = {oid} AND i.indisunique AND i.indisvalid AND i.indimmediate
                      AND {is_over}) AS has_key";

/// The partitioned table that a view is of.
pub fn behind(view: &QualifiedName) -> Result<QualifiedName> {
    suffixed(view, "_batches").map_err(refused)
}

impl Key {
    /// `None` where rows have no key.
    pub fn new(view: &QualifiedName, names: &[String]) -> Result<Option<Self>> {
        if names.is_empty() {
            return Ok(None);
        }
        let quoted = names.iter().map(|name| quote_identifier(name).map_err(refused));
        let columns = quoted.collect::<Result<Vec<_>>>()?.join(", ");
        Ok(Some(Self { names: names.to_vec(), columns, view: view.clone() }))
    }

    /// The condition that an index `i` holds the key apart, if it is unique.
    pub fn is_over(&self) -> Result<String> {
        catalog::index_is_over(&self.names).map_err(refused)
    }

    /// The partitioned table that the view is of.
    pub fn table(&self) -> Result<QualifiedName> {
        behind(&self.view)
    }

    /// The statement that gives a partition its index.
    pub fn index(&self, leaf: &QualifiedName) -> String {
        format!("CREATE UNIQUE INDEX ON {leaf} ({})", self.columns)
    }

    /// The newest row of each key among some partitions.
    pub fn newest(&self, columns: &str, olds: &[QualifiedName]) -> Result<String> {
        let column = quote_identifier(COLUMN).map_err(failed)?;
        let all: Vec<String> =
            olds.iter().map(|old| format!("SELECT {column}, {columns} FROM {old}")).collect();
        let key = &self.columns;
        Ok(format!(
            "SELECT DISTINCT ON ({key}) {columns} FROM ({}) AS olds ORDER BY {key}, {column} DESC",
            all.join(" UNION ALL ")
        ))
    }

    /// The statements that show a table's newest rows by the view.
    pub fn show(&self, session: &mut Session, table: &Table) -> Result<Vec<String>> {
        let columns = shape::all_columns(session, table)?;
        let newest = self.newest(&columns, std::slice::from_ref(&table.name))?;
        let comment = quote_literal(&self.comment()).map_err(failed)?;
        Ok(vec![
            format!("CREATE VIEW {} AS {newest}", self.view),
            format!("COMMENT ON TABLE {} IS {comment}", table.name),
        ])
    }

    /// Refuses a table that was made for another key.
    pub fn check(&self, session: &mut Session, oid: u32) -> Result<()> {
        let asked = format!("SELECT obj_description({oid}, 'pg_class') AS comment");
        let found = session.query(&asked).map_err(refused)?;
        let comment = found.first().map(|row| row.text("comment")).unwrap_or_default();
        if comment == self.comment() {
            return Ok(());
        }
        Err(refuse(
            format!("{} was made for another key than {}", self.view, self.columns),
            format!("give --key as in the comment of table {}: {comment}", self.table()?),
        ))
    }

    /// Refuses a table to be taken over whose rows may have a key twice; whether it has an index that holds them apart.
    pub fn check_rows(&self, session: &mut Session, oid: u32) -> Result<bool> {
        let sql = fill(
            SUITS,
            &[
                ("oid", &oid.to_string()),
                ("name", &self.view.to_string()),
                ("is_over", &self.is_over()?),
                ("is_null", &format!("{} IS NULL", self.columns.replace(", ", " IS NULL OR "))),
            ],
        );
        let found = session.query(&sql).map_err(refused)?;
        let is = |name: &str| found.first().is_some_and(|row| row.flag(name));
        if is("has_null") {
            return Err(refuse(
                format!(
                    "{} has rows whose key ({}) is NULL: the view would have one of them",
                    self.view, self.columns
                ),
                "give them keys, or delete them",
            ));
        }
        if is("has_key") || is("is_empty") {
            return Ok(is("has_key"));
        }
        Err(refuse(
            format!("no unique index of {} is over {} alone", self.view, self.columns),
            format!("CREATE UNIQUE INDEX CONCURRENTLY ON {} ({})", self.view, self.columns),
        ))
    }

    fn comment(&self) -> String {
        format!("{COMMENT}{}", self.columns)
    }
}
