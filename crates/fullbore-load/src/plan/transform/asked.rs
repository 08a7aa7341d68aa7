//! What a job asks for, resolved against its fields and its target.

use std::collections::BTreeSet;

use arrow_schema::DataType;
use fullbore_parse::types::{FieldType, ParseColumn};
use fullbore_read::columnar;
use fullbore_read::error::{Error, Result};
use fullbore_transform::{Compiler, Expression, assign, inlined};

use super::found::UsedLookup;
use super::inputs::{Guess, Input, field_names, inputs};
use crate::TargetColumn;
use crate::job::TableJob;
use crate::plan::look::Sources;
use crate::plan::names::{alike, named, plain};

/// What a job asks for.
pub struct Asked {
    /// Compiles over the inputs.
    pub of_fields: Compiler,
    /// Compiles over the inputs and what is looked up.
    pub compiler: Compiler,
    /// The name of each field; a dash where it is skipped.
    pub field_names: Vec<String>,
    /// The fields that expressions name; they follow what is sent as it is read.
    pub inputs: Vec<Input>,
    pub lookups: Vec<UsedLookup>,
    /// The columns of lookups that expressions name: lookup and column.
    pub looked_up: Vec<(usize, usize)>,
    /// Columns that are fields of another name: column and field.
    pub renamed: Vec<(String, usize)>,
    pub computed: Vec<Computed>,
    pub filter: Option<Filter>,
    pub checks: Vec<(String, String, Expression)>,
    /// Names of fields that need no column: expressions use them, or nobody wants them.
    without_column: BTreeSet<String>,
}

/// A condition of rows that are loaded.
pub struct Filter {
    pub sql: String,
    pub expression: Expression,
    /// It needs no lookup.
    pub is_early: bool,
}

/// A column that is computed.
#[derive(Debug, Clone)]
pub struct Computed {
    pub name: String,
    pub sql: String,
    pub expression: Expression,
    /// The type that it is sent as; none where the destination takes it as text.
    pub field_type: Option<FieldType>,
}

