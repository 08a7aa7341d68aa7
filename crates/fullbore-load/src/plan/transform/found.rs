//! Lookups that were read, and what they are asked.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_cast::cast;
use arrow_schema::DataType;
use fullbore_parse::Parser;
use fullbore_parse::block::Block;
use fullbore_parse::dialect::Dialect;
use fullbore_parse::types::{FieldType, ParseShape};
use fullbore_read::error::{Error, Result};
use fullbore_transform::lookup::{KeyForm, columns_of};
use fullbore_transform::{Compiler, Expression, Lookup};

use crate::job::LookupJob;
use crate::members::Members;

/// Keys that one statement inserts.
const KEYS_AT_ONCE: usize = 1000;

/// A lookup that was read.
#[derive(Debug)]
pub struct Found {
    pub job: LookupJob,
    pub lookup: Lookup,
    /// The types of its columns.
    pub types: Vec<(String, FieldType)>,
    /// In which form their texts are compared; none for those of files.
    pub forms: Vec<KeyForm>,
    /// What adds missing keys to its table, where that is asked for.
    pub members: Option<Mutex<Arc<dyn Members>>>,
}

/// Reads lines of COPY text as rows of these columns; what can't be read is refused.
pub fn parsed(
    table: &str,
    types: &[(String, FieldType)],
    forms: &[KeyForm],
    lines: &[u8],
) -> Result<RecordBatch> {
    let shape = Arc::new(ParseShape::of_all(types));
    let parsed = Parser::new(Dialect::text(), shape).parse(&Block::of(lines));
    match parsed.odd.len() + parsed.faults.len() {
        0 => {
            let columns = parsed.batch.columns().iter().zip(forms);
            let columns = columns.map(|(column, form)| form.of(column)).collect();
            RecordBatch::try_new(parsed.batch.schema(), columns)
                .map_err(|error| Error::usage(format!("lookup: {table}: {error}")))
        }
        _ => Err(Error::usage_with_hint(
            format!("lookup: {table} has values that expressions can't use"),
            "infinite dates and NaN are such; look up in a view without them",
        )),
    }
}

impl Found {
    pub fn name(&self) -> &str {
        &self.job.name
    }

    pub fn columns(&self) -> impl Iterator<Item = (&str, &DataType)> {
        self.lookup.columns()
    }
}

/// A lookup with what it is asked.
pub struct UsedLookup {
    found: Arc<Found>,
    /// The expressions of its key, each with its SQL.
    pub keys: Vec<(String, Expression)>,
    /// That of the moment, where there are versions.
    pub at: Option<(String, Expression)>,
}

impl UsedLookup {
    pub fn new(found: &Arc<Found>, of_fields: &Compiler) -> Result<Self> {
        let compiled = |sql: &str| {
            let failed = |why: String| {
                Error::usage_with_hint(
                    format!("lookup {}: {sql}: {why}", found.job.name),
                    "a key is compared with an SQL expression over the fields",
                )
            };
            of_fields.value(sql).map(|found| (sql.to_owned(), found)).map_err(failed)
        };
        let keys = found.job.key.0.iter().map(|(_, sql)| compiled(sql));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let at = found.job.valid.as_ref().map(|valid| compiled(&valid.at)).transpose()?;
        Ok(Self { found: Arc::clone(found), keys, at })
    }

    pub fn name(&self) -> &str {
        &self.found.job.name
    }

    pub fn rejects_missing(&self) -> bool {
        self.found.job.rejects_missing()
    }

    pub fn lookup(&self) -> &Lookup {
        &self.found.lookup
    }

    /// Adds the keys that are not found to the lookup's table, and finds all again. Parsers take turns, so that each
    /// key is asked for once.
    pub fn insert(&self, keys: &[ArrayRef], found: UInt32Array) -> Result<UInt32Array> {
        let Some(members) = &self.found.members else { return Ok(found) };
        let wrong = |why: String| Error::usage(format!("lookup {}: {why}", self.name()));
        let members = members.lock().unwrap_or_else(PoisonError::into_inner);
        // Another parser may have been here before.
        let found = self.lookup().find_all(keys, None).map_err(wrong)?;
        let texts = keys.iter().map(|key| cast(key, &DataType::Utf8));
        let texts = texts.collect::<std::result::Result<Vec<_>, _>>();
        let texts = texts.map_err(|error| wrong(error.to_string()))?;
        let is_whole =
            |row: &usize| found.is_null(*row) && keys.iter().all(|key| key.is_valid(*row));
        let of_row = |row: usize| {
            let each = texts.iter().map(|text| text.as_string::<i32>().value(row).to_owned());
            each.collect::<Vec<String>>()
        };
        let missing: BTreeSet<Vec<String>> =
            (0..found.len()).filter(is_whole).map(of_row).collect();
        if missing.is_empty() {
            return Ok(found);
        }
        let missing: Vec<Vec<String>> = missing.into_iter().collect();
        let mut batches = Vec::new();
        for some in missing.chunks(KEYS_AT_ONCE) {
            members.insert(some, &mut |lines| {
                batches.push(parsed(self.name(), &self.found.types, &self.found.forms, lines)?);
                Ok(())
            })?;
        }
        self.lookup().grow(columns_of(&batches).map_err(wrong)?).map_err(wrong)?;
        self.lookup().find_all(keys, None).map_err(wrong)
    }

    /// It in words, for the plan.
    pub fn words(&self) -> String {
        let job = &self.found.job;
        let from = job.table.clone().unwrap_or_else(|| job.sources.join(", "));
        let key = job.key.0.iter().map(|(name, sql)| format!("{name} = {sql}"));
        let missing = match (job.default.is_some(), job.rejects_missing()) {
            _ if self.found.members.is_some() => "missing keys are inserted into it",
            (true, _) => "a default row stands for missing keys",
            (false, true) => "rows with a missing key are rejected",
            (false, false) => "missing keys give NULL",
        };
        let rows = self.found.lookup.rows() - usize::from(job.default.is_some());
        let key = key.collect::<Vec<_>>().join(" AND ");
        format!("lookup {}: {from}, {rows} rows, {key}; {missing}", job.name)
    }
}
