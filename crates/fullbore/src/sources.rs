//! Sources that are tables or queries of databases: opened before the job is looked at, and named without passwords from then on.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fullbore_databases::{Place, source as driver_source};
use fullbore_load::job::{Job, TableJob};
use fullbore_pgwire::{ConnectionOptions, Environment};
use fullbore_postgres::source::{Asked, TableSource};
use fullbore_read::columnar::data::{ArrowData, Registered};
use fullbore_read::error::{Error, Result};
use fullbore_read::percent::decoded;

/// What the URL of a database begins with.
const SCHEMES: [&str; 2] = ["postgresql://", "postgres://"];

/// What stands before the snapshot in the source of a job that was opened.
const SNAPSHOT: &str = "snapshot=";

/// A job whose databases are open as long as this lives.
pub struct Opened {
    pub job: Job,
    _held: Vec<Registered>,
}

/// Whether a source is a table of a database.
pub fn is_database(source: &str) -> bool {
    is_postgres(source) || Place::is(source)
}

fn is_postgres(source: &str) -> bool {
    SCHEMES.iter().any(|scheme| source.starts_with(scheme))
}

/// Opens the databases among the sources of a job.
pub fn open(job: &Job) -> Result<Opened> {
    let mut job = job.clone();
    let mut held = Vec::new();
    for table in &mut job.tables {
        for at in 0..table.sources.len() {
            if is_database(&table.sources[at]) {
                held.push(open_table(table, at)?);
            }
        }
    }
    Ok(Opened { job, _held: held })
}

fn open_table(table: &mut TableJob, at: usize) -> Result<Registered> {
    let Parts { url, table: name, key } = split(&table.sources[at])?;
    let (asked, words) = match (&name, &table.query) {
        (Some(name), None) => (Asked::Table(name), format!("table={name}")),
        (None, Some(query)) => (Asked::Query(query), format!("query={query}")),
        (Some(_), Some(_)) => {
            return Err(Error::usage_with_hint(
                "--query and a table in the URL of the source are two answers to what is read",
                "omit one of them",
            ));
        }
        (None, None) => return Err(no_table()),
    };
    if table.query.is_some() && table.name.is_none() {
        return Err(Error::usage_with_hint(
            "a query has no name to name the table after",
            "name the table with --table",
        ));
    }
    if !is_postgres(&url) {
        if key.is_some() {
            return Err(Error::usage_with_hint(
                "&key= divides what is read of PostgreSQL; a driver's answer is read by one session",
                "omit it",
            ));
        }
        let held = open_driver(&url, name.as_deref(), table.query.as_deref(), &words)?;
        table.name = table.name.take().or(name);
        held.uri().clone_into(&mut table.sources[at]);
        return Ok(held);
    }
    let refused = |error: fullbore_pgwire::ConnectionError| {
        Error::usage_with_hint(format!("source: {error}"), error.hint().unwrap_or_default())
    };
    let options =
        ConnectionOptions::resolve(Some(&url), &Environment::of_process()).map_err(refused)?;
    let redacted = options.redacted();
    let sign = if redacted.contains('?') { '&' } else { '?' };
    let told = format!("{redacted}{sign}{words}");
    let source = TableSource::open(options, &asked, key.as_deref(), &told, table.as_text)?;
    if table.create && table.schema_file.is_none() {
        // As the source has them, where the job says nothing.
        let is_given = |column: &str| {
            table
                .types
                .iter()
                .any(|given| given.split_once('=').is_some_and(|(name, _)| name == column))
        };
        let types = source.types().filter(|(column, _)| !is_given(column));
        let types: Vec<String> = types.map(|(column, of)| format!("{column}={of}")).collect();
        table.types.extend(types);
    }
    if let Some(name) = name {
        table.name.get_or_insert(name);
    }
    // Of another snapshot it would be another job.
    let uri = format!("{told}&{SNAPSHOT}{}", source.snapshot());
    table.sources[at].clone_from(&uri);
    Ok(Registered::at(uri, ArrowData::stretches(Arc::new(source))))
}

/// The rows that a driver gives of a table or a query, which stand in no ledger: they are read once.
fn open_driver(
    url: &str,
    name: Option<&str>,
    query: Option<&str>,
    words: &str,
) -> Result<Registered> {
    let place = Place::of(url).ok_or_else(no_table)??;
    let told = format!("{}?{words}", place.told());
    let asked = match (name, query) {
        (_, Some(query)) => driver_source::Asked::Query(query),
        (name, None) => driver_source::Asked::Table(name.unwrap_or_default()),
    };
    let rows = driver_source::rows(&place, &asked, &told)?;
    // Drawn by the clock: what is read at another time may be something else.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    Ok(Registered::at(format!("{told}&{SNAPSHOT}{now}"), rows))
}

fn no_table() -> Error {
    Error::usage_with_hint(
        "a database among the sources names no table",
        "write postgresql://HOST/DATABASE?table=SCHEMA.TABLE or duckdb:FILE?table=TABLE, or add --query; \
         where rows go is --to URL",
    )
}

/// What the URL of a source is made of.
#[derive(Debug, PartialEq, Eq)]
struct Parts {
    /// Of the database.
    url: String,
    table: Option<String>,
    /// The column by whose ranges rows are read.
    key: Option<String>,
}

/// Takes apart the URL of a source. Errors do not repeat it: it may hold a password.
fn split(source: &str) -> Result<Parts> {
    let (base, query) = source.split_once('?').unwrap_or((source, ""));
    if query.split('&').any(|parameter| parameter.starts_with(SNAPSHOT)) {
        return Err(Error::usage_with_hint(
            "the run read a database under a snapshot, which ended with its process",
            "abort the run, then load again",
        ));
    }
    let value = |name: &str| {
        let mut parameters = query.split('&');
        parameters
            .find_map(|parameter| parameter.strip_prefix(name)?.strip_prefix('='))
            .map(decoded)
    };
    let is_ours = |one: &&str| one.starts_with("table=") || one.starts_with("key=");
    let others: Vec<&str> =
        query.split('&').filter(|one| !one.is_empty() && !is_ours(one)).collect();
    let url =
        if others.is_empty() { base.to_owned() } else { format!("{base}?{}", others.join("&")) };
    let (table, key) = (value("table"), value("key"));
    if [&table, &key].into_iter().flatten().any(String::is_empty) {
        return Err(no_table());
    }
    Ok(Parts { url, table, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_told_from_the_parameters_of_its_connection() {
        let parts = |url: &str, table: Option<&str>, key: Option<&str>| {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            Some(Parts { url: url.into(), table: owned(table), key: owned(key) })
        };
        let split = |source: &str| split(source).ok();
        assert_eq!(
            split("postgresql://h/d?table=s.t"),
            parts("postgresql://h/d", Some("s.t"), None)
        );
        assert_eq!(
            split("postgresql://h/d?sslmode=require&table=%22A%20b%22&port=1&key=id"),
            parts("postgresql://h/d?sslmode=require&port=1", Some("\"A b\""), Some("id"))
        );
        assert_eq!(split("postgresql://h/d"), parts("postgresql://h/d", None, None));
        let other = parts("postgresql://h/d?tables=t", None, None);
        assert_eq!(split("postgresql://h/d?tables=t"), other);
        for wrong in ["postgresql://h/d?table=t&snapshot=3-1-1", "postgresql://h/d?table="] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }
}
