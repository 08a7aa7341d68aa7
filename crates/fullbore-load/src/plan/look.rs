//! Looks at a table's sources: which files there are, and how they are written.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::DataType;

mod fixed;
pub mod json;

use super::format::Format;
use super::transform::found::Found;
use crate::job::TableJob;
use fullbore_parse::dialect::{Dialect, Family, FormatName, Header, LineEnd};
use fullbore_read::columnar::{self, Columnar};
use fullbore_read::constants::SAMPLE_BYTES;
use fullbore_read::encoding::TextEncoding;
use fullbore_read::error::{Error, Result};
use fullbore_read::sniff::frame::Given;
use fullbore_read::sniff::outline::{self, Outline, outline};
use fullbore_read::sniff::samples::{Samples, beginning, glance, sample};
use fullbore_read::sniff::{DialectHints, sniff};
use fullbore_read::{Packing, SourceFile, StoreOptions, discover, foreign, pipe};

/// What was found of a table's sources.
pub struct Sources {
    pub files: Vec<Arc<SourceFile>>,
    pub format: Format,
    /// The fields' names: from the header, or from Parquet's schema.
    pub names: Option<Vec<String>>,
    /// The same as the header writes them.
    pub header_names: Option<Vec<String>>,
    /// Fields per record, where a record was seen.
    pub fields: Option<usize>,
    /// Of Parquet, by field, the types that the files store it as.
    pub stored: Vec<Vec<DataType>>,
    pub header_line: Option<Vec<u8>>,
    pub notes: Vec<String>,
    /// Text of the first files, for inference.
    pub samples: Vec<Samples>,
    /// What was found of each file; nothing of a pipe that was not looked at.
    pub outlines: Vec<Option<Outline>>,
    /// By file, where its fields stand that the first file has in another order: for each field of
    /// the first file, the place of it.
    pub orders: BTreeMap<usize, Arc<[usize]>>,
    /// What rows are looked up in.
    pub lookups: Vec<Arc<Found>>,
}

impl Sources {
    /// Whether they are JSON lines.
    pub fn is_json(&self) -> bool {
        matches!(&self.format, Format::Delimited(dialect) if dialect.family == Family::Json)
    }
}

/// Files whose samples are kept for inference, spread over all of them.
const SAMPLED_FILES_MAX: usize = 8;

/// What is read of a file that is like those before it: whether there is anything in it, how it is
/// encoded, and what stands around its records.
const HEAD_BYTES: usize = 16 * 1024;
/// What is read of the end of such a file.
const END_BYTES: usize = 4096;

/// Finds a table's files and how they are written.
pub fn look(job: &TableJob, store: &StoreOptions) -> Result<Sources> {
    if job.sources.is_empty() {
        return Err(Error::usage_with_hint(
            "no source is given",
            "name files, globs, or - for stdin",
        ));
    }
    let mut files = Vec::new();
    for source in &job.sources {
        files.extend(discover::discover_in(source, store)?);
    }
    if let Some(name) = &job.encoding {
        let encoding = TextEncoding::by_name(name).map_err(|_| {
            Error::usage_with_hint(
                format!("unknown encoding {name:?}"),
                "use a name of the WHATWG list, such as latin1, windows-1252, utf-16le, shift_jis",
            )
        })?;
        files.iter_mut().for_each(|file| file.encoding = encoding);
    }
    if files.iter().filter(|file| file.is_stdin()).count() > 1 {
        return Err(Error::usage_with_hint(
            "standard input is named more than once",
            "it can be read once: name - a single time",
        ));
    }
    let is_arrow = |file: &SourceFile| file.arrow.is_some();
    if files.iter().all(is_arrow) {
        refuse_text_options(job, "Arrow data")?;
        return look_at_columns(files, Columnar::Arrow);
    }
    if files.iter().any(is_arrow) {
        return Err(Error::usage_with_hint(
            "some of the sources are Arrow data and some are files",
            "load them one after the other",
        ));
    }
    let parquet = files.iter().filter(|file| file.packing == Packing::Parquet).count();
    if job.format == Some(FormatName::Parquet) || parquet == files.len() {
        refuse_text_options(job, "Parquet files")?;
        return look_at_columns(files, Columnar::Parquet);
    }
    if parquet > 0 {
        return Err(Error::usage_with_hint(
            "some of the files are Parquet and some are text",
            "load them as two tables of a job, or one after the other",
        ));
    }
    if job.format == Some(FormatName::Fixed) {
        return fixed::look_at_fixed(job, files);
    }
    if is_json(job, &mut files)? {
        return json::look_at_json(job, files);
    }
    look_at_text(job, files)
}

