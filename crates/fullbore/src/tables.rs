//! The tables of a job, as server and files have them now.

use std::path::PathBuf;

use fullbore_load::job::{Job, TableJob};
use fullbore_load::plan::assemble::name_of;
use fullbore_load::plan::recorded::RecordedFile;
use fullbore_postgres::Server;
use fullbore_postgres::ledger::loaded::Named;
use fullbore_postgres::ledger::runs::LedgerTable;
use fullbore_read::content::{Budget, Content, Same};
use fullbore_read::discover::found_in;
use fullbore_read::error::{Error, Result};
use fullbore_read::{SourceFile, StoreOptions};

/// A table of a job, as server and files have it now.
pub struct Table {
    pub name: String,
    pub target: Option<Named>,
    pub files: Vec<File>,
}

pub struct File {
    pub source: SourceFile,
    pub recorded: RecordedFile,
    /// The URL as the job has it, of a web server: its path has no signature any more.
    given: Option<String>,
}

impl File {
    /// The files of a table; `None` where one is not found, which is told when they are opened.
    pub fn all(table: &TableJob, store: &StoreOptions) -> Option<Vec<Self>> {
        let mut files = Vec::new();
        for source in &table.sources {
            let found = found_in(source, store).ok()?;
            let is_url = |source: &String| {
                source.starts_with("http") && found.len() == 1 && found[0].object.is_some()
            };
            let given = Some(source.clone()).filter(is_url);
            files.extend(found.into_iter().map(|source| {
                let recorded = RecordedFile::of(&source);
                Self { source, recorded, given: given.clone() }
            }));
        }
        Some(files)
    }

    /// Whether it holds the same as a file that was loaded. Checksums are made once they are needed.
    pub fn compare(&mut self, then: &RecordedFile) -> Result<Same> {
        let (Some(known), false) = (&then.content, then.size == 0) else { return Ok(Same::No) };
        if self.recorded.size != then.size {
            return Ok(Same::No);
        }
        if self.recorded.content.is_none() {
            self.recorded.content = Content::of(&self.source, &mut Budget::none())?;
        }
        match &mut self.recorded.content {
            Some(content) => content.compare(&self.source, known),
            None => Ok(Same::No),
        }
    }

    /// Whether it is the very file, as far as its path and time tell, or its ETag.
    pub fn is_untouched(&self, then: &RecordedFile) -> bool {
        let is_told = then.etag.is_some() || then.modified_ns != "0";
        is_told && then.is_at(&self.recorded) && then.difference(&self.recorded).is_none()
    }

    /// What a job names it by.
    pub fn path(&self) -> Result<String> {
        if let Some(given) = &self.given {
            return Ok(given.clone());
        }
        let path: &PathBuf = &self.source.path;
        path.to_str().map(str::to_owned).ok_or_else(|| {
            Error::usage_with_hint(
                format!("the file name {} is not valid UTF-8", path.display()),
                "rename the file: the job of a run is stored as text",
            )
        })
    }
}

impl Table {
    /// The tables of a job; `None` where its files are not found, which is told when they are opened.
    pub fn all(job: &Job, server: &Server) -> Result<Option<Vec<Self>>> {
        let mut tables = Vec::new();
        for table in &job.tables {
            let Some(files) = File::all(table, &job.store) else { return Ok(None) };
            let Some(first) = files.first() else { return Ok(None) };
            let name = match &table.name {
                Some(name) => name.clone(),
                None => name_of(&first.source.path)?,
            };
            tables.push(Self { target: server.named(&name)?, name, files });
        }
        Ok(Some(tables))
    }

    pub fn is_of(&self, table: &LedgerTable) -> bool {
        match &self.target {
            Some(target) => table.is_in(target) || table.target == target.name,
            None => table.plan.name == self.name,
        }
    }
}
