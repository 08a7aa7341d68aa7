//! Decides what each field of a record becomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::DataType;
use fullbore_parse::Lane;
use fullbore_parse::dialect::{Header, Ragged};
use fullbore_parse::json::{JsonFields, JsonKind};
use fullbore_parse::types::{FieldType, ParseColumn, ParseShape};
use fullbore_read::error::{Error, Result};
use fullbore_read::{cast, columnar};

use super::lineage;
use super::look::Sources;
use super::names::{is_selected, named};
use super::stored;
use super::transform::apply::Transform;
use super::transform::asked::Asked;
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
    /// What is made of what is read, where that is not what is sent.
    pub transform: Option<Arc<Transform>>,
    /// Columns of Parquet files whose nanoseconds the target does not keep.
    pub rounded: Vec<String>,
    /// What should be known of how fields and columns were matched.
    pub notes: Vec<String>,
}

/// Matches fields and columns: by `--columns`, by the header's names, or by their order.
/// `inferred` are the columns whose types were guessed, `asked` what is computed of fields; `judges`: the destination
/// reads what is sent as text.
pub fn match_columns(
    job: &TableJob,
    sources: &Sources,
    target: &[TargetColumn],
    inferred: &BTreeMap<String, String>,
    asked: Option<Asked>,
    judges: bool,
) -> Result<Shapes> {
    let mut notes = Vec::new();
    let mut lineage = lineage::columns(job, target)?;
    lineage.extend(lineage::of_folders(job, sources, target, &mut notes)?);
    lineage.extend(lineage::order(job, sources)?);
    let is_lineage = |name: &str| lineage.iter().any(|column| column.name == name);
    let whole = target;
    // What is filled in by us is no field of the files.
    let is_field =
        |column: &&TargetColumn| !is_lineage(&column.name) && !is_selected(job, &column.name);
    let target: Vec<TargetColumn> = target.iter().filter(is_field).cloned().collect();
    let target = target.as_slice();
    let needs_none = |name: &str| asked.as_ref().is_some_and(|asked| asked.needs_no_column(name));
    let loadable: Vec<&TargetColumn> = target.iter().filter(|c| !c.is_generated).collect();
    let keys = match sources.is_json() {
        true => Some(by_key(job, &loadable, target, sources, &needs_none, &mut notes)?),
        false => None,
    };
    let fields: Vec<Option<&TargetColumn>> = match (&keys, &job.columns, &sources.names) {
        (Some(keys), ..) => keys.iter().map(|(_, column)| *column).collect(),
        (None, Some(listed), _) => by_list(listed, target, &needs_none)?,
        (None, None, Some(names)) => {
            let found = by_name(names, &loadable, target, sources, &needs_none, &mut notes);
            found.map_err(|error| if asked.is_some() { or_left_out(error) } else { error })?
        }
        (None, None, None) => match &asked {
            Some(asked) => by_list(&asked.field_names, target, &needs_none)?,
            None => loadable.iter().copied().map(Some).collect(),
        },
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
    if fields.iter().all(Option::is_none) && asked.is_none() {
        return Err(Error::usage(format!("no column of {table} would be loaded")));
    }
    // The fields that are loaded as they are, each with its column.
    let own = fields.iter().enumerate().filter_map(|(field, column)| Some((field, (*column)?)));
    let mut loaded: Vec<(usize, &TargetColumn)> = own.collect();
    for (name, field) in asked.iter().flat_map(|asked| &asked.renamed) {
        loaded.push((*field, renamed(name, whole)?));
    }
    check_stored(&loaded, sources)?;
    let field_names: Vec<String> = fields
        .iter()
        .enumerate()
        .map(|(at, column)| match (column, &sources.names) {
            (Some(_), _) if keys.is_some() => {
                keys.iter().flatten().nth(at).expect("one each").0.clone()
            }
            (_, Some(names)) if sources.format.is_columnar() => names[at].clone(),
            (Some(column), _) => column.name.clone(),
            (None, _) => match &asked {
                Some(asked) if asked.field_names[at] != "-" => asked.field_names[at].clone(),
                _ => format!("field {}", at + 1),
            },
        })
        .collect();
    let json = keys.as_ref().map(|keys| {
        let kinds =
            keys.iter().map(|(_, column)| column.map_or(JsonKind::Value, json_kind)).collect();
        Arc::new(JsonFields::new(&field_names, kinds, job.columns.is_some()))
    });
    let shape_of = |columns: Vec<ParseColumn>| {
        Arc::new(ParseShape {
            fields: fields.len(),
            columns,
            field_names: field_names.clone(),
            orders: sources.orders.clone(),
            json: json.clone(),
        })
    };
    let as_they_are = |typed: bool| {
        let columns = loaded.iter().map(|(field, column)| {
            let field_type = match &column.field_type {
                Some(field_type) if typed => field_type.clone(),
                _ => FieldType::text(),
            };
            let guess = inferred.contains_key(&column.name).then(|| column.field_type.clone());
            let (name, guess) = (column.name.clone(), guess.flatten());
            ParseColumn { name, field: *field, field_type, guess }
        });
        columns.collect::<Vec<_>>()
    };
    let shape = |typed: bool| {
        let mut columns = as_they_are(typed);
        columns.extend(asked.iter().flat_map(|asked| asked.sent(typed)));
        columns.extend(lineage.iter().map(|column| column.sent(typed)));
        shape_of(columns)
    };
    let is_sent = |name: &String| {
        let mut computed = asked.iter().flat_map(|asked| &asked.computed);
        loaded.iter().any(|(_, column)| column.name == *name) || computed.any(|c| c.name == *name)
    };
    let is_text_only = |column: &&TargetColumn| {
        column.keeps_rows_text || column.field_type.is_none() && is_sent(&column.name)
    };
    let text_only = whole.iter().filter(is_text_only);
    let text_only: Vec<String> =
        text_only.map(|column| format!("{} ({})", column.name, column.type_name)).collect();
    let (lane, lane_reason) = if !text_only.is_empty() {
        (Lane::Text, Some(format!("no binary form for {}", text_only.join(", "))))
    } else if job.as_text {
        (Lane::Text, Some("--as-text".into()))
    } else if let Some(reason) = judged_by_server(&loaded, sources, judges) {
        (Lane::Text, Some(reason))
    } else {
        (Lane::Binary, None)
    };
    let rounded = rounded(&loaded, sources);
    let (typed, text) = (shape(true), shape(false));
    let read = |typed: bool| {
        let inputs = asked.iter().flat_map(|asked| asked.read(typed));
        shape_of(as_they_are(typed).into_iter().chain(inputs).collect())
    };
    let shapes = asked.is_some().then(|| (read(true), read(false)));
    let transform = asked.zip(shapes);
    let transform =
        transform.map(|(asked, (typed, text))| Arc::new(Transform::new(asked, typed, text)));
    Ok(Shapes { typed, text, lane, lane_reason, lineage, transform, rounded, notes })
}

/// A refusal with what a transform can do about it.
fn or_left_out(error: Error) -> Error {
    let hint = error.hint().unwrap_or("check the names of the fields");
    let hint = format!("{hint}; or leave a field out with --select FIELD=");
    Error::usage_with_hint(error.to_string(), hint)
}

/// The column that a field of another name is loaded into.
fn renamed<'a>(name: &str, target: &'a [TargetColumn]) -> Result<&'a TargetColumn> {
    let found = named(name, target).filter(|column| !column.is_generated);
    found.ok_or_else(|| {
        let known: Vec<&str> = target.iter().map(|column| column.name.as_str()).collect();
        Error::usage_with_hint(
            format!(
                "--select {name}: the table has no such column to load; it has {}",
                known.join(", ")
            ),
            "add the column to the table, or create the table with --create",
        )
    })
}

