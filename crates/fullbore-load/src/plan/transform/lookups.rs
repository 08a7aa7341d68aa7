//! Lookups of a job: read once, as a whole, from files or from tables of the destination.

use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use fullbore_parse::block::Block;
use fullbore_parse::sql_types;
use fullbore_parse::types::FieldType;
use fullbore_parse::{Lane, Parser};
use fullbore_read::columnar::{Reading, RowFeed};
use fullbore_read::constants::MAX_FIELD_BYTES_DEFAULT;
use fullbore_read::error::{Error, Result};
use fullbore_read::feed::Fed;
use fullbore_read::lines::line_at;
use fullbore_read::ranges::RangeFeed;
use fullbore_read::{FileRange, SourceFile, StoreOptions};
use fullbore_transform::lookup::KeyForm;
use fullbore_transform::{Lookup, assign, lookup};

use super::found::{Found, parsed};
use crate::job::{LookupJob, Missing, PieceSize, TableJob};
use crate::plan::columns::{Shapes, match_columns};
use crate::plan::format::Format;
use crate::plan::header::settle;
use crate::plan::look::{Sources, look};
use crate::plan::schema::{Schema, guessed_types, inferred_columns};
use crate::target::Target;
use crate::target_column::TargetColumn;

/// Bytes that the lookups of a table take at most, by default.
const BYTES_MAX: u64 = 1 << 30;

/// Reads the lookups of a job.
pub fn read<T: Target>(
    job: &TableJob,
    store: &StoreOptions,
    target: Option<&T>,
) -> Result<Vec<Arc<Found>>> {
    let each = job.lookups.iter().map(|lookup| read_one(lookup, store, target).map(Arc::new));
    each.collect()
}

