//! Looks at files of JSON lines: which keys there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use fullbore_parse::dialect::Dialect;
use fullbore_parse::json::each_key;
use fullbore_read::SourceFile;
use fullbore_read::constants::SAMPLE_BYTES;
use fullbore_read::error::{Error, Result};
use fullbore_read::sniff::samples::{Samples, glance, sample};

use super::{HEAD_BYTES, SAMPLED_FILES_MAX, Sources, peek, refuse_text_options};
use crate::job::TableJob;
use crate::plan::format::Format;
use crate::plan::names::distinct;

/// How such files are called.
pub const WHAT: &str = "JSON lines";

/// Whether a file is JSON lines by its beginning; JSON of other forms is refused.
pub fn is_json_lines(file: &SourceFile, sampled: &Samples) -> Result<bool> {
    let text = sampled.text().trim_ascii_start();
    let name = file.path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let is_called = |endings: &[&str]| name.split('.').skip(1).any(|part| endings.contains(&part));
    let is_named = is_called(&["json", "ndjson", "jsonl"]);
    let other = |what: &str, hint: &str| {
        Err(Error::Source {
            path: file.path.clone(),
            message: format!("is {what}; JSON is read with one object a line"),
            hint: Some(hint.to_owned()),
        })
    };
    match text.first() {
        Some(b'{') => {
            let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let is_cut = line.len() == text.len() && !sampled.is_whole;
            let is_object =
                std::str::from_utf8(line).is_ok_and(|line| each_key(line, |_, _| Ok(())).is_ok());
            let next = text[1..].trim_ascii_start().first();
            let begins_object = matches!(next, Some(b'"' | b'}'));
            // A line of some kilobytes is no header.
            if is_object || is_cut && (is_named || begins_object) {
                return Ok(true);
            }
            if begins_object && (is_named || line.trim_ascii() == b"{") {
                return other(
                    "a JSON document over several lines",
                    "convert it to one object per line: jq -c . FILE | fullbore load - --table \
                     TABLE",
                );
            }
            Ok(is_named)
        }
        Some(b'[') => {
            let within = text[1..].trim_ascii_start().first();
            if is_named || matches!(within, Some(b'{')) && !is_one_line_of_text(text) {
                return other(
                    "one JSON array",
                    "convert it to one object per line: jq -c '.[]' FILE | fullbore load - --table \
                     TABLE",
                );
            }
            Ok(false)
        }
        _ => Ok(is_called(&["ndjson", "jsonl"])),
    }
}

/// Whether a text that begins like an array of objects closes it within its first field.
fn is_one_line_of_text(text: &[u8]) -> bool {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let value =
        serde_json::Deserializer::from_slice(line).into_iter::<serde_json::value::Value>().next();
    // An array that is whole, with something behind it on its line, is a field.
    matches!(value, Some(Ok(_))) && !line.trim_ascii_end().ends_with(b"]")
}

/// Finds the keys of the files, in the order in which they appear in the samples.
pub fn look_at_json(job: &TableJob, mut files: Vec<SourceFile>) -> Result<Sources> {
    refuse_text_options(job, WHAT)?;
    let count = files.len();
    let every = count.div_ceil(SAMPLED_FILES_MAX).max(1);
    let (mut samples, mut keys) = (Vec::new(), Vec::<String>::new());
    let mut is_seen = false;
    for (number, file) in files.iter_mut().enumerate() {
        if !file.is_regular && file.peeked.is_none() {
            if is_seen {
                continue;
            }
            peek(file)?;
        }
        let is_kept = number % every == 0 || number + 1 == count || !is_seen;
        let mut sampled = match is_kept {
            true => sample(file, SAMPLE_BYTES)?,
            false => glance(file, HEAD_BYTES, 0)?,
        };
        file.data_start = sampled.bom_bytes as u64;
        is_seen |= !sampled.is_empty();
        if is_kept {
            sampled.file = number;
            sampled.data_start = sampled.bom_bytes;
            let sampled = sampled.with_last_line_ended();
            each_line(&sampled, |line| {
                // What is no object is a reject when it is loaded.
                let _ = each_key(line, |key, _| {
                    if !keys.iter().any(|known| known == key) {
                        keys.push(key.to_owned());
                    }
                    Ok(())
                });
            });
            samples.push(sampled);
        }
    }
    let mut notes = if is_seen { Vec::new() } else { vec!["all files are empty".to_owned()] };
    Ok(Sources {
        files: files.into_iter().map(Arc::new).collect(),
        format: Format::Delimited(Dialect::json()),
        names: Some(distinct(&keys, &mut notes)),
        header_names: Some(keys),
        fields: None,
        stored: Vec::new(),
        header_line: None,
        notes,
        samples,
        outlines: Vec::new(),
        orders: BTreeMap::new(),
        lookups: Vec::new(),
    })
}

/// Calls `take` with each whole line of a file's samples that is UTF-8 and not blank.
pub fn each_line(samples: &Samples, mut take: impl FnMut(&str)) {
    let texts = std::iter::once(samples.text()).chain(samples.others.iter().map(Vec::as_slice));
    for text in texts {
        let end = memchr::memrchr(b'\n', text).map_or(0, |at| at + 1);
        for line in text[..end].split(|byte| *byte == b'\n') {
            if let Ok(line) = std::str::from_utf8(line)
                && !line.trim_ascii().is_empty()
            {
                take(line);
            }
        }
    }
}
