//! Control totals of a job: those that it gives, those of control files, and those of trailer records.

use std::path::PathBuf;

use fullbore_parse::dialect::{Dialect, Family};
use fullbore_parse::fixed;
use fullbore_read::SourceFile;
use fullbore_read::error::{Error, Result};
use fullbore_read::sniff::samples::glance;

use crate::job::TableJob;
use crate::job::control::{Control, number, read};
use crate::plan::format::Format;
use crate::plan::look::Sources;

/// What stands before the totals of trailer records: their fields, from 1.
const TRAILER: &str = "trailer ";
/// Bytes that are read of the end of a file.
const END_BYTES: usize = 64 << 10;

/// Resolves the control totals of a table.
pub fn controls(job: &TableJob, sources: &Sources) -> Result<Vec<Control>> {
    let mut found = Vec::new();
    for text in &job.control {
        if let Some(fields) = text.strip_prefix(TRAILER) {
            found.extend(of_trailers(job, sources, fields)?);
        } else if text.contains('=') {
            found.push(Control::read(text)?);
        } else {
            let path = PathBuf::from(text);
            let lines = std::fs::read_to_string(&path)
                .map_err(|source| Error::Read { path: path.clone(), source })?;
            let lines = lines.lines().map(str::trim);
            for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
                found.push(Control::read(line)?);
            }
        }
    }
    Ok(found)
}

/// `rows = 2, sum(amount) = 3`: the fields of the last line of each file.
fn of_trailers(job: &TableJob, sources: &Sources, fields: &str) -> Result<Vec<Control>> {
    if job.skip_footer.unwrap_or_default() == 0 {
        return Err(Error::usage_with_hint(
            "control trailer: the last line would be loaded as a record",
            "skip it with skip_footer = 1",
        ));
    }
    let Format::Delimited(dialect) = &sources.format else {
        return Err(Error::usage("control trailer: these files have no lines"));
    };
    let wanted = fields.split(',').map(|one| {
        let (total, field) = read(one)?;
        let field: usize = field.parse().unwrap_or(0);
        if field == 0 {
            return Err(Error::usage_with_hint(
                format!("control trailer: {one:?} names no field"),
                "fields of the last line count from 1: trailer rows = 2, sum(amount) = 3",
            ));
        }
        Ok((Control { total, expected: Vec::new() }, field - 1))
    });
    let mut wanted = wanted.collect::<Result<Vec<_>>>()?;
    for file in &sources.files {
        let values = trailer(file, dialect)?;
        for (control, field) in &mut wanted {
            let value = values.get(*field).map_or("", String::as_str);
            control.expected.push(number(value).map_err(|error| Error::Source {
                path: file.path.clone(),
                message: format!("its last line, field {}: {error}", *field + 1),
                hint: Some("control = [\"trailer rows = FIELD\"] counts fields from 1".into()),
            })?);
        }
    }
    Ok(wanted.into_iter().map(|(control, _)| control).collect())
}

/// The fields of the last line of a file that is not blank.
fn trailer(file: &SourceFile, dialect: &Dialect) -> Result<Vec<String>> {
    if !file.is_seekable() {
        return Err(Error::Source {
            path: file.path.clone(),
            message: "its end can't be read before it is loaded".into(),
            hint: Some("give the totals themselves: control = [\"rows = 12345\"]".into()),
        });
    }
    let samples = glance(file, END_BYTES, END_BYTES)?;
    let text = samples.others.last().map_or_else(|| samples.text(), Vec::as_slice);
    let text = String::from_utf8_lossy(text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if dialect.family == Family::Fixed {
        let mut values = Vec::new();
        // The trailer may have fields of its own behind those.
        let _ = fixed::fields(line, dialect, &mut values);
        return Ok(values.into_iter().map(|value| value.unwrap_or_default().to_owned()).collect());
    }
    let delimiter = String::from_utf8_lossy(&dialect.whole_delimiter()).into_owned();
    Ok(line.split(delimiter.as_str()).map(str::to_owned).collect())
}
