//! Decides what each field of a record becomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use fullbore_parse::Lane;
use fullbore_parse::dialect::{Header, Ragged};
use fullbore_parse::json::{JsonFields, JsonKind};
use fullbore_parse::types::{FieldType, ParseColumn, ParseShape};
use fullbore_read::error::{Error, Result};
use fullbore_read::{cast, columnar};

use super::lineage;
use super::look::Sources;
use super::names::alike;
use super::stored;
use crate::TargetColumn;
use crate::job::TableJob;
use crate::plan::format::Format;

/// The shapes of a table's records, typed and as text.
pub struct Shapes {
    pub typed: Arc<ParseShape>,
    pub text: Arc<ParseShape>,
    pub lane: Lane,
    pub lane_reason: Option<String>,
    /// What the last columns say, which no field stands behind.
    pub lineage: Vec<lineage::LineageColumn>,
    /// Columns of Parquet files whose nanoseconds the target does not keep.
    pub rounded: Vec<String>,
    /// What should be known of how fields and columns were matched.
    pub notes: Vec<String>,
}

/// Matches fields and columns: by `--columns`, by the header's names, or by their order.
/// `inferred` are the columns whose types were guessed.
pub fn match_columns(
    job: &TableJob,
    sources: &Sources,
    target: &[TargetColumn],
    inferred: &BTreeMap<String, String>,
) -> Result<Shapes> {
    let mut notes = Vec::new();
    let mut lineage = lineage::columns(job, target)?;
    lineage.extend(lineage::of_folders(job, sources, target, &mut notes)?);
    let is_lineage = |name: &str| lineage.iter().any(|column| column.name == name);
    // What is filled in by us is no field of the files.
    let target: Vec<TargetColumn> =
        target.iter().filter(|column| !is_lineage(&column.name)).cloned().collect();
    let target = target.as_slice();
    let loadable: Vec<&TargetColumn> = target.iter().filter(|c| !c.is_generated).collect();
    let keys = match sources.is_json() {
        true => Some(by_key(job, &loadable, target, sources, &mut notes)?),
        false => None,
    };
    let fields: Vec<Option<&TargetColumn>> = match (&keys, &job.columns, &sources.names) {
        (Some(keys), ..) => keys.iter().map(|(_, column)| Some(*column)).collect(),
        (None, Some(listed), _) => by_list(listed, target)?,
        (None, None, Some(names)) => by_name(names, &loadable, target, sources, &mut notes)?,
        (None, None, None) => loadable.iter().copied().map(Some).collect(),
    };
    let table = job.name.as_deref().unwrap_or("the table");
    let may_differ = |found: usize| match job.ragged.unwrap_or_default() {
        Ragged::Reject => false,
        Ragged::Pad => found < fields.len(),
        Ragged::Cut => found > fields.len(),
    };
    let misfit = sources.fields.filter(|found| *found != fields.len() && !may_differ(*found));
    if let Some(found) = misfit {
        return Err(Error::usage_with_hint(
            format!(
                "{}: records have {found} fields, but {} columns of {table} would be loaded",
                sources.files[0].path.display(),
                fields.len()
            ),
            "list the fields with --columns a,b,-,d (a dash skips one), or check --delimiter",
        ));
    }
    if fields.iter().all(Option::is_none) {
        return Err(Error::usage(format!("no column of {table} would be loaded")));
    }
    check_stored(&fields, sources)?;
    let field_names: Vec<String> = fields
        .iter()
        .enumerate()
        .map(|(at, column)| match (column, &sources.names) {
            (Some(_), _) if keys.is_some() => {
                keys.iter().flatten().nth(at).expect("one each").0.clone()
            }
            (_, Some(names)) if sources.format.is_columnar() => names[at].clone(),
            (Some(column), _) => column.name.clone(),
            (None, _) => format!("field {}", at + 1),
        })
        .collect();
    let json = keys.as_ref().map(|keys| {
        let kinds = keys.iter().map(|(_, column)| json_kind(column)).collect();
        Arc::new(JsonFields::new(&field_names, kinds, job.columns.is_some()))
    });
    let shape = |typed: bool| {
        let columns = fields.iter().enumerate().filter_map(|(field, column)| {
            let column = (*column)?;
            let field_type = match &column.field_type {
                Some(field_type) if typed => field_type.clone(),
                _ => FieldType::text(),
            };
            let guess = inferred.contains_key(&column.name).then(|| column.field_type.clone());
            Some(ParseColumn {
                name: column.name.clone(),
                field,
                field_type,
                guess: guess.flatten(),
            })
        });
        let columns = columns.chain(lineage.iter().map(|column| column.sent(typed)));
        Arc::new(ParseShape {
            fields: fields.len(),
            columns: columns.collect(),
            field_names: field_names.clone(),
            orders: sources.orders.clone(),
            json: json.clone(),
        })
    };
    let text_only: Vec<String> = fields
        .iter()
        .flatten()
        .filter(|column| column.field_type.is_none())
        .map(|column| format!("{} ({})", column.name, column.type_name))
        .collect();
    let (lane, lane_reason) = if !text_only.is_empty() {
        (Lane::Text, Some(format!("no binary form for {}", text_only.join(", "))))
    } else if job.as_text {
        (Lane::Text, Some("--as-text".into()))
    } else if let Some(reason) = judged_by_server(&fields, sources) {
        (Lane::Text, Some(reason))
    } else {
        (Lane::Binary, None)
    };
    let rounded = rounded(&fields, sources);
    let (typed, text) = (shape(true), shape(false));
    Ok(Shapes { typed, text, lane, lane_reason, lineage, rounded, notes })
}

