//! Decides what the first line of a table's files is, and so where their records begin and what their
//! fields are called.
//!
//! In this order: the job's setting; whether the line names the target's columns; whether it fits their
//! types; how its cells differ from those below. An undecided case is refused, since a header loaded as a
//! row, or a row taken for a header, would go unnoticed.

use std::sync::Arc;

use fullbore_parse::dialect::{Dialect, Header, Ragged};
use fullbore_parse::types::FieldType;
use fullbore_read::error::{Error, Result};
use fullbore_read::margins::{find_end, footer_start};
use fullbore_read::sniff::frame::Trouble;
use fullbore_read::sniff::header::Verdict;
use fullbore_read::sniff::kind::Kind;
use fullbore_read::sniff::outline::{Outline, text_of};

use super::Format;
use super::look::Sources;
use super::names::{self, alike};
use crate::TargetColumn;
use crate::job::TableJob;

/// Decides of text files what their first line is, with the target's columns where there is one already,
/// and notes it; finds where the records of each file begin, and what the fields are called.
pub fn settle(
    job: &TableJob,
    sources: &mut Sources,
    target: Option<&[TargetColumn]>,
) -> Result<()> {
    let Format::Delimited(dialect) = &sources.format else { return Ok(()) };
    let mut dialect = dialect.clone();
    if let Some(file) = sources.outlines.iter().position(has_line) {
        refuse_trouble(job, sources)?;
        let header = decide(job, sources, file, target)?;
        dialect.header = header;
        sources.notes.extend(around(sources, file, header));
    }
    for (file, outline) in sources.outlines.iter().enumerate() {
        let Some(outline) = outline else { continue };
        if sources.header_line.is_none() && !outline.names.is_empty() {
            let before = outline.before_records(dialect.header, job.skip_lines.is_some());
            sources.header_line = Some(before).filter(|before| !before.is_empty());
        }
        let place = outline.start(dialect.header);
        let file = Arc::make_mut(&mut sources.files[file]);
        (file.data_start, file.data_start_lines) = (place.bytes, place.lines);
    }
    for samples in &mut sources.samples {
        samples.settle(dialect.header);
    }
    if dialect.header.names_fields() {
        names::take(sources, job.skip_lines.is_some())?;
    }
    if let Some(file) = sources.outlines.iter().position(has_line) {
        prepare_pipes(sources, file, &mut dialect)?;
    }
    set_ends(job, sources, &mut dialect)?;
    sources.format = Format::Delimited(dialect);
    Ok(())
}

/// Sets what ends the lines of the files, and where their records end if lines follow that are none.
fn set_ends(job: &TableJob, sources: &mut Sources, dialect: &mut Dialect) -> Result<()> {
    let mut of_streams: Option<u64> = None;
    for (number, file) in sources.files.iter_mut().enumerate() {
        let file = Arc::make_mut(file);
        file.line_end = dialect.line_end;
        if job.skip_footer.is_some() {
            find_end(file, dialect)?;
            continue;
        }
        // Fixed-width text has none.
        let Some(Some(outline)) = sources.outlines.get(number) else { continue };
        if file.is_seekable() {
            file.data_end = outline.footer.as_ref().map(|(place, _)| *place);
        } else if of_streams
            .replace(outline.footer_lines)
            .is_some_and(|n| n != outline.footer_lines)
        {
            return Err(Error::usage_with_hint(
                format!(
                    "{}: its footer differs in length from those of earlier files",
                    file.path.display()
                ),
                "load it on its own",
            ));
        }
    }
    dialect.skip_footer = job.skip_footer.or(of_streams).unwrap_or_default();
    let Some(lines) = job.skip_footer else { return Ok(()) };
    for samples in sources.samples.iter_mut().filter(|samples| samples.has_end) {
        let text = samples.others.last().unwrap_or(&samples.first);
        let start = footer_start(text, lines, dialect.line_end, samples.is_whole);
        let bytes = text.len() - start.unwrap_or(0);
        samples.cut_end(bytes);
    }
    Ok(())
}

fn has_line(outline: &Option<Outline>) -> bool {
    outline.as_ref().is_some_and(|outline| !outline.names.is_empty())
}

