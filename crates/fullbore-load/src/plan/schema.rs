//! Columns of a table to create: from the job's schema file or types, or inferred from samples.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fullbore_parse::dialect::{Dialect, Family};
use fullbore_parse::sql_types;
use fullbore_parse::types::FieldType;
use fullbore_read::columnar;
use fullbore_read::error::{Error, Result};

use crate::TargetColumn;
use crate::job::TableJob;
use crate::plan::format::Format;
use crate::plan::infer::{
    InferredColumn, Sample, Spoilt, SpoiltBy, infer, infer_fixed, infer_keys, null_options,
    type_option, values_of,
};
use crate::plan::lineage;
use crate::plan::look::Sources;
use crate::plan::transform::asked::made;
use crate::target::{Making, NewColumn, Target};

/// What is to be said of a schema that was inferred.
#[derive(Default)]
pub struct Schema {
    /// Why each column has its type.
    pub notes: Vec<String>,
    /// What should be known before the load.
    pub warnings: Vec<String>,
    /// Columns whose types are guesses, with the types' names.
    pub inferred: BTreeMap<String, String>,
    /// Types that are none of those that fields are parsed into, by column.
    types: BTreeMap<String, &'static str>,
    /// Digits after the point that sampled numbers have at most, by column.
    fractions: BTreeMap<String, u8>,
}

/// Digits after the point that a guessed decimal has at least, and at most.
const FRACTION_DIGITS: (u8, u8) = (6, 18);

/// The types that the fields seem to have, decimals with as many digits as were sampled or six.
pub fn guessed_types(job: &TableJob, sources: &Sources) -> Result<BTreeMap<String, FieldType>> {
    let mut said = Schema::default();
    let inferred = inferred(job, sources, &mut said)?;
    let (least, most) = FRACTION_DIGITS;
    let typed = inferred.into_iter().map(|(name, field_type)| {
        let field_type = match field_type {
            FieldType::NumericText { .. } => {
                let scale = said.fractions.get(&name).copied().unwrap_or(0).clamp(least, most);
                FieldType::Decimal { precision: 38, scale }
            }
            other => other,
        };
        (name, field_type)
    });
    Ok(typed.collect())
}

/// The statement that would make the table, where one is asked for.
pub fn creation<T: Target>(
    asked: &T,
    job: &TableJob,
    name: &str,
    sources: &Sources,
    said: &mut Schema,
) -> Result<Option<String>> {
    if !job.create {
        return Ok(None);
    }
    let partition_by = job.partition_by.as_deref();
    if let Some(path) = &job.schema_file {
        let path = PathBuf::from(path);
        let sql = std::fs::read_to_string(&path).map_err(|source| Error::Read { path, source })?;
        return asked.create_statement(name, Making::Statement(&sql), partition_by).map(Some);
    }
    let inferred = made(job, sources, inferred(job, sources, said)?, &guessed_types)?;
    let (least, most) = FRACTION_DIGITS;
    let columns: Vec<NewColumn> = inferred
        .into_iter()
        .map(|(name, field_type)| {
            let known = given_type(job, &name).or_else(|| said.types.get(&name).copied());
            let type_name = known.map_or_else(|| sql_types::type_name(&field_type), str::to_owned);
            let fraction = said.fractions.get(&name).map(|digits| (*digits).clamp(least, most));
            NewColumn { name, type_name, fraction }
        })
        .collect();
    let folders = lineage::folders(sources)?;
    let names = columns.iter().map(|column| column.name.as_str());
    check_given_types(job, names.chain(folders.iter().map(|(name, _)| name.as_str())), sources)?;
    let lineage = lineage::wanted(job)?.into_iter().map(|(says, name)| NewColumn {
        name,
        type_name: sql_types::type_name(&says.field_type()),
        fraction: None,
    });
    let folders = folders.into_iter().map(|(name, field_type)| NewColumn {
        type_name: given_type(job, &name)
            .map_or_else(|| sql_types::type_name(&field_type), str::to_owned),
        name,
        fraction: None,
    });
    let columns: Vec<NewColumn> = columns.into_iter().chain(folders).chain(lineage).collect();
    asked.create_statement(name, Making::Columns(&columns, &job.key), partition_by).map(Some)
}