/// Refuses columns of Parquet files that their target's columns can hold nothing of.
fn check_stored(fields: &[Option<&TargetColumn>], sources: &Sources) -> Result<()> {
    let names = sources.names.as_deref().unwrap_or_default();
    for ((column, stored), name) in fields.iter().zip(&sources.stored).zip(names) {
        let Some(column) = column else { continue };
        stored.iter().try_for_each(|stored| stored::check_target(name, stored, column))?;
    }
    Ok(())
}

/// Columns whose nanoseconds the target does not keep.
fn rounded(fields: &[Option<&TargetColumn>], sources: &Sources) -> Vec<String> {
    let stored = fields.iter().zip(&sources.stored).filter_map(|(column, stored)| {
        let column = (*column)?;
        let target = column.field_type.as_ref()?;
        let is_finer = stored.iter().any(|stored| columnar::is_finer(stored, target));
        is_finer.then(|| column.name.clone())
    });
    stored.collect()
}

/// Why rows of Parquet files go as text: a value of theirs means what the server says.
fn judged_by_server(fields: &[Option<&TargetColumn>], sources: &Sources) -> Option<String> {
    fields.iter().zip(&sources.stored).find_map(|(column, stored)| {
        let column = (*column)?;
        let target = column.field_type.as_ref()?;
        let why = stored.iter().find_map(|stored| cast::judged_by_server(stored, target))?;
        Some(format!("{} ({}) is {why}", column.name, column.type_name))
    })
}

fn by_list<'a>(
    listed: &[String],
    target: &'a [TargetColumn],
) -> Result<Vec<Option<&'a TargetColumn>>> {
    let mut seen = Vec::new();
    listed
        .iter()
        .map(|name| {
            if name == "-" {
                return Ok(None);
            }
            if seen.contains(&name) {
                return Err(Error::usage_with_hint(
                    format!("--columns names {name:?} twice"),
                    "skip the unwanted field with a dash: --columns a,b,-,d",
                ));
            }
            seen.push(name);
            find(name, target).map(Some)
        })
        .collect()
}

/// What a column takes of JSON values.
fn json_kind(column: &TargetColumn) -> JsonKind {
    match column.type_name.as_str() {
        "json" | "jsonb" => JsonKind::Json,
        name if name.ends_with("[]") => JsonKind::Array,
        _ => JsonKind::Value,
    }
}

/// The keys of JSON lines that are loaded, each with its column: those that are listed, else all that the
/// samples have, and one for each further column that the database does not fill.
fn by_key<'a>(
    job: &TableJob,
    loadable: &[&'a TargetColumn],
    target: &'a [TargetColumn],
    sources: &Sources,
    notes: &mut Vec<String>,
) -> Result<Vec<(String, &'a TargetColumn)>> {
    let path = sources.files[0].path.display();
    let table = job.name.as_deref().unwrap_or("the table");
    let (keys, names) = match &job.columns {
        Some(listed) => (listed.as_slice(), listed.as_slice()),
        None => (
            sources.header_names.as_deref().unwrap_or_default(),
            sources.names.as_deref().unwrap_or_default(),
        ),
    };
    let mut found: Vec<(String, &TargetColumn)> = Vec::new();
    for (key, name) in keys.iter().zip(names) {
        if job.columns.is_some() && key == "-" {
            return Err(Error::usage_with_hint(
                "--columns has a dash, but JSON lines have keys instead of positions",
                "list the keys to load; others are ignored",
            ));
        }
        let Some(column) = named(name, target) else {
            let known: Vec<&str> = target.iter().map(|column| column.name.as_str()).collect();
            return Err(Error::usage_with_hint(
                format!(
                    "{path}: {table} has no column for key {key:?}; it has {}",
                    known.join(", ")
                ),
                "load only some keys with --columns a,b,c; others are ignored",
            ));
        };
        if column.is_generated {
            return Err(Error::usage_with_hint(
                format!("{path}: key {key:?} names a column that the database generates"),
                "load the other keys with --columns a,b,c",
            ));
        }
        if let Some((other, _)) = found.iter().find(|(_, taken)| taken.name == column.name) {
            return Err(Error::usage_with_hint(
                format!("{path}: keys {other:?} and {key:?} are both column {:?}", column.name),
                "choose the keys to load: --columns a,b,c",
            ));
        }
        found.push((key.clone(), column));
    }
    if job.columns.is_some() {
        return Ok(found);
    }
    let is_missing =
        |column: &&&TargetColumn| !found.iter().any(|(_, taken)| taken.name == column.name);
    let (filled, missing): (Vec<&TargetColumn>, Vec<&TargetColumn>) =
        loadable.iter().filter(is_missing).partition(|column| column.fills_itself);
    if !filled.is_empty() {
        notes.push(format!(
            "no sampled line has {}, which the database fills from {}",
            listed(&filled),
            if filled.len() == 1 { "its default" } else { "their defaults" }
        ));
    }
    if !missing.is_empty() {
        notes.push(format!(
            "no sampled line has {}: lines without the key are loaded as NULL",
            listed(&missing)
        ));
    }
    found.extend(missing.into_iter().map(|column| (column.name.clone(), column)));
    Ok(found)
}

