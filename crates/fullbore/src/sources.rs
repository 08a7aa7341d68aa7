//! Sources that are tables of databases: opened before the job is looked at, and named without passwords from then on.

use std::sync::Arc;

use fullbore_load::job::{Job, TableJob};
use fullbore_pgwire::{ConnectionOptions, Environment};
use fullbore_postgres::source::TableSource;
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
    let (url, name) = split(&table.sources[at])?;
    let refused = |error: fullbore_pgwire::ConnectionError| {
        Error::usage_with_hint(format!("source: {error}"), error.hint().unwrap_or_default())
    };
    let options =
        ConnectionOptions::resolve(Some(&url), &Environment::of_process()).map_err(refused)?;
    let redacted = options.redacted();
    let sign = if redacted.contains('?') { '&' } else { '?' };
    let told = format!("{redacted}{sign}table={name}");
    let source = TableSource::open(options, &name, &told, table.as_text)?;
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
    table.name.get_or_insert(name);
    // Of another snapshot it would be another job.
    let uri = format!("{told}&{SNAPSHOT}{}", source.snapshot());
    table.sources[at].clone_from(&uri);
    Ok(Registered::at(uri, ArrowData::stretches(Arc::new(source))))
}

/// The URL of the database, and the table that it names. Errors do not repeat it: it may hold a password.
fn split(source: &str) -> Result<(String, String)> {
    let no_table = || {
        Error::usage_with_hint(
            "a database among the sources names no table",
            "write postgresql://HOST/DATABASE?table=SCHEMA.TABLE; where rows go is --to URL",
        )
    };
    let (base, query) = source.split_once('?').ok_or_else(no_table)?;
    if query.split('&').any(|parameter| parameter.starts_with(SNAPSHOT)) {
        return Err(Error::usage_with_hint(
            "the run read a database under a snapshot, which ended with its process",
            "abort the run, then load again",
        ));
    }
    let is_table = |parameter: &&str| parameter.starts_with("table=");
    let table = query.split('&').find(is_table).ok_or_else(no_table)?;
    let table = decoded(table.trim_start_matches("table="));
    let others: Vec<&str> = query.split('&').filter(|one| !is_table(one)).collect();
    let url =
        if others.is_empty() { base.to_owned() } else { format!("{base}?{}", others.join("&")) };
    if table.is_empty() { Err(no_table()) } else { Ok((url, table)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_told_from_the_parameters_of_its_connection() {
        let split = |source: &str| split(source).ok();
        let pair = |url: &str, table: &str| Some((url.to_owned(), table.to_owned()));
        assert_eq!(split("postgresql://h/d?table=s.t"), pair("postgresql://h/d", "s.t"));
        assert_eq!(
            split("postgresql://h/d?sslmode=require&table=%22A%20b%22&port=1"),
            pair("postgresql://h/d?sslmode=require&port=1", "\"A b\"")
        );
        for wrong in [
            "postgresql://h/d?table=t&snapshot=3-1-1",
            "postgresql://h/d",
            "postgresql://h/d?table=",
            "postgresql://h/d?tables=t",
        ] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }
}