/// What the first line is, which is noted.
fn decide(
    job: &TableJob,
    sources: &mut Sources,
    file: usize,
    target: Option<&[TargetColumn]>,
) -> Result<Header> {
    if let Some(header) = job.header {
        return Ok(header);
    }
    let Some(first) = sources.outlines[file].as_ref() else { return Ok(Header::None) };
    let mut known: Vec<&str> = match (&job.columns, target) {
        (Some(listed), _) => listed.iter().map(String::as_str).collect(),
        (None, Some(target)) => target.iter().map(|column| column.name.as_str()).collect(),
        (None, None) => Vec::new(),
    };
    if job.columns.is_none() {
        known.extend(job.words_of_expressions());
    }
    let verdict = by_names(first, &known)
        .or_else(|| target.and_then(|target| by_types(job, first, target)))
        .unwrap_or_else(|| by_files(sources, first));
    let (header, said) = match verdict {
        Verdict::Header(why) => (
            Header::True,
            format!("the first line is taken as the header: {why}; --header none if it is data"),
        ),
        Verdict::Data(why) => (
            Header::None,
            format!(
                "the first line is taken as data: {why}; --header true if it names the columns"
            ),
        ),
        Verdict::Undecided => {
            let path = sources.files[file].path.display();
            let line = text_of(&first.first_line);
            return Err(Error::usage_with_hint(
                format!("{path}: the first line may be a header or data: {line}"),
                "specify which: --header true if it names the columns, --header none if it is data",
            ));
        }
    };
    sources.notes.push(said);
    Ok(header)
}

/// A header that names most of the known columns.
fn by_names(first: &Outline, known: &[&str]) -> Option<Verdict> {
    let given = first.names.iter().filter(|name| !name.trim_ascii().is_empty()).count();
    let is_known = |name: &&Vec<u8>| {
        let name = String::from_utf8_lossy(name);
        known.iter().any(|known| *known != "-" && alike(known, &name))
    };
    let found = first.names.iter().filter(is_known).count();
    let is_header = matches!(first.verdict, Some(Verdict::Header(_)));
    (found * 2 > given || found > 0 && found * 2 == given && is_header)
        .then_some(Verdict::Header("it names columns of the table"))
}

/// Whether the line's cells are values where the target wants values.
fn by_types(job: &TableJob, first: &Outline, target: &[TargetColumn]) -> Option<Verdict> {
    let loadable: Vec<&TargetColumn> = match &job.columns {
        None if job.is_transformed() => return None,
        None => target.iter().filter(|column| !column.is_generated).collect(),
        Some(_) => return None,
    };
    if loadable.len() != first.names.len() {
        return None;
    }
    let typed = loadable.iter().zip(&first.names).filter(|(column, _)| is_typed(column));
    let (mut values, mut texts) = (0, 0);
    for (_, cell) in typed {
        match Kind::of(cell) {
            Kind::Empty | Kind::NullWord => {}
            Kind::Text => texts += 1,
            _ => values += 1,
        }
    }
    match (values, texts) {
        (1.., 0) => Some(Verdict::Data("it fits the types of the table's columns")),
        _ => None,
    }
}

/// Columns whose values are never words.
fn is_typed(column: &TargetColumn) -> bool {
    use FieldType::{
        Boolean, Date, Decimal, Float32, Float64, Int16, Int32, Int64, NumericText, Time,
        Timestamp, TimestampTz, Uuid,
    };
    matches!(
        column.field_type,
        Some(
            Boolean
                | Int16
                | Int32
                | Int64
                | Float32
                | Float64
                | Decimal { .. }
                | NumericText { .. }
                | Date
                | Time
                | Timestamp
                | TimestampTz { .. }
                | Uuid
        )
    )
}

/// What the cells themselves say; where that is nothing, whether all files begin alike.
fn by_files(sources: &Sources, first: &Outline) -> Verdict {
    let verdict = first.verdict.unwrap_or(Verdict::Undecided);
    if verdict != Verdict::Undecided {
        return verdict;
    }
    let lines: Vec<&[u8]> = sources
        .outlines
        .iter()
        .flatten()
        .filter(|outline| outline.has_records)
        .map(|outline| outline.first_line.trim_ascii_end())
        .collect();
    let alike = lines.iter().filter(|line| **line == lines[0]).count();
    match (lines.len(), alike) {
        (0 | 1, _) => Verdict::Undecided,
        (files, alike) if alike == files => Verdict::Header("all files begin with it"),
        (_, 1) => Verdict::Data("each file begins with a different line"),
        _ => Verdict::Undecided,
    }
}

/// Pipes that are not looked at begin as the first file does.
fn prepare_pipes(sources: &Sources, file: usize, dialect: &mut Dialect) -> Result<()> {
    let Some(Some(first)) = sources.outlines.get(file) else { return Ok(()) };
    let mut unseen = sources.files.iter().zip(&sources.outlines).filter(|(_, o)| o.is_none());
    let Some((pipe, _)) = unseen.next() else { return Ok(()) };
    if dialect.header != Header::None && first.header_lines > 1 {
        return Err(Error::usage_with_hint(
            format!(
                "{}: a pipe that is read after another can't have a header of {} lines",
                pipe.path.display(),
                first.header_lines
            ),
            "load it on its own",
        ));
    }
    dialect.skip_lines = first.table.lines;
    Ok(())
}