/// The type that the job gives a column.
fn given_type<'a>(job: &'a TableJob, column: &str) -> Option<&'a str> {
    let given = job.types.iter().filter_map(|given| given.split_once('='));
    given.filter(|(name, _)| *name == column).map(|(_, type_name)| type_name).next_back()
}

/// Refuses a type given to a column that is not there.
fn check_given_types<'a>(
    job: &TableJob,
    columns: impl Iterator<Item = &'a str> + Clone,
    sources: &Sources,
) -> Result<()> {
    let is_named = sources.names.is_some() || job.columns.is_some();
    for given in &job.types {
        let column = given.split_once('=').map(|(column, _)| column);
        if !columns.clone().any(|known| Some(known) == column) {
            return Err(match is_named {
                true => Error::usage_with_hint(
                    format!(
                        "--type {given}: the files have no such column; they have {}",
                        columns.clone().collect::<Vec<_>>().join(", ")
                    ),
                    "write --type column=type",
                ),
                false => Error::usage_with_hint(
                    format!(
                        "--type {given}: no header was recognised, so the columns are called {}",
                        columns.clone().collect::<Vec<_>>().join(", ")
                    ),
                    "if the first line names them, add --header true",
                ),
            });
        }
    }
    Ok(())
}

/// Which columns of a table that an earlier attempt of the run made have types that were guessed.
pub fn guesses(
    job: &TableJob,
    sources: &Sources,
    target: &[TargetColumn],
    said: &mut Schema,
) -> Result<()> {
    let is_guessed = job.create && job.schema_file.is_none();
    if !is_guessed || sources.format.is_columnar() {
        return Ok(());
    }
    let mut found = Schema::default();
    let inferred = inferred(job, sources, &mut found)?;
    for (name, field_type) in inferred {
        let guess = found.inferred.remove_entry(&name);
        let kind = std::mem::discriminant;
        let is_same = |column: &TargetColumn| {
            column.name == name && column.field_type.as_ref().map(kind) == Some(kind(&field_type))
        };
        said.inferred.extend(guess.filter(|_| target.iter().any(is_same)));
    }
    Ok(())
}