/// What the files store of a field.
fn stored_of(sources: &Sources, field: usize) -> &[DataType] {
    sources.stored.get(field).map_or(&[], Vec::as_slice)
}

/// Refuses columns of Parquet files that their target's columns can hold nothing of.
fn check_stored(loaded: &[(usize, &TargetColumn)], sources: &Sources) -> Result<()> {
    let names = sources.names.as_deref().unwrap_or_default();
    for (field, column) in loaded {
        let name = names.get(*field).map_or("", String::as_str);
        let stored = stored_of(sources, *field).iter();
        stored.clone().try_for_each(|stored| stored::check_target(name, stored, column))?;
    }
    Ok(())
}

/// Columns whose nanoseconds the target does not keep.
fn rounded(loaded: &[(usize, &TargetColumn)], sources: &Sources) -> Vec<String> {
    let stored = loaded.iter().filter_map(|(field, column)| {
        let target = column.field_type.as_ref()?;
        let mut stored = stored_of(sources, *field).iter();
        stored.any(|stored| columnar::is_finer(stored, target)).then(|| column.name.clone())
    });
    stored.collect()
}

/// Why rows of Parquet files go as text: a value of theirs means what the server says. Where the destination does
/// not judge text, values of another kind are what they are counted as.
fn judged_by_server(
    loaded: &[(usize, &TargetColumn)],
    sources: &Sources,
    judges: bool,
) -> Option<String> {
    loaded.iter().find_map(|(field, column)| {
        let target = column.field_type.as_ref()?;
        let mut stored = stored_of(sources, *field).iter();
        let of_another_kind = |stored| {
            (judges && cast::is_of_another_kind(stored, target))
                .then_some("stored as values of another kind in the file")
        };
        let why = stored.find_map(|stored| {
            cast::judged_by_server(stored, target).or_else(|| of_another_kind(stored))
        })?;
        Some(format!("{} ({}) is {why}", column.name, column.type_name))
    })
}