/// What stands around the records, where anything does.
fn around(sources: &Sources, file: usize, header: Header) -> Vec<String> {
    let mut notes = Vec::new();
    let several = sources.files.len() > 1;
    let of = |file: usize| match several {
        true => format!("{}: ", sources.files[file].path.display()),
        false => String::new(),
    };
    for (number, outline) in sources.outlines.iter().enumerate() {
        let Some(outline) = outline else { continue };
        if let Some(line) = &outline.preamble {
            notes.push(format!(
                "{}{} before the table skipped, beginning with {line:?}; --skip-lines 0 if \
                 these are rows",
                of(number),
                lines(outline.table.lines)
            ));
        }
        if let Some((_, line)) = &outline.footer {
            notes.push(format!(
                "{}{} after the records skipped, beginning with {line:?}; --skip-footer 0 if \
                 these are rows",
                of(number),
                lines(outline.footer_lines)
            ));
        }
    }
    let Some(Some(first)) = sources.outlines.get(file) else { return notes };
    if header != Header::None && first.header_lines > 1 {
        notes.push(format!(
            "the header has {} lines; the first names the columns",
            first.header_lines
        ));
    }
    if sources.outlines.iter().flatten().any(|outline| outline.comment.is_some()) {
        notes.push("lines that begin with # are skipped as comments".to_owned());
    }
    notes
}

fn lines(count: u64) -> String {
    if count == 1 { "1 line".to_owned() } else { format!("{count} lines") }
}

/// Refuses files that can't be loaded without being told how.
fn refuse_trouble(job: &TableJob, sources: &Sources) -> Result<()> {
    let wanted = sources.fields;
    for (file, outline) in sources.outlines.iter().enumerate() {
        let Some(outline) = outline else { continue };
        let path = sources.files[file].path.display();
        if let Some(trouble) = &outline.trouble {
            refuse(job, &path.to_string(), trouble, outline)?;
        }
        let is_ragged = job.ragged.is_some_and(|ragged| ragged != Ragged::Reject);
        if let (Some(wanted), Some(found), false) = (wanted, outline.fields, is_ragged)
            && wanted != found
        {
            let (first, _) = sources
                .outlines
                .iter()
                .enumerate()
                .find(|(_, outline)| outline.as_ref().is_some_and(|o| o.fields.is_some()))
                .unwrap_or((0, &None));
            let first = sources.files[first].path.display();
            return Err(Error::usage_with_hint(
                format!("{path}: records have {found} fields, but those of {first} have {wanted}"),
                "load files with other columns separately",
            ));
        }
    }
    Ok(())
}

fn refuse(job: &TableJob, path: &str, trouble: &Trouble, outline: &Outline) -> Result<()> {
    let (message, hint) = match trouble {
        Trouble::Tables { line: Some(line), width } => (
            format!(
                "{path}, line {line}: another table begins here, with {width} {}",
                if *width == 1 { "field" } else { "fields" }
            ),
            "split the file there, or skip the other table with --skip-lines or --skip-footer",
        ),
        Trouble::Tables { line: None, width } => (
            format!(
                "{path}: later records have {width} fields, but those at the beginning have {}",
                outline.fields.unwrap_or(0)
            ),
            "split the file where they change",
        ),
        // What it says does not matter.
        Trouble::Header { .. } if job.header == Some(Header::Skip) => return Ok(()),
        Trouble::Header { line, fields } => (
            format!(
                "{path}, line {line}: the header has {fields} fields, the records {}",
                outline.fields.unwrap_or(0)
            ),
            "skip it with --header skip and list the fields with --columns a,b,c",
        ),
        Trouble::Skipped { line, or } => (
            format!("{path}: the header to be skipped may be line {line} or line {or}"),
            "set the number of lines before it: --skip-lines N",
        ),
        Trouble::Total { text } => (
            format!(
                "{path}: the last line may be a total or a record: {}",
                text_of(text.as_bytes())
            ),
            "specify which: --skip-footer 1 skips it, --skip-footer 0 loads it",
        ),
        Trouble::Again { .. } if job.header == Some(Header::None) => return Ok(()),
        Trouble::Again { line } => (
            format!("{path}, line {line}: the header is repeated here, in columns of text"),
            "remove it there, or load the lines as they are with --header none",
        ),
    };
    Err(Error::usage_with_hint(message, hint))
}
