//! Looks at files of fixed-width text: where their records begin.

use std::collections::BTreeMap;
use std::sync::Arc;

use fullbore_parse::dialect::{Dialect, LineEnd};
use fullbore_read::SourceFile;
use fullbore_read::constants::SAMPLE_BYTES;
use fullbore_read::error::{Error, Result};
use fullbore_read::sniff::samples::sample;

use super::{SAMPLED_FILES_MAX, Sources, peek};
use crate::job::TableJob;
use crate::plan::format::Format;

/// Refuses what says something of text with delimiters.
fn check(job: &TableJob) -> Result<()> {
    let given = [
        (job.delimiter.is_some(), "--delimiter"),
        (job.quote.is_some(), "--quote"),
        (job.escape.is_some(), "--escape"),
        (job.quotes.is_some(), "--quotes"),
        (job.header.is_some(), "--header"),
        (job.line_end.is_some(), "--line-end"),
        (job.comment.is_some(), "--comment"),
    ];
    if let Some((_, option)) = given.iter().find(|(is_given, _)| *is_given) {
        return Err(Error::usage_with_hint(
            format!("{option} applies to delimited text, not to fixed-width text"),
            format!("omit {option}; --skip-lines 1 skips a header, --columns names the fields"),
        ));
    }
    match job.widths.is_empty() || job.widths.contains(&0) {
        false => Ok(()),
        true => Err(Error::usage_with_hint(
            "--format fixed needs the width of each field",
            "--widths 10,8,12: characters of each field, in order",
        )),
    }
}

/// Finds where the records of each file begin.
pub fn look_at_fixed(job: &TableJob, mut files: Vec<SourceFile>) -> Result<Sources> {
    check(job)?;
    let mut dialect = Dialect::fixed(job.widths.clone());
    if let Some((null, more)) = job.null.split_first() {
        dialect.null = null.as_bytes().to_vec();
        dialect.more_nulls = more.iter().map(|null| null.as_bytes().to_vec()).collect();
    }
    dialect.ragged = job.ragged.unwrap_or_default();
    dialect.skip_lines = job.skip_lines.unwrap_or_default();
    dialect.skip_footer = job.skip_footer.unwrap_or_default();
    let every = files.len().div_ceil(SAMPLED_FILES_MAX).max(1);
    let mut samples = Vec::new();
    for (number, file) in files.iter_mut().enumerate() {
        if !file.is_regular && file.peeked.is_none() {
            if number > 0 {
                continue;
            }
            peek(file)?;
        }
        let mut sampled = sample(file, SAMPLE_BYTES)?;
        sampled.skip(dialect.skip_lines, LineEnd::Lf);
        let start = sampled.bom_bytes + sampled.skipped_bytes;
        (file.data_start, file.data_start_lines) = (start as u64, sampled.skipped_lines);
        if number % every == 0 {
            (sampled.file, sampled.data_start) = (number, start);
            sampled.starts = [start, start];
            samples.push(sampled.with_last_line_ended());
        }
    }
    Ok(Sources {
        files: files.into_iter().map(Arc::new).collect(),
        fields: Some(dialect.widths.len()),
        format: Format::Delimited(dialect),
        names: None,
        header_names: None,
        stored: Vec::new(),
        header_line: None,
        notes: Vec::new(),
        samples,
        outlines: Vec::new(),
        orders: BTreeMap::new(),
        lookups: Vec::new(),
    })
}