/// Resolves what a job asks for; none where it asks for nothing. `target`: the columns of a table that is known.
/// `guess` gives the types that fields seem to have. `now`: the moment of `now()`, in microseconds since 1970 UTC.
pub fn asked(
    job: &TableJob,
    sources: &Sources,
    target: Option<&[TargetColumn]>,
    now: i64,
    guess: Guess<'_>,
) -> Result<Option<Asked>> {
    if !job.is_transformed() {
        return Ok(None);
    }
    let field_names = field_names(job, sources, target)?;
    let names = Names::of(sources, &field_names);
    // Which fields are used is known before their types.
    let untyped = names.0.iter().map(|name| input(name, DataType::Utf8));
    let first = Compiler::new(&untyped.collect::<Vec<_>>(), now).map_err(Error::usage)?;
    let (mut used, mut renamed, mut computed) = (BTreeSet::new(), Vec::new(), Vec::new());
    let mut without_column: BTreeSet<String> = BTreeSet::new();
    for (column, sql) in &job.select.0 {
        let failed = |why| wrong(&format!("--select {column}={sql}"), why);
        without_column.insert(column.clone());
        if sql.is_empty() {
            continue;
        }
        match first.plain_input(sql).map_err(failed)?.map(|input| &names.0[input]) {
            Some(Name { of: Stands::Field(field), .. }) => renamed.push((column.clone(), *field)),
            _ => {
                used.extend(first.inputs_of(sql).map_err(failed)?);
                computed.push((column.clone(), sql.clone()));
            }
        }
    }
    for (option, sql) in conditions(job) {
        // It may name what is computed, too.
        let inputs = inlined(sql, &job.select.0).and_then(|sql| first.inputs_of(&sql));
        used.extend(inputs.map_err(|why| wrong(&option, why))?);
    }
    for lookup in &job.lookups {
        let at = lookup.valid.iter().map(|valid| &valid.at);
        for sql in lookup.key.0.iter().map(|(_, sql)| sql).chain(at) {
            let failed = |why| wrong(&format!("lookup {}: {sql}", lookup.name), why);
            used.extend(first.inputs_of(sql).map_err(failed)?);
        }
    }
    // Fields come first.
    let used: Vec<&Name> = used.into_iter().map(|input| &names.0[input]).collect();
    let fields = used.iter().filter_map(|name| match name.of {
        Stands::Field(field) => Some((name.name.clone(), field)),
        Stands::Column(..) => None,
    });
    let fields: Vec<(String, usize)> = fields.collect();
    without_column.extend(fields.iter().map(|(_, field)| field_names[*field].clone()));
    without_column.extend(renamed.iter().map(|(_, field)| field_names[*field].clone()));
    let inputs = inputs(job, sources, target, fields, &field_names, guess)?;
    let typed = inputs.iter().map(|one| fullbore_transform::Input {
        relation: None,
        name: one.name.clone(),
        data_type: one.field_type.arrow(),
    });
    let mut typed: Vec<_> = typed.collect();
    let of_fields = Compiler::new(&typed, now).map_err(Error::usage)?;
    let mut looked_up = Vec::new();
    for name in used {
        if let Stands::Column(lookup, column) = name.of {
            let (_, data_type) = sources.lookups[lookup].columns().nth(column).expect("it is one");
            typed.push(input(name, data_type.clone()));
            looked_up.push((lookup, column));
        }
    }
    let compiler = Compiler::new(&typed, now).map_err(Error::usage)?;
    let lookups = sources.lookups.iter().map(|read| UsedLookup::new(read, &of_fields));
    let lookups = lookups.collect::<Result<Vec<_>>>()?;
    let computed = computed.into_iter().map(|(name, sql)| {
        let option = format!("--select {name}={sql}");
        let expression = compiler.value(&sql).map_err(|why| wrong(&option, why))?;
        let (name, field_type) = match target {
            Some(target) => assignable(&option, &name, &expression, target)?,
            None => {
                let stored = columnar::stored_as(&name, expression.data_type())?;
                (name, Some(stored.field_type))
            }
        };
        Ok(Computed { name, sql, expression, field_type })
    });
    let computed = computed.collect::<Result<Vec<_>>>()?;
    let condition =
        |compiler: &Compiler, sql: &str| compiler.condition(&inlined(sql, &job.select.0)?);
    let filter = job.r#where.as_ref().map(|sql| {
        let failed = |why| wrong(&format!("--where {sql}"), why);
        // Where it needs no lookup, what it leaves out is not looked up.
        let (is_early, found) = match condition(&of_fields, sql) {
            Ok(found) => (true, found),
            Err(_) => (false, condition(&compiler, sql).map_err(failed)?),
        };
        Ok::<_, Error>(Filter { sql: sql.clone(), expression: found, is_early })
    });
    let checks = job.checks.iter().map(|check| {
        let option = format!("--check {}={}", check.name, check.condition);
        let found = condition(&compiler, &check.condition);
        let expression = found.map_err(|why| wrong(&option, why))?;
        Ok((check.name.clone(), check.condition.clone(), expression))
    });
    Ok(Some(Asked {
        filter: filter.transpose()?,
        checks: checks.collect::<Result<_>>()?,
        of_fields,
        compiler,
        field_names,
        inputs,
        lookups,
        looked_up,
        renamed,
        computed,
        without_column,
    }))
}

/// The columns of a table that is made from the fields: these, and those that are computed.
pub fn made(
    job: &TableJob,
    sources: &Sources,
    fields: Vec<(String, FieldType)>,
    guess: Guess<'_>,
) -> Result<Vec<(String, FieldType)>> {
    let Some(asked) = asked(job, sources, None, 0, guess)? else { return Ok(fields) };
    let type_of = |field: usize| {
        let name = &asked.field_names[field];
        let found = fields.iter().find(|(known, _)| known == name);
        found.map_or_else(FieldType::text, |(_, field_type)| field_type.clone())
    };
    let mut columns = fields.clone();
    for (name, sql) in &job.select.0 {
        let at = columns.iter().position(|(known, _)| alike(known, name));
        if sql.is_empty() {
            at.map(|at| columns.remove(at));
            continue;
        }
        let renamed = asked.renamed.iter().find(|(known, _)| known == name);
        let computed = asked.computed.iter().find(|column| column.name == *name);
        let field_type = renamed
            .map(|(_, field)| type_of(*field))
            .or_else(|| computed.and_then(|column| column.field_type.clone()));
        let field_type = field_type.unwrap_or_else(FieldType::text);
        match at {
            Some(at) => columns[at].1 = field_type,
            None => columns.push((name.clone(), field_type)),
        }
    }
    Ok(columns)
}

