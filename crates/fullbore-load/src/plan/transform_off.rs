//! Transforms where the command is built without them: asking for one is refused.

use std::sync::Arc;

use arrow_array::RecordBatch;
use fullbore_parse::Lane;
use fullbore_parse::types::{FieldType, ParseColumn, ParseShape};
use fullbore_read::StoreOptions;
use fullbore_read::error::{Error, Result};

use crate::TargetColumn;
use crate::job::TableJob;
use crate::plan::look::Sources;
use crate::target::Target;

/// None there can be.
#[derive(Debug)]
pub enum Transform {}

/// None there can be.
pub struct Asked {
    pub field_names: Vec<String>,
    pub renamed: Vec<(String, usize)>,
    pub computed: Vec<Computed>,
    never: Transform,
}

/// None there can be.
pub struct Computed {
    pub name: String,
    pub sql: String,
}

/// What became of a batch.
pub struct Applied {
    pub batch: RecordBatch,
    pub kept: Option<Vec<usize>>,
    pub filtered: u64,
    pub failed: Vec<Failed>,
}

/// A row that is rejected.
pub struct Failed {
    pub row: usize,
    pub column: Option<String>,
    pub value: Option<String>,
    pub constraint: Option<String>,
    pub reason: String,
    pub hint: Option<&'static str>,
}

/// None there can be.
#[derive(Debug)]
pub enum Lookups {}

pub fn read_lookups<T: Target>(
    job: &TableJob,
    _: &StoreOptions,
    _: Option<&T>,
) -> Result<Vec<Arc<Lookups>>> {
    refused(job).map(|()| Vec::new())
}

fn refused(job: &TableJob) -> Result<()> {
    match job.is_transformed() {
        false => Ok(()),
        true => Err(Error::usage_with_hint(
            "this build of fullbore has no transforms: select, where, check and lookup",
            "install a build with the feature `transform`",
        )),
    }
}

pub fn asked(
    job: &TableJob,
    _: &Sources,
    _: Option<&[TargetColumn]>,
    _: i64,
) -> Result<Option<Asked>> {
    refused(job).map(|()| None)
}

pub fn made(
    job: &TableJob,
    sources: &Sources,
    fields: Vec<(String, FieldType)>,
) -> Result<Vec<(String, FieldType)>> {
    asked(job, sources, None, 0).map(|_| fields)
}

pub fn line_of(_: &RecordBatch, _: usize) -> Vec<u8> {
    Vec::new()
}

impl Asked {
    pub fn needs_no_column(&self, _: &str) -> bool {
        match self.never {}
    }

    pub fn read(&self, _: bool) -> impl Iterator<Item = ParseColumn> {
        std::iter::empty()
    }

    pub fn sent(&self, _: bool) -> impl Iterator<Item = ParseColumn> {
        std::iter::empty()
    }
}

impl Transform {
    pub fn new(asked: Asked, _: Arc<ParseShape>, _: Arc<ParseShape>) -> Self {
        asked.never
    }

    pub fn shape(&self, _: Lane) -> &Arc<ParseShape> {
        match *self {}
    }

    pub fn expression(&self, _: &str) -> Option<&str> {
        match *self {}
    }

    pub fn conditions(&self) -> Vec<String> {
        match *self {}
    }

    pub fn apply(&self, _: &RecordBatch, _: Lane) -> Result<Applied> {
        match *self {}
    }
}
