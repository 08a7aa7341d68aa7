//! Lookups that were read, and what they are asked.

use std::sync::Arc;

use arrow_schema::DataType;
use fullbore_read::error::{Error, Result};
use fullbore_transform::{Compiler, Expression, Lookup};

use crate::job::LookupJob;

/// A lookup that was read.
#[derive(Debug)]
pub struct Found {
    pub job: LookupJob,
    pub lookup: Lookup,
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

    /// It in words, for the plan.
    pub fn words(&self) -> String {
        let job = &self.found.job;
        let from = job.table.clone().unwrap_or_else(|| job.sources.join(", "));
        let key = job.key.0.iter().map(|(name, sql)| format!("{name} = {sql}"));
        let missing = match (job.default.is_some(), job.rejects_missing()) {
            (true, _) => "a default row stands for missing keys",
            (false, true) => "rows with a missing key are rejected",
            (false, false) => "missing keys give NULL",
        };
        let rows = self.found.lookup.rows() - usize::from(job.default.is_some());
        let key = key.collect::<Vec<_>>().join(" AND ");
        format!("lookup {}: {from}, {rows} rows, {key}; {missing}", job.name)
    }
}