fn read_one<T: Target>(job: &LookupJob, store: &StoreOptions, target: Option<&T>) -> Result<Found> {
    let limit = job.memory.map_or(BYTES_MAX, PieceSize::bytes);
    let mut forms = Vec::new();
    let (types, batches) = match (&job.table, job.sources.as_slice()) {
        (Some(_), [_, ..]) | (None, []) => {
            return Err(Error::usage_with_hint(
                format!("lookup {}: it needs either sources or a table", job.name),
                "sources = \"customers.csv\", or table = \"customers\"",
            ));
        }
        (Some(table), []) => match target {
            Some(target) => table_rows(target, table, limit, &mut forms)?,
            None => {
                return Err(Error::usage_with_hint(
                    format!("lookup {}: this destination has no tables", job.name),
                    "read the lookup from files: sources = \"customers.csv\"",
                ));
            }
        },
        (None, _) => file_rows(job, store, limit)?,
    };
    let wrong = |why: String| Error::usage(format!("lookup {}: {why}", job.name));
    let columns = match batches.is_empty() {
        true => types.iter().map(|(name, kind)| (name.clone(), empty(kind))).collect(),
        false => lookup::columns_of(&batches).map_err(wrong)?,
    };
    let place = |name: &str| {
        let found = types.iter().position(|(known, _)| known == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = types.iter().map(|(name, _)| name.as_str()).collect();
            Error::usage(format!(
                "lookup {}: it has no column {name:?}; it has {}",
                job.name,
                known.join(", ")
            ))
        })
    };
    let keys = job.key.0.iter().map(|(name, _)| place(name)).collect::<Result<Vec<_>>>()?;
    if keys.is_empty() {
        return Err(Error::usage_with_hint(
            format!("lookup {}: it has no key", job.name),
            "key = { number = \"customer_no\" }: a column of the lookup and an expression over fields",
        ));
    }
    let valid = match &job.valid {
        Some(valid) => Some((place(&valid.from)?, place(&valid.to)?)),
        None => None,
    };
    let of_keys = keys.iter().map(|key| forms.get(*key).copied().unwrap_or_default()).collect();
    let mut found = Lookup::new(columns, keys, valid).map_err(wrong)?.with_forms(of_keys);
    if let Some(default) = &job.default {
        default.0.iter().try_for_each(|(name, _)| place(name).map(drop))?;
        let values = types.iter().map(|(name, field_type)| {
            let value = default.0.iter().find(|(known, _)| known == name).map(|(_, text)| text);
            let text: ArrayRef = Arc::new(StringArray::from(vec![value.cloned()]));
            let wrong = |why| Error::usage(format!("lookup {}: default {name}: {why}", job.name));
            assign::assigned(&text, field_type).map_err(wrong)
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        found = found.with_default(&values).map_err(wrong)?;
    }
    if found.bytes() as u64 > limit {
        return Err(too_large(&job.name, limit));
    }
    let members = match (job.missing, &job.table, target) {
        (Some(Missing::Insert), Some(table), Some(target)) => {
            let key: Vec<String> = job.key.0.iter().map(|(name, _)| name.clone()).collect();
            Some(Mutex::new(target.members(table, &key)?))
        }
        (Some(Missing::Insert), ..) => {
            return Err(Error::usage_with_hint(
                format!("lookup {}: nothing can be inserted into files", job.name),
                "missing = \"insert\" needs table = \"NAME\", a table of the destination",
            ));
        }
        _ => None,
    };
    if members.is_some() && (job.valid.is_some() || job.default.is_some()) {
        return Err(Error::usage_with_hint(
            format!(
                "lookup {}: missing keys can't be inserted if there are versions or a default",
                job.name
            ),
            "choose one of missing = \"insert\", default and valid",
        ));
    }
    Ok(Found { job: job.clone(), lookup: found, types, forms, members })
}

type Rows = (Vec<(String, FieldType)>, Vec<RecordBatch>);

fn empty(field_type: &FieldType) -> ArrayRef {
    arrow_array::new_empty_array(&field_type.arrow())
}

fn too_large(name: &str, limit: u64) -> Error {
    Error::usage_with_hint(
        format!("lookup {name} needs more than {limit} bytes of memory"),
        "raise memory = \"2GB\" of the lookup, or load the keys into a table and join there",
    )
}

/// A type as lookups hold it: what expressions can use.
fn held(field_type: Option<FieldType>) -> FieldType {
    match field_type {
        Some(FieldType::NumericText { .. }) => FieldType::Decimal { precision: 38, scale: 10 },
        Some(
            FieldType::Uuid
            | FieldType::Json
            | FieldType::Jsonb
            | FieldType::Enum { .. }
            | FieldType::Text { .. }
            | FieldType::Array(_),
        )
        | None => FieldType::text(),
        Some(other) => other,
    }
}

/// The form in which texts of a column are compared.
fn form(column: &TargetColumn) -> KeyForm {
    let is_padded = column.type_name == "character" || column.type_name.starts_with("character(");
    match column.field_type {
        Some(FieldType::Uuid) => KeyForm::Uuid,
        _ if is_padded => KeyForm::Unpadded,
        _ => KeyForm::AsItIs,
    }
}

/// The rows of a table of the destination.
fn table_rows<T: Target>(
    target: &T,
    table: &str,
    limit: u64,
    forms: &mut Vec<KeyForm>,
) -> Result<Rows> {
    let Some(columns) = target.existing_columns(table)? else {
        return Err(Error::usage(format!("lookup: there is no table {table}")));
    };
    *forms = columns.iter().map(form).collect();
    let types = columns.into_iter().map(|column| (column.name, held(column.field_type)));
    let types: Vec<_> = types.collect();
    let (mut batches, mut bytes) = (Vec::new(), 0);
    target.read_table(table, &mut |lines| {
        let batch = parsed(table, &types, forms, lines)?;
        bytes += batch.get_array_memory_size() as u64;
        batches.push(batch);
        if bytes > limit { Err(too_large(table, limit)) } else { Ok(()) }
    })?;
    Ok((types, batches))
}

/// The rows of files.
fn file_rows(job: &LookupJob, store: &StoreOptions, limit: u64) -> Result<Rows> {
    let table = TableJob {
        name: Some(job.name.clone()),
        sources: job.sources.clone(),
        format: job.format,
        delimiter: job.delimiter.clone(),
        null: job.null.clone(),
        header: job.header,
        columns: job.columns.clone(),
        encoding: job.encoding.clone(),
        ..TableJob::default()
    };
    let mut sources = look(&table, store)?;
    settle(&table, &mut sources, None)?;
    let mut columns = inferred_columns(&table, &sources, &mut Schema::default())?;
    let guessed = match &sources.format {
        Format::Delimited(_) => guessed_types(&table, &sources)?,
        Format::Columnar(_) => Default::default(),
    };
    for column in &mut columns {
        let mut given = job.types.iter().filter_map(|given| given.split_once('='));
        let given = given.rfind(|(name, _)| *name == column.name);
        let field_type = match given {
            Some((_, given)) => sql_types::field_type(given).ok_or_else(|| {
                Error::usage(format!("lookup {}: type {given} is not known", job.name))
            })?,
            None => match guessed.get(&column.name) {
                Some(guess) => guess.clone(),
                None => column.field_type.clone().unwrap_or_else(FieldType::text),
            },
        };
        column.field_type = Some(held(Some(field_type)));
    }
    let shapes = match_columns(&table, &sources, &columns, &Default::default(), None, false)?;
    let names = shapes.typed.columns.iter();
    let types = names.map(|column| (column.name.clone(), column.field_type.clone())).collect();
    let batches = batches(job, &sources, &shapes, limit)?;
    Ok((types, batches))
}

fn batches(
    job: &LookupJob,
    sources: &Sources,
    shapes: &Shapes,
    limit: u64,
) -> Result<Vec<RecordBatch>> {
    let (mut batches, mut bytes) = (Vec::new(), 0);
    let mut take = |batch: RecordBatch| {
        bytes += batch.get_array_memory_size() as u64;
        batches.push(batch);
        if bytes > limit { Err(too_large(&job.name, limit)) } else { Ok(()) }
    };
    for (file, source) in sources.files.iter().enumerate() {
        let end = if source.is_seekable() { source.end() } else { u64::MAX };
        if end <= source.data_start {
            continue;
        }
        match &sources.format {
            Format::Delimited(dialect) => {
                let ranges = vec![FileRange { file, start: source.data_start, end }];
                let (files, most) = (sources.files.clone(), MAX_FIELD_BYTES_DEFAULT);
                let mut feed = RangeFeed::new(files, ranges, dialect.clone(), most);
                let mut parser = Parser::new(dialect.clone(), shapes.typed.clone());
                let mut block = Block::default();
                while feed.next(&mut block)? {
                    let parsed = parser.parse(&block);
                    let faults = parsed
                        .faults
                        .iter()
                        .map(|fault| (&fault.range, fault.reason.message(&shapes.typed, file)));
                    let odd = parsed
                        .odd
                        .iter()
                        .map(|odd| (&odd.range, "a value is not of its column's type".to_owned()));
                    if let Some((range, why)) =
                        faults.chain(odd).min_by_key(|(range, _)| range.start)
                    {
                        return Err(bad_row(job, source, block.offset + range.start as u64, &why));
                    }
                    take(parsed.batch)?;
                }
            }
            Format::Columnar(_) => {
                let rows = FileRange { file, start: 0, end: u64::MAX };
                let reading = Reading::alone(shapes.typed.clone(), MAX_FIELD_BYTES_DEFAULT);
                let mut feed = RowFeed::new(sources.files.clone(), vec![rows], reading);
                while let Fed::Rows(rows) = feed.next(Lane::Binary)? {
                    if let Some(fault) = rows.faults.first() {
                        let words = format!("row {}: {}", fault.row + 1, fault.reason);
                        return Err(bad(job, source, &words));
                    }
                    take(rows.batch)?;
                }
            }
        }
    }
    Ok(batches)
}

fn bad_row(job: &LookupJob, source: &SourceFile, offset: u64, why: &str) -> Error {
    let line = line_at(source, offset).filter(|_| source.is_seekable());
    let place = line.map_or(format!("byte {offset}"), |line| format!("line {line}"));
    bad(job, source, &format!("{place}: {why}"))
}

fn bad(job: &LookupJob, source: &SourceFile, words: &str) -> Error {
    Error::Source {
        path: source.path.clone(),
        message: format!("{words} (lookup {})", job.name),
        hint: Some("correct the file, or name the column's type: types = [\"COLUMN=text\"]".into()),
    }
}