fn by_list<'a>(
    listed: &[String],
    target: &'a [TargetColumn],
    needs_none: &dyn Fn(&str) -> bool,
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
            if needs_none(name) && named(name, target).is_none() {
                return Ok(None);
            }
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
    needs_none: &dyn Fn(&str) -> bool,
    notes: &mut Vec<String>,
) -> Result<Vec<(String, Option<&'a TargetColumn>)>> {
    let path = sources.files[0].path.display();
    let table = job.name.as_deref().unwrap_or("the table");
    let (keys, names) = match &job.columns {
        Some(listed) => (listed.as_slice(), listed.as_slice()),
        None => (
            sources.header_names.as_deref().unwrap_or_default(),
            sources.names.as_deref().unwrap_or_default(),
        ),
    };
    let mut found: Vec<(String, Option<&TargetColumn>)> = Vec::new();
    for (key, name) in keys.iter().zip(names) {
        if job.columns.is_some() && key == "-" {
            return Err(Error::usage_with_hint(
                "--columns has a dash, but JSON lines have keys instead of positions",
                "list the keys to load; others are ignored",
            ));
        }
        let Some(column) = named(name, target) else {
            if needs_none(name) {
                found.push((key.clone(), None));
                continue;
            }
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
        let is_it = |taken: &Option<&TargetColumn>| taken.is_some_and(|t| t.name == column.name);
        if let Some((other, _)) = found.iter().find(|(_, taken)| is_it(taken)) {
            return Err(Error::usage_with_hint(
                format!("{path}: keys {other:?} and {key:?} are both column {:?}", column.name),
                "choose the keys to load: --columns a,b,c",
            ));
        }
        found.push((key.clone(), Some(column)));
    }
    if job.columns.is_some() {
        return Ok(found);
    }
    let is_missing = |column: &&&TargetColumn| {
        !found.iter().flat_map(|(_, taken)| taken).any(|t| t.name == column.name)
    };
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
    found.extend(missing.into_iter().map(|column| (column.name.clone(), Some(column))));
    Ok(found)
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
    needs_none: &dyn Fn(&str) -> bool,
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
        if needs_none(name) && named(name, target).is_none() {
            fields.push(None);
            continue;
        }
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
