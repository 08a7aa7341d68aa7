//! Looks at a table's sources: which files there are, and how they are written.

use std::sync::Arc;

use arrow_schema::DataType;

use super::Format;
use crate::constants::SAMPLE_BYTES;
use crate::error::{Error, Result};
use crate::job::{FormatName, TableJob};
use crate::parse::dialect::{Dialect, Header};
use crate::source::encoding::TextEncoding;
use crate::source::margins::{find_end, preamble};
use crate::source::pipe::Peeked;
use crate::source::sniff::{DialectHints, Samples, beginning, header_names, sample, sniff};
use crate::source::{Packing, SourceFile, discover, parquet};

/// What was found of a table's sources.
pub struct Sources {
    pub files: Vec<Arc<SourceFile>>,
    pub format: Format,
    /// The fields' names: from the header, or from Parquet's schema.
    pub names: Option<Vec<String>>,
    /// Fields per record, where a record was seen.
    pub fields: Option<usize>,
    /// Of Parquet, by field, the types that the files store it as.
    pub stored: Vec<Vec<DataType>>,
    pub header_line: Option<Vec<u8>>,
    pub notes: Vec<String>,
    /// Text of the first files, for inference.
    pub samples: Vec<Samples>,
}

/// Files whose samples are kept for inference, spread over all of them.
const SAMPLED_FILES_MAX: usize = 8;

/// What is read of a file without a header that is like those before it: whether there is anything in
/// it, and how it is encoded.
const HEAD_BYTES: usize = 4096;

/// Finds a table's files and how they are written.
pub fn look(job: &TableJob) -> Result<Sources> {
    if job.sources.is_empty() {
        return Err(Error::usage_with_hint(
            "no source is given",
            "name files, globs, or - for stdin",
        ));
    }
    let mut files = Vec::new();
    for source in &job.sources {
        files.extend(discover::discover(source)?);
    }
    if let Some(name) = &job.encoding {
        let encoding = TextEncoding::by_name(name).map_err(|_| {
            Error::usage_with_hint(
                format!("no encoding is called {name:?}"),
                "use a name of the WHATWG list, such as latin1, windows-1252, utf-16le, shift_jis",
            )
        })?;
        files.iter_mut().for_each(|file| file.encoding = encoding);
    }
    let parquet = files.iter().filter(|file| file.packing == Packing::Parquet).count();
    if job.format == Some(FormatName::Parquet) || parquet == files.len() {
        return look_at_parquet(files);
    }
    if parquet > 0 {
        return Err(Error::usage_with_hint(
            "some of the files are Parquet and some are text",
            "load them as two tables of a job, or one after the other",
        ));
    }
    look_at_text(job, files)
}

fn look_at_parquet(files: Vec<SourceFile>) -> Result<Sources> {
    let mut names: Option<Vec<String>> = None;
    let mut stored: Vec<Vec<DataType>> = Vec::new();
    for file in &files {
        let schema = parquet::inspect(file)?.schema;
        let found: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        match &names {
            Some(names) if *names != found => {
                return Err(Error::Source {
                    path: file.path.clone(),
                    message: format!(
                        "its columns are {found:?}, those of the first file {names:?}"
                    ),
                    hint: Some("load files of another shape on their own".into()),
                });
            }
            _ => names = Some(found),
        }
        stored.resize(schema.fields().len(), Vec::new());
        for (kinds, field) in stored.iter_mut().zip(schema.fields()) {
            if !kinds.contains(field.data_type()) {
                kinds.push(field.data_type().clone());
            }
        }
    }
    Ok(Sources {
        files: files.into_iter().map(Arc::new).collect(),
        format: Format::Parquet,
        fields: names.as_ref().map(Vec::len),
        names,
        stored,
        header_line: None,
        notes: Vec::new(),
        samples: Vec::new(),
    })
}

/// The bytes of a delimiter; tabs are written as people write them.
fn delimiter_bytes(value: &str) -> Result<Vec<u8>> {
    if value.is_empty() {
        return Err(Error::usage_with_hint(
            "--delimiter is empty",
            "give the character that stands between fields, or \\t",
        ));
    }
    Ok(match value {
        "tab" => b"\t".to_vec(),
        _ => value.replace("\\t", "\t").into_bytes(),
    })
}

/// One option of one ASCII byte; `\t` is written as people write it.
fn one_byte(option: &str, value: Option<&String>) -> Result<Option<u8>> {
    let Some(value) = value else { return Ok(None) };
    match value.as_bytes() {
        [byte] => Ok(Some(*byte)),
        b"\\t" | b"tab" => Ok(Some(b'\t')),
        _ => Err(Error::usage_with_hint(
            format!("--{option} {value:?} is not one byte"),
            "give one ASCII character, or \\t",
        )),
    }
}

