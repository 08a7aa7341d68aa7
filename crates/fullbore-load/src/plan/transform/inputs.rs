//! The fields that expressions name, and what they are read as.

use std::collections::BTreeMap;

use fullbore_parse::sql_types;
use fullbore_parse::types::{FieldType, ParseColumn};
use fullbore_read::columnar;
use fullbore_read::error::{Error, Result};

use crate::TargetColumn;
use crate::job::TableJob;
use crate::plan::format::Format;
use crate::plan::look::Sources;
use crate::plan::names::is_selected;

/// A field that expressions name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// As the expressions name it.
    pub name: String,
    /// Its place in the record.
    pub field: usize,
    pub field_type: FieldType,
    /// Its type is a guess from samples.
    pub is_guessed: bool,
}

impl Input {
    /// What reads it: as what it is, or as text.
    pub fn read(&self, is_typed: bool) -> ParseColumn {
        let field_type = if is_typed { self.field_type.clone() } else { FieldType::text() };
        // Decimals have all digits that were sampled, or are refused.
        let is_guess = self.is_guessed && is_typed && !is_decimal(&self.field_type);
        let guess = is_guess.then(|| self.field_type.clone());
        ParseColumn { name: self.name.clone(), field: self.field, field_type, guess }
    }
}

fn is_decimal(field_type: &FieldType) -> bool {
    matches!(field_type, FieldType::Decimal { .. })
}

/// Gives the types that fields seem to have, by their names.
pub type Guess<'a> = &'a dyn Fn(&TableJob, &Sources) -> Result<BTreeMap<String, FieldType>>;

/// The names of the fields, by their places: those that are listed, else those of the header, else those of the
/// target's columns where there are as many; a dash has none.
pub fn field_names(
    job: &TableJob,
    sources: &Sources,
    target: Option<&[TargetColumn]>,
) -> Result<Vec<String>> {
    if let Some(listed) = &job.columns {
        return Ok(listed.clone());
    }
    if let Some(names) = &sources.names {
        return Ok(names.clone());
    }
    let count = sources.fields.unwrap_or_default();
    let Some(target) = target else {
        return Ok((1..=count).map(|n| format!("column{n}")).collect());
    };
    let of_lineage = |name: &str| job.lineage.iter().any(|one| one.ends_with(&format!("={name}")));
    let loadable = target.iter().filter(|column| !column.is_generated && !of_lineage(&column.name));
    let all: Vec<String> = loadable.map(|column| column.name.clone()).collect();
    let others: Vec<String> = all.iter().filter(|name| !is_selected(job, name)).cloned().collect();
    [all, others].into_iter().find(|names| names.len() == count || count == 0).ok_or_else(|| {
        Error::usage_with_hint(
            format!(
                "{}: its {count} fields have no names that expressions could use",
                sources.files[0].path.display()
            ),
            "name them with --columns a,b,-,d (a dash skips one)",
        )
    })
}

/// What the named fields are read as: what the job says, else what the target's column of the name is, else what
/// the samples look like.
pub fn inputs(
    job: &TableJob,
    sources: &Sources,
    target: Option<&[TargetColumn]>,
    named: Vec<(String, usize)>,
    field_names: &[String],
    guess: Guess<'_>,
) -> Result<Vec<Input>> {
    let mut guessed: Option<BTreeMap<String, FieldType>> = None;
    // Fields without a header are guessed by the names that they have here.
    let is_unnamed = job.columns.is_none() && sources.names.is_none();
    let listed = is_unnamed.then(|| field_names.to_vec()).or_else(|| job.columns.clone());
    let guessing = TableJob { columns: listed, ..job.clone() };
    let mut found = Vec::with_capacity(named.len());
    for (name, field) in named {
        let of_field = &field_names[field];
        let is_computed = is_selected(job, of_field);
        let mut given = job.field_types.iter().filter_map(|given| given.split_once('='));
        let given = given.rfind(|(known, _)| *known == name || known == of_field);
        let of_target = target.and_then(|target| {
            let column = target.iter().find(|column| column.name == *of_field)?;
            column.field_type.as_ref().filter(|_| !is_computed)
        });
        let mut is_guessed = false;
        let field_type = match (given, of_target, &sources.format) {
            (Some((_, given)), ..) => sql_types::field_type(given).ok_or_else(|| {
                Error::usage_with_hint(
                    format!("--field-type {of_field}={given}: expressions do not know this type"),
                    "use one of PostgreSQL's own scalar types, or text",
                )
            })?,
            (None, _, Format::Columnar(_)) => {
                let stored = sources.stored.get(field).and_then(|stored| stored.first());
                match stored {
                    Some(stored) => columnar::stored_as(of_field, stored)?.field_type,
                    None => FieldType::text(),
                }
            }
            (None, Some(known), _) if !matches!(known, FieldType::NumericText { .. }) => {
                known.clone()
            }
            (None, ..) => {
                if guessed.is_none() {
                    guessed = Some(guess(&guessing, sources)?);
                }
                is_guessed = true;
                let guess = guessed.as_ref().and_then(|guessed| guessed.get(of_field));
                guess.cloned().unwrap_or_else(FieldType::text)
            }
        };
        let field_type = as_input(of_field, field_type)?;
        found.push(Input { name, field, field_type, is_guessed });
    }
    Ok(found)
}

/// A type as expressions have it.
fn as_input(name: &str, field_type: FieldType) -> Result<FieldType> {
    Ok(match field_type {
        FieldType::NumericText { .. } => FieldType::Decimal { precision: 38, scale: 10 },
        FieldType::Uuid | FieldType::Json | FieldType::Jsonb | FieldType::Enum { .. } => {
            FieldType::text()
        }
        // A length says what a column can hold, and nothing of what is computed from it.
        FieldType::Text { .. } => FieldType::text(),
        FieldType::Array(_) => {
            return Err(Error::usage_with_hint(
                format!("field {name:?} is an array, which expressions can't use"),
                format!("read it as text: --field-type {name}=text"),
            ));
        }
        other => other,
    })
}