impl Asked {
    /// Whether a field needs no column of its name.
    pub fn needs_no_column(&self, name: &str) -> bool {
        self.without_column.iter().any(|known| alike(known, name))
    }

    /// What reads the inputs.
    pub fn read(&self, is_typed: bool) -> impl Iterator<Item = ParseColumn> {
        self.inputs.iter().map(move |input| input.read(is_typed))
    }

    /// The computed columns as they are sent; no field stands behind them.
    pub fn sent(&self, is_typed: bool) -> impl Iterator<Item = ParseColumn> {
        self.computed.iter().map(move |column| {
            let typed = column.field_type.clone().filter(|_| is_typed);
            let field_type = typed.unwrap_or_else(FieldType::text);
            ParseColumn { name: column.name.clone(), field: usize::MAX, field_type, guess: None }
        })
    }
}

/// The conditions of a job, each with the option that it is given by.
fn conditions(job: &TableJob) -> impl Iterator<Item = (String, &String)> {
    let filter = job.r#where.iter().map(|sql| (format!("--where {sql}"), sql));
    let checks = job
        .checks
        .iter()
        .map(|check| (format!("--check {}={}", check.name, check.condition), &check.condition));
    filter.chain(checks)
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    Field(usize),
    /// A column of a lookup.
    Column(usize, usize),
}

struct Name {
    relation: Option<String>,
    name: String,
    of: Stands,
}

/// Names that expressions may use: fields as they are called, as the header writes them and as SQL has them without
/// quotes; then columns of lookups.
struct Names(Vec<Name>);

impl Names {
    fn of(sources: &Sources, field_names: &[String]) -> Self {
        let mut names: Vec<Name> = Vec::new();
        let written = sources.header_names.iter().flatten().enumerate();
        let called = || field_names.iter().enumerate();
        let all = called().chain(written).map(|(field, name)| (field, name.clone()));
        let plain = called().map(|(field, name)| (field, plain(name)));
        for (field, name) in all.chain(plain) {
            let is_skipped = field_names.get(field).is_none_or(|name| name == "-");
            if !is_skipped && !name.is_empty() && !names.iter().any(|known| known.name == name) {
                names.push(Name { relation: None, name, of: Stands::Field(field) });
            }
        }
        for (lookup, read) in sources.lookups.iter().enumerate() {
            let columns = read.columns().enumerate();
            names.extend(columns.map(|(column, (name, _))| Name {
                relation: Some(read.name().to_owned()),
                name: name.to_owned(),
                of: Stands::Column(lookup, column),
            }));
        }
        Self(names)
    }
}

fn input(name: &Name, data_type: DataType) -> fullbore_transform::Input {
    let Name { relation, name, .. } = name;
    fullbore_transform::Input { relation: relation.clone(), name: name.clone(), data_type }
}

/// The target's column that an expression is assigned to, and its type.
fn assignable(
    option: &str,
    name: &str,
    expression: &Expression,
    target: &[TargetColumn],
) -> Result<(String, Option<FieldType>)> {
    let Some(column) = named(name, target) else {
        let known: Vec<&str> = target.iter().map(|column| column.name.as_str()).collect();
        return Err(Error::usage_with_hint(
            format!("{option}: the table has no column {name:?}; it has {}", known.join(", ")),
            "add the column to the table, or create the table with --create",
        ));
    };
    if column.is_generated {
        return Err(Error::usage(format!("{option}: the database generates column {name:?}")));
    }
    let given = expression.data_type();
    let refused = column.field_type.as_ref().and_then(|wanted| assign::refused(given, wanted));
    match refused {
        None => Ok((column.name.clone(), column.field_type.clone())),
        Some(hint) => Err(Error::usage_with_hint(
            format!(
                "{option}: it is {}, but column {name:?} is {}",
                columnar::types::words(given),
                column.type_name
            ),
            hint,
        )),
    }
}

pub fn wrong(option: &str, why: String) -> Error {
    Error::usage_with_hint(
        format!("{option}: {why}"),
        "expressions are SQL over the names of the fields; see the guide to transforms",
    )
}