/// Whether the files are JSON lines: by the job's word, or by the beginning of the first one with anything
/// in it. What is JSON in another form is refused.
fn is_json(job: &TableJob, files: &mut [SourceFile]) -> Result<bool> {
    match job.format {
        Some(FormatName::Ndjson) => return Ok(true),
        Some(_) => return Ok(false),
        None => {}
    }
    let told = [&job.delimiter, &job.quote, &job.escape];
    if job.header.is_some() || told.into_iter().any(Option::is_some) {
        return Ok(false);
    }
    for file in files {
        if !file.is_regular {
            peek(file)?;
        }
        let sampled = beginning(file, HEAD_BYTES)?;
        if !sampled.text().trim_ascii().is_empty() {
            return json::is_json_lines(file, &sampled);
        }
    }
    Ok(false)
}

/// Refuses what says how delimited text is written, of files that are none.
fn refuse_text_options(job: &TableJob, of: &str) -> Result<()> {
    let given = [
        (job.delimiter.is_some(), "--delimiter"),
        (job.quote.is_some(), "--quote"),
        (job.escape.is_some(), "--escape"),
        (job.quotes.is_some(), "--quotes"),
        (!job.null.is_empty(), "--null"),
        (job.header.is_some(), "--header"),
        (job.line_end.is_some(), "--line-end"),
        (job.ragged.is_some(), "--ragged"),
        (job.comment.is_some(), "--comment"),
        (job.skip_lines.is_some(), "--skip-lines"),
        (job.skip_footer.is_some(), "--skip-footer"),
        (!job.widths.is_empty(), "--widths"),
        (job.encoding.is_some() && of != json::WHAT, "--encoding"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        None => Ok(()),
        Some((_, option)) => Err(Error::usage_with_hint(
            format!("{option} applies to delimited text, not to {of}"),
            format!("omit {option}"),
        )),
    }
}

fn look_at_columns(files: Vec<SourceFile>, kind: Columnar) -> Result<Sources> {
    let mut names: Option<Vec<String>> = None;
    let mut stored: Vec<Vec<DataType>> = Vec::new();
    for file in &files {
        let schema = columnar::inspect(file)?.schema;
        let found: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        match &names {
            Some(names) if *names != found => {
                return Err(Error::Source {
                    path: file.path.clone(),
                    message: format!("its columns are {found:?}, but the first file has {names:?}"),
                    hint: Some("load files with other columns separately".into()),
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
        format: Format::Columnar(kind),
        fields: names.as_ref().map(Vec::len),
        names,
        header_names: None,
        stored,
        header_line: None,
        notes: Vec::new(),
        samples: Vec::new(),
        outlines: Vec::new(),
        orders: BTreeMap::new(),
        lookups: Vec::new(),
    })
}

/// The bytes of a delimiter; tabs are written as people write them.
fn delimiter_bytes(value: &str) -> Result<Vec<u8>> {
    if value.is_empty() {
        return Err(Error::usage_with_hint(
            "--delimiter is empty",
            "set it to the character between fields, or \\t",
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
    if !job.widths.is_empty() {
        return Err(Error::usage_with_hint(
            "--widths applies to fixed-width text",
            "add --format fixed, or omit --widths",
        ));
    }
    let hints = hints(job)?;
    let given = Given {
        skip_lines: hints.skip_lines,
        skip_footer: hints.skip_footer,
        width: None,
        skips_header: hints.header == Some(Header::Skip),
    };
    let mut dialect: Option<Dialect> = None;
    let mut notes = Vec::new();
    let mut outlines: Vec<Option<Outline>> = Vec::new();
    let mut samples = Vec::new();
    let mut not_utf8 = None;
    // The file whose comment sign counts for all; one with records that begin so, and that one.
    let mut commented: Option<usize> = None;
    let mut unlike: Option<(usize, usize)> = None;
    let count = files.len();
    let every = count.div_ceil(SAMPLED_FILES_MAX).max(1);
    for (number, file) in files.iter_mut().enumerate() {
        if !file.is_regular && file.peeked.is_none() {
            // One pipe tells how all are written; the others are not waited for, since their
            // writers may come one after the other.
            if dialect.is_some() {
                outlines.push(None);
                continue;
            }
            peek(file)?;
        }
        // The last file too: what is odd is often what came last.
        let is_kept = number % every == 0 || number + 1 == count || dialect.is_none();
        let mut sampled = match is_kept {
            true => sample(file, SAMPLE_BYTES)?,
            false => glance(file, HEAD_BYTES, END_BYTES)?,
        };
        not_utf8 = not_utf8.or_else(|| said_not_utf8(file, sampled.text()));
        // The first file with anything in it decides; an empty one says nothing.
        if dialect.is_none() && !sampled.is_empty() {
            let sniffed = sniff(sampled.text(), sampled.is_whole, &file.path, &hints)?;
            notes = sniffed.notes;
            dialect = Some(sniffed.dialect);
        }
        let Some(known) = &mut dialect else {
            outlines.push(Some(Outline::of_nothing(sampled.bom_bytes)));
            continue;
        };
        if let Some(by) = commented
            && outline::has_tags(&sampled, known, file.size, given)
        {
            unlike = Some((number, by));
            break;
        }
        let mut found = outline(&mut sampled, known, file.size, given);
        if !found.is_complete && !sampled.is_whole && !is_kept {
            sampled = glance(file, SAMPLE_BYTES, END_BYTES)?;
            found = outline(&mut sampled, known, file.size, given);
        }
        if hints.line_end.is_none() {
            known.line_end = joined(known.line_end, found.line_end);
        }
        if known.comment.is_none() && found.comment.is_some() {
            known.comment = found.comment;
            let tagged = |outline: &Option<Outline>| outline.as_ref().is_some_and(|o| o.has_tags);
            unlike = outlines.iter().position(tagged).map(|tagged| (tagged, number));
            if unlike.is_some() {
                break;
            }
            commented = Some(number);
        }
        outlines.push(Some(found));
        if is_kept {
            sampled.file = number;
            samples.push(sampled.with_last_line_ended());
        }
    }
    if let Some((tagged, commented)) = unlike {
        return Err(not_alike(&files[tagged].path, &files[commented].path));
    }
    let dialect = match dialect {
        Some(dialect) => dialect,
        None => {
            notes.push("all files are empty".to_owned());
            sniff(b"", true, &files[0].path, &hints)?.dialect
        }
    };
    notes.extend(not_utf8);
    Ok(Sources {
        fields: outlines.iter().flatten().find_map(|outline| outline.fields),
        files: files.into_iter().map(Arc::new).collect(),
        format: Format::Delimited(dialect),
        names: None,
        header_names: None,
        stored: Vec::new(),
        header_line: None,
        notes,
        samples,
        outlines,
        orders: BTreeMap::new(),
        lookups: Vec::new(),
    })
}

/// What the job fixes of the dialect.
pub fn hints(job: &TableJob) -> Result<DialectHints> {
    Ok(DialectHints {
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
    })
}

/// What a comment is in one file is a record in another.
fn not_alike(tagged: &Path, commented: &Path) -> Error {
    let (tagged, commented) = (tagged.display(), commented.display());
    Error::usage_with_hint(
        format!("{tagged}: records begin with #, but lines that do so are comments in {commented}"),
        "load the files separately; --comment # skips such lines in all of them",
    )
}

/// Says that a file's first text is not UTF-8, and what to do.
fn said_not_utf8(file: &SourceFile, text: &[u8]) -> Option<String> {
    let error = std::str::from_utf8(text).err()?;
    // A character at the end may be cut.
    error.error_len()?;
    let (before, rest) = text.split_at(error.valid_up_to());
    let line = memchr::memchr_iter(b'\n', before).count() + 1;
    Some(format!(
        "{} is not UTF-8 (line {line}: 0x{:02x}); set its encoding with --encoding NAME, such as \
         windows-1252",
        file.path.display(),
        rest[0]
    ))
}

/// What ends the records of all files, if those of one end so and those of another so.
fn joined(one: LineEnd, other: Option<LineEnd>) -> LineEnd {
    match other {
        Some(other) if other != one => LineEnd::Mixed,
        _ => one,
    }
}

/// Looks at a pipe's beginning, which is kept for the load.
fn peek(file: &mut SourceFile) -> Result<()> {
    let peeked = pipe::peek(file)?;
    foreign::refuse_foreign(
        &file.path,
        &peeked.first[..peeked.first.len().min(foreign::HEAD_BYTES)],
    )?;
    file.packing = discover::packing_of(&peeked.first);
    file.peeked = Some(peeked);
    if file.packing == Packing::Parquet {
        return Err(Error::Source {
            path: file.path.clone(),
            message: "is Parquet, which can't be read from a pipe".into(),
            hint: Some("load it from a file: its metadata is at the end".into()),
        });
    }
    Ok(())
}
