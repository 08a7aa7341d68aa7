//! Files of a job that finished runs have loaded: left out, loaded again, or refused.

use fullbore_load::job::{IfLoaded, Job};
use fullbore_load::plan::recorded::RecordedFile;
use fullbore_postgres::Server;
use fullbore_postgres::ledger::loaded::LoadedBy;
use fullbore_postgres::ledger::runs::{LedgerRun, Which};
use fullbore_read::content::Same;
use fullbore_read::error::{Error, Result};

use crate::ledger_state::LedgerState;
use crate::tables::{File, Table};

impl LedgerState {
    /// Refuses to resume a run some of whose files another run has loaded since.
    pub fn refuse_loaded_meanwhile(
        &self,
        job: &Job,
        tables: &mut [Table],
        server: &Server,
        run: &LedgerRun,
    ) -> Result<()> {
        for (asked, table) in job.tables.iter().zip(tables) {
            let Some(target) = &table.target else { continue };
            if !asked.publish.joins_rows() {
                continue;
            }
            let loaded = server.loaded_into(&self.schema, target.oid)?;
            let name = target.name.clone();
            for file in &mut table.files {
                if let Some((by, _)) = loaded_by(file, &loaded)? {
                    return Err(Error::usage_with_hint(
                        format!(
                            "run {} can't be resumed: {} has been loaded into {name} by run {} \
                             ({})",
                            run.run_id,
                            file.source.told(),
                            by.run_id,
                            by.started.for_people()
                        ),
                        format!(
                            "close it with `fullbore runs abort {}`, or load the rows again with \
                             --if-loaded again",
                            run.run_id
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Leaves files out of a job that are in their table already, or refuses; whether there were any.
    pub fn leave_out(
        &mut self,
        job: &mut Job,
        tables: &mut Vec<Table>,
        server: &Server,
        resume: bool,
    ) -> Result<bool> {
        let default = if resume { IfLoaded::Skip } else { IfLoaded::Fail };
        let policy = job.if_loaded.unwrap_or(default);
        if policy == IfLoaded::Again {
            return Ok(false);
        }
        let is_given = job.if_loaded.is_some();
        let mut last = None;
        for (asked, table) in job.tables.iter_mut().zip(tables.iter_mut()) {
            let Some(target) = table.target.clone().filter(|_| asked.publish.joins_rows()) else {
                continue;
            };
            let loaded = server.loaded_into(&self.schema, target.oid)?;
            let (mut left, mut out) = (Vec::new(), Vec::new());
            for mut file in std::mem::take(&mut table.files) {
                match loaded_by(&mut file, &loaded)? {
                    Some((by, is_sure)) => {
                        let path = file.source.told();
                        if !is_sure && !is_given && policy == IfLoaded::Skip {
                            let started = by.started.for_people();
                            let name = target.name.to_string();
                            return Err(unsure(&path, &by.run_id, started, &name));
                        }
                        out.push((path, by));
                    }
                    None => left.push(file),
                }
            }
            table.files = left;
            let Some((path, by)) = out.first() else { continue };
            let more = match out.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more files)"),
            };
            let (run, name, since) = (&by.run_id, &target.name, by.started.for_people());
            // Whoever may write to the ledger could have anything left out.
            let others = out.iter().find(|(_, by)| policy == IfLoaded::Skip && !by.is_own);
            if let Some((path, by)) = others {
                return Err(Error::usage_with_hint(
                    format!(
                        "run {} of role {} ({}) loaded the contents of {path} into {name}, and \
                         only files loaded by this role are skipped",
                        by.run_id,
                        by.role.for_people(),
                        by.started.for_people()
                    ),
                    "--if-loaded again loads them again",
                ));
            }
            if policy == IfLoaded::Fail {
                return Err(Error::usage_with_hint(
                    format!(
                        "run {run} ({since}) already loaded the contents of {path}{more} into \
                         {name}"
                    ),
                    "--if-loaded skip skips such files, --if-loaded again loads them again",
                ));
            }
            if asked.delete_missing && !table.files.is_empty() {
                return Err(Error::usage_with_hint(
                    format!(
                        "{path} would be skipped{more}, since run {run} ({since}) loaded its contents, and \
                         --delete-missing would delete its rows from {name}"
                    ),
                    "--if-loaded again loads all files, as --delete-missing needs",
                ));
            }
            self.notes.push(format!(
                "{path} is skipped{more}: run {run} ({since}) already loaded its contents into \
                 {name}; --if-loaded again loads them again"
            ));
            last = Some(by.run_id.clone());
            let paths: Result<_> = table.files.iter().map(File::path).collect();
            asked.sources = paths?;
            asked.name = Some(table.name.clone());
        }
        let Some(last) = last else { return Ok(false) };
        if tables.iter().all(|table| table.files.is_empty()) {
            let found = server.ledger_runs(&self.schema, &Which::Run(&last))?;
            self.done = found.into_iter().next();
        }
        job.tables.retain(|table| !table.sources.is_empty());
        tables.retain(|table| !table.files.is_empty());
        Ok(true)
    }
}

/// A file is not left out by samples alone unless that was asked for.
pub fn unsure(path: &str, run: &str, started: &str, target: &str) -> Error {
    Error::usage_with_hint(
        format!(
            "run {run} ({started}) loaded a file with the size and samples of {path} into {target}, but \
             that file was not read in full for comparison"
        ),
        "--if-loaded skip skips it, --if-loaded again loads it",
    )
}

/// The first of what was loaded that is the same as a file, and whether that is sure.
pub fn known<'a, T>(
    loaded: impl IntoIterator<Item = (&'a T, &'a RecordedFile)>,
    mut compare: impl FnMut(&RecordedFile) -> Result<Same>,
) -> Result<Option<(&'a T, bool)>> {
    let mut likely = None;
    for (by, then) in loaded {
        match compare(then)? {
            Same::Surely => return Ok(Some((by, true))),
            Same::Likely => likely = likely.or(Some((by, false))),
            Same::No => {}
        }
    }
    Ok(likely)
}

/// The run that has loaded the contents of a file, and whether that is sure.
fn loaded_by<'a>(file: &mut File, loaded: &'a [LoadedBy]) -> Result<Option<(&'a LoadedBy, bool)>> {
    let files = loaded.iter().flat_map(|by| by.files.iter().map(move |then| (by, then)));
    known(files, |then| match file.compare(then)? {
        Same::Likely if file.is_untouched(then) => Ok(Same::Surely),
        // Of an object nothing is read to tell.
        Same::No if file.source.object.is_some() && file.is_untouched(then) => Ok(Same::Surely),
        same => Ok(same),
    })
}