/// Names and types of the columns, from samples of the files.
fn inferred(
    job: &TableJob,
    sources: &Sources,
    said: &mut Schema,
) -> Result<Vec<(String, FieldType)>> {
    let Format::Delimited(dialect) = &sources.format else {
        let schema = columnar::inspect(&sources.files[0])?.schema;
        return schema
            .fields()
            .iter()
            .map(|field| {
                let name = field.name();
                let stored = columnar::stored_as(name, field.data_type())?;
                if let Some(sql) = stored.sql {
                    said.types.insert(name.clone(), sql);
                }
                Ok((name.clone(), stored.field_type))
            })
            .collect();
    };
    let names: Vec<String> = match (&job.columns, &sources.names, sources.fields) {
        (Some(listed), _, _) => listed.clone(),
        (None, Some(names), _) if !names.is_empty() => names.clone(),
        (None, None, Some(fields)) => (1..=fields).map(|n| format!("column{n}")).collect(),
        (None, _, _) => {
            return Err(Error::usage_with_hint(
                format!("{} is empty: it has no columns to infer", sources.files[0].path.display()),
                "create the table with --schema FILE.sql, or load into an existing table",
            ));
        }
    };
    let mut samples = Vec::new();
    for sample in &sources.samples {
        let order = sources.orders.get(&sample.file).map(AsRef::as_ref);
        let first = &sample.first[sample.data_start..];
        samples.push(Sample { text: first, is_from_within: false, order });
        let within = |text| Sample { text, is_from_within: true, order };
        samples.extend(sample.others.iter().map(|text| within(text.as_slice())));
    }
    let is_given = |name: &str| name == "-" || given_type(job, name).is_some();
    let is_fixed = dialect.family == Family::Fixed;
    let columns = match (sources.is_json(), &job.columns, &sources.header_names) {
        _ if is_fixed => infer_fixed(&names, is_given, &sources.samples, dialect),
        (true, None, Some(keys)) => infer_keys(&names, keys, is_given, &sources.samples),
        (true, ..) => infer_keys(&names, &names, is_given, &sources.samples),
        (false, ..) => infer(&names, is_given, &samples, dialect),
    };
    for column in columns.iter().flatten() {
        let InferredColumn { name, field_type, because, spoilt, local, fraction, .. } = column;
        said.fractions.insert(name.clone(), *fraction);
        said.notes.push(format!("{name}: {because}"));
        let spoilt = spoilt.as_ref().map(|spoilt| advice(name, spoilt, dialect));
        let local = local.as_ref().map(|local| format!("column {name} is text: {local}"));
        said.warnings.extend(spoilt.or(local));
        if !matches!(field_type, FieldType::Text { .. } | FieldType::Jsonb) {
            said.inferred.insert(name.clone(), sql_types::type_name(field_type));
        }
    }
    // What is given takes the place of the type that stands here.
    let type_of =
        |column: Option<InferredColumn>| column.map_or(FieldType::text(), |c| c.field_type);
    Ok(names.into_iter().zip(columns.into_iter().map(type_of)).filter(|(n, _)| n != "-").collect())
}

/// What the user can do about values that kept a column from a type.
fn advice(name: &str, spoilt: &Spoilt, dialect: &Dialect) -> String {
    let type_name = sql_types::type_name(&spoilt.field_type);
    match &spoilt.by {
        SpoiltBy::NullWords(words) => {
            let listed: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
            let known: Vec<&[u8]> = dialect.nulls().collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            format!(
                "column {name} is text, since {} {} like NULL; {} makes it {type_name}",
                listed.join(" and "),
                if words.len() == 1 { "looks" } else { "look" },
                null_options(&known, &words)
            )
        }
        SpoiltBy::Values(count, value) => format!(
            "column {name} is text, since {} not {}, such as {value:?}; --type {} rejects such \
             values instead",
            match count {
                1 => "1 sampled value is".to_owned(),
                count => format!("{count} sampled values are"),
            },
            values_of(&spoilt.field_type),
            type_option(name, &type_name)
        ),
    }
}

/// Inferred columns for destinations that have none of their own.
pub fn inferred_columns(
    job: &TableJob,
    sources: &Sources,
    said: &mut Schema,
) -> Result<Vec<TargetColumn>> {
    let inferred = made(job, sources, inferred(job, sources, said)?, &guessed_types)?;
    let folders = lineage::folders(sources)?;
    let names = inferred.iter().chain(&folders).map(|(name, _)| name.as_str());
    check_given_types(job, names, sources)?;
    let lineage = lineage::wanted(job)?.into_iter();
    let lineage: Vec<_> = lineage.map(|(says, name)| (name, says.field_type())).collect();
    inferred
        .into_iter()
        .chain(folders)
        .chain(lineage)
        .map(|(name, field_type)| {
            let field_type = match given_type(job, &name) {
                None => field_type,
                Some(given) => sql_types::field_type(given).ok_or_else(|| {
                    Error::usage_with_hint(
                        format!("--type {name}={given}: unknown type without a server"),
                        "use one of PostgreSQL's own scalar types, or text",
                    )
                })?,
            };
            Ok(TargetColumn {
                type_name: sql_types::type_name(&field_type),
                name,
                field_type: Some(field_type),
                is_nullable: true,
                is_generated: false,
                fills_itself: false,
                keeps_rows_text: false,
            })
        })
        .collect()
}