fn look_at_text(job: &TableJob, mut files: Vec<SourceFile>) -> Result<Sources> {
    let hints = DialectHints {
        format: job.format,
        delimiter: job.delimiter.as_deref().map(delimiter_bytes).transpose()?,
        quote: one_byte("quote", job.quote.as_ref())?,
        escape: one_byte("escape", job.escape.as_ref())?,
        quotes: job.quotes,
        nulls: job.null.iter().map(|null| null.as_bytes().to_vec()).collect(),
        header: job.header,
        line_end: job.line_end,
        ragged: job.ragged,
        comment: one_byte("comment", job.comment.as_ref())?,
        skip_lines: job.skip_lines,
        skip_footer: job.skip_footer,
    };
    if files.iter().filter(|file| file.is_stdin()).count() > 1 {
        return Err(Error::usage_with_hint(
            "standard input is named more than once",
            "it can be read once: name - a single time",
        ));
    }
    let mut found: Option<(Dialect, Option<usize>, Vec<String>)> = None;
    let mut names: Option<Vec<String>> = None;
    let mut header_line = None;
    let mut samples = Vec::new();
    let count = files.len();
    let every = count.div_ceil(SAMPLED_FILES_MAX).max(1);
    for (number, file) in files.iter_mut().enumerate() {
        if !file.is_regular {
            // One pipe tells how all are written; the others are not waited for, since their
            // writers may come one after the other.
            if found.is_some() {
                continue;
            }
            peek(file)?;
        }
        // The last file too: what is odd is often what came last.
        let is_kept = number % every == 0 || number + 1 == count;
        let sampled = match &found {
            Some((dialect, Some(_), _)) if !is_kept => match dialect.header {
                Header::None if dialect.skip_lines == 0 => beginning(file, HEAD_BYTES)?,
                _ => beginning(file, SAMPLE_BYTES)?,
            },
            found => sample(file, SAMPLE_BYTES, found.as_ref().map(|(dialect, ..)| dialect))?,
        };
        // The first file with anything in it decides; an empty one says nothing.
        let is_empty = sampled.first.len() <= sampled.bom_bytes;
        if found.as_ref().is_none_or(|(_, fields, _)| fields.is_none()) && !is_empty {
            let text = &sampled.first[sampled.bom_bytes..];
            let sniffed = sniff(text, sampled.is_whole, &file.path, &hints)?;
            // A first record longer than the sample tells nothing of its fields.
            let fields = (sniffed.fields > 0).then_some(sniffed.fields);
            found = Some((sniffed.dialect, fields, sniffed.notes));
        }
        if let Some((dialect, ..)) = &found {
            prepare_file(file, &sampled, dialect, &mut names, &mut header_line)?;
        }
        if is_kept {
            samples.push(sampled.with_last_line_ended());
        }
    }
    for file in files.iter_mut().filter(|file| !file.is_regular && file.peeked.is_none()) {
        file.expected_header.clone_from(&names);
    }
    let (dialect, fields, notes) = match found {
        Some(found) => found,
        None => {
            let sniffed = sniff(b"", true, &files[0].path, &hints)?;
            (sniffed.dialect, None, vec!["all files are empty".to_owned()])
        }
    };
    for file in &mut files {
        file.line_end = dialect.line_end;
    }
    Ok(Sources {
        files: files.into_iter().map(Arc::new).collect(),
        format: Format::Delimited(dialect),
        fields: names.as_ref().map(Vec::len).or(fields),
        names,
        stored: Vec::new(),
        header_line,
        notes,
        samples,
    })
}

/// Looks at a pipe's beginning, which is kept for the load.
fn peek(file: &mut SourceFile) -> Result<()> {
    let peeked = Peeked::open(file)?;
    file.packing = discover::packing_of(&peeked.first[..peeked.first.len().min(4)]);
    file.peeked = Some(peeked);
    if file.packing == Packing::Parquet {
        return Err(Error::Source {
            path: file.path.clone(),
            message: "is Parquet, which can't be read from a pipe".into(),
            hint: Some("load it from a file: its directory of columns stands at its end".into()),
        });
    }
    Ok(())
}

/// Finds where a file's first record begins, and that its header is the first file's.
fn prepare_file(
    file: &mut SourceFile,
    sampled: &Samples,
    dialect: &Dialect,
    names: &mut Option<Vec<String>>,
    header_line: &mut Option<Vec<u8>>,
) -> Result<()> {
    let text = &sampled.first;
    if text.len() <= sampled.bom_bytes {
        file.data_start = text.len() as u64;
        return Ok(());
    }
    // What is shorter than a sample is the whole file.
    let is_whole = text.len() < SAMPLE_BYTES;
    let Some(before) = preamble(text, dialect, sampled.bom_bytes, is_whole) else {
        return Err(Error::Source {
            path: file.path.clone(),
            message: format!("the header is longer than {SAMPLE_BYTES} bytes"),
            hint: Some("a quote may be unterminated, or there is no header: --header none".into()),
        });
    };
    file.data_start = before.bytes as u64;
    file.data_start_lines = before.lines;
    find_end(file, dialect)?;
    // So that rejects can be loaded with the options of their file.
    let skipped = &text[sampled.bom_bytes..before.bytes];
    if header_line.is_none() && !skipped.is_empty() {
        *header_line = Some(skipped.to_vec());
    }
    if !dialect.header.names_fields() {
        return Ok(());
    }
    let found = header_names(&text[before.header], dialect)?;
    match names {
        Some(names) if *names != found => Err(Error::Source {
            path: file.path.clone(),
            message: format!("its header is {found:?}, that of the first file {names:?}"),
            hint: Some("load files of another shape on their own, or give --columns".into()),
        }),
        Some(_) => Ok(()),
        None => {
            *names = Some(found);
            Ok(())
        }
    }
}