/// The column of a name: of just that, else of one like it, where that is not ambiguous.
fn named<'a>(name: &str, target: &'a [TargetColumn]) -> Option<&'a TargetColumn> {
    let only = |is_it: &dyn Fn(&str) -> bool| {
        let mut same = target.iter().filter(|column| is_it(&column.name));
        same.next().filter(|_| same.next().is_none())
    };
    only(&|column| column == name)
        // As an unquoted name in SQL is.
        .or_else(|| only(&|column| column.eq_ignore_ascii_case(name)))
        .or_else(|| only(&|column| alike(column, name)))
}

fn find<'a>(name: &str, target: &'a [TargetColumn]) -> Result<&'a TargetColumn> {
    let Some(column) = named(name, target) else {
        let known: Vec<&str> = target.iter().map(|column| column.name.as_str()).collect();
        return Err(Error::usage_with_hint(
            format!("the table has no column {name:?}; it has {}", known.join(", ")),
            "skip the field with a dash: --columns a,b,-,d",
        ));
    };
    if column.is_generated {
        return Err(Error::usage_with_hint(
            format!("column {name:?} is generated by the database and can't be loaded"),
            "skip the field with a dash: --columns a,b,-,d",
        ));
    }
    Ok(column)
}

fn by_name<'a>(
    names: &[String],
    loadable: &[&'a TargetColumn],
    target: &'a [TargetColumn],
    sources: &Sources,
    notes: &mut Vec<String>,
) -> Result<Vec<Option<&'a TargetColumn>>> {
    let path = sources.files[0].path.display();
    let written = sources.header_names.as_deref().unwrap_or(names);
    if let Format::Delimited(dialect) = &sources.format
        && dialect.header == Header::Match
    {
        let wanted: Vec<&str> = loadable.iter().map(|column| column.name.as_str()).collect();
        if written.iter().map(String::as_str).ne(wanted.iter().copied()) {
            return Err(Error::usage_with_hint(
                format!("{path}: the header is {written:?}, the table's columns are {wanted:?}"),
                "--header true matches them by name, in any order",
            ));
        }
    }
    let header = if sources.format.is_columnar() { "the source" } else { "the header" };
    let mut fields: Vec<Option<&TargetColumn>> = Vec::new();
    for (place, (name, written)) in names.iter().zip(written).enumerate() {
        if written.trim().is_empty() && named(name, target).is_none() {
            return Err(Error::usage_with_hint(
                format!("{path}: header field {} is empty", place + 1),
                "name it with --columns a,b,-,d (a dash skips one)",
            ));
        }
        let column = match named(name, target) {
            Some(_) => find(name, target)?,
            None => find(written, target).map_err(|error| of_header(error, written, sources))?,
        };
        if fields.iter().flatten().any(|found| found.name == column.name) {
            return Err(Error::usage_with_hint(
                format!("{path}: {header} names {written:?} twice"),
                "name the fields yourself: --columns a,b,-,d (a dash skips one)",
            ));
        }
        fields.push(Some(column));
    }
    let is_missing =
        |column: &&&TargetColumn| !fields.iter().flatten().any(|found| found.name == column.name);
    let (filled, missing): (Vec<&TargetColumn>, Vec<&TargetColumn>) =
        loadable.iter().filter(is_missing).partition(|column| column.fills_itself);
    if !missing.is_empty() {
        return Err(Error::usage_with_hint(
            format!("{path}: {header} lacks the table's columns {}", listed(&missing)),
            "to load only some, list the fields: --columns a,b,c; the others take their defaults",
        ));
    }
    if !filled.is_empty() {
        notes.push(format!(
            "{header} lacks {}, which the database fills from {}",
            listed(&filled),
            if filled.len() == 1 { "its default" } else { "their defaults" }
        ));
    }
    Ok(fields)
}

fn listed(columns: &[&TargetColumn]) -> String {
    columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The refusal of a name that no column has: the line may be no header.
fn of_header(error: Error, name: &str, sources: &Sources) -> Error {
    if sources.format.is_columnar() {
        return error;
    }
    let path = sources.files[0].path.display();
    Error::usage_with_hint(
        format!("{path}: the first line was read as a header; {error}"),
        format!(
            "if it is data: --header none; otherwise list the fields with --columns, with a dash \
             for {name:?}"
        ),
    )
}
