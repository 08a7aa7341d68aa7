//! The job file: TOML, by and large with the names of the command line's options
//! (docs/guides/job-file.md).
//!
//! ```toml
//! to = "postgresql://localhost/shop"
//! streams = 4
//!
//! [[table]]
//! name = "orders"
//! sources = ["data/orders.*.csv.gz"]
//! header = "true"
//! ```

use std::path::Path;

use fullbore_read::error::{Error, Result};

use super::Job;

/// Reads a job file and applies `key=value` settings to it, in order.
///
/// A key is a path: `streams`, `table.orders.publish`, `table.0.header`. Relative paths in
/// `sources` stay relative to the current folder.
pub fn read_job_file(path: &Path, settings: &[String]) -> Result<Job> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| Error::Read { path: path.to_owned(), source })?;
    // Without the line itself, which TOML's own words would show: it may hold a password.
    let wrong = |error: toml::de::Error| {
        let place = error.span().map_or_else(String::new, |span| place(&text, span.start));
        Error::usage(format!("{}{place}: {}", path.display(), error.message()))
    };
    // As it is, for an error in it has a place in it then.
    let read: Job = toml::from_str(&text).map_err(wrong)?;
    if settings.is_empty() {
        return Ok(read);
    }
    let mut job: toml::Table = toml::from_str(&text).map_err(wrong)?;
    for setting in settings {
        apply(&mut job, setting)?;
    }
    toml::Value::Table(job).try_into().map_err(|error: toml::de::Error| {
        Error::usage_with_hint(
            format!("{} with --set: {}", path.display(), error.message()),
            "the file alone is valid: check the values of --set",
        )
    })
}

/// Line and column, both from 1, of a byte.
fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!(", line {line}, column {column}")
}

fn apply(job: &mut toml::Table, setting: &str) -> Result<()> {
    const HINT: &str = "write --set streams=4, or --set table.NAME.publish=replace";
    // The value is not said again: it may hold a password.
    let Some((path, value)) = setting.split_once('=') else {
        return Err(Error::usage_with_hint("--set changes a key of the job: KEY=VALUE", HINT));
    };
    let no_such = || Error::usage_with_hint(format!("--set {path}: the job has no such key"), HINT);
    let mut keys = path.split('.').peekable();
    let mut table = job;
    while let Some(key) = keys.next() {
        if keys.peek().is_none() {
            table.insert(key.to_owned(), parse_value(value));
            return Ok(());
        }
        table = match table.get_mut(key).ok_or_else(no_such)? {
            toml::Value::Table(inner) => inner,
            toml::Value::Array(entries) => {
                let wanted = keys.next().ok_or_else(no_such)?;
                let number = wanted.parse::<usize>().ok();
                let found = entries.iter_mut().enumerate().find(|(at, entry)| {
                    number == Some(*at)
                        || entry.get("name").and_then(|n| n.as_str()) == Some(wanted)
                });
                found.and_then(|(_, entry)| entry.as_table_mut()).ok_or_else(no_such)?
            }
            _ => return Err(no_such()),
        };
    }
    Err(no_such())
}

/// The job with another value of an option, by its name on the command line: one of the job's, or one of
/// each of its tables.
pub fn varied(job: &Job, option: &str, value: &str) -> Result<Job> {
    let key = option.replace('-', "_");
    let toml = |error: toml::ser::Error| Error::usage(format!("the job can't be written: {error}"));
    let as_job = |table: toml::Table| -> Result<Job, toml::de::Error> {
        toml::Value::Table(table).try_into()
    };
    let written = toml::Table::try_from(job).map_err(toml)?;
    let is_unknown = |error: &toml::de::Error| error.message().contains("unknown field");
    let wrong = |error: toml::de::Error| {
        Error::usage(format!("{option}={value}: {}", error.message().trim_end()))
    };
    let mut of_job = written.clone();
    of_job.insert(key.clone(), parse_value(value));
    match as_job(of_job) {
        Err(error) if is_unknown(&error) => {}
        varied => return varied.map_err(wrong),
    }
    let mut of_tables = written;
    let tables = of_tables.get_mut("table").and_then(toml::Value::as_array_mut);
    for table in tables.into_iter().flatten().filter_map(toml::Value::as_table_mut) {
        table.insert(key.clone(), parse_value(value));
    }
    as_job(of_tables).map_err(|error| match is_unknown(&error) {
        true => Error::usage_with_hint(
            format!("{option} is no option of a job that can be varied"),
            "options as in a job file: streams, method, piece-size, compress, publish; a setting of the \
             sessions: set.NAME",
        ),
        false => wrong(error),
    })
}

/// A job as its file is written.
pub fn as_job_file(job: &Job) -> Result<String> {
    toml::to_string(job).map_err(|error| Error::usage(format!("the job can't be written: {error}")))
}

/// A value as TOML writes it, else a plain string.
fn parse_value(text: &str) -> toml::Value {
    match toml::from_str::<toml::Table>(&format!("v = {text}")) {
        Ok(mut table) => table.remove("v").unwrap_or_else(|| toml::Value::String(text.into())),
        Err(_) => toml::Value::String(text.into()),
    }
}
