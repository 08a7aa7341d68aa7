//! Loads in parts as the command uses them: what a run is a part of, what is missing, and all of it
//! rolled back.

use fullbore_load::job::PartSpec;
use fullbore_load::plan::Part;
use fullbore_load::run_id::RunId;
use fullbore_pgwire::Session;
use fullbore_read::error::Result;

use super::parts::KnownPart;
use super::roles::acting_as;
use super::runs::{self, LedgerRun};
use super::take_back::{self, TakenBack};
use super::{locks, parts};
use crate::server::Server;

impl Server {
    /// What a run is a part of, if it is one.
    pub fn part_of(&self, schema: &str, run_id: &str) -> Result<Option<KnownPart>> {
        let mut session = self.control();
        let part = parts::of_run(&mut session, schema, run_id)?;
        if let Some(part) = &part {
            parts::check_whole(&mut session, schema, part)?;
        }
        Ok(part)
    }

    /// The parts of a whole, in their order; none if there is no such load.
    pub fn parts_of(&self, schema: &str, whole: &str) -> Result<Vec<KnownPart>> {
        let mut session = self.control();
        let found = parts::of_whole(&mut session, schema, whole)?;
        for part in &found {
            parts::check_whole(&mut session, schema, part)?;
        }
        Ok(found)
    }

    /// The parts of a whole that are not loaded, in words.
    pub fn parts_missing(&self, schema: &str, part: &Part) -> Result<Vec<String>> {
        let known = parts::of_whole(&mut self.control(), schema, &part.whole)?;
        Ok(crate::publish::parts::missing(&known, part))
    }

    /// The whole that a new part is to join.
    pub fn join_parts(
        &self,
        schema: &str,
        identity: &str,
        spec: PartSpec,
        targets: &[String],
    ) -> Result<Part> {
        parts::join(&mut self.control(), schema, identity, spec, targets)
    }

    /// The whole that parts of this identity would join, and its parts that have begun.
    pub fn whole_of(
        &self,
        schema: &str,
        identity: &str,
        spec: PartSpec,
        targets: &[String],
    ) -> Result<(String, Vec<KnownPart>)> {
        parts::whole_of(&mut self.control(), schema, identity, spec, targets)
    }

    /// The parts of the last whole of this identity that has finished, with their runs.
    pub fn last_finished(
        &self,
        schema: &str,
        identity: &str,
    ) -> Result<Vec<(KnownPart, LedgerRun)>> {
        let mut session = self.control();
        let mut found = Vec::new();
        for part in parts::last_finished(&mut session, schema, identity)? {
            let runs = runs::find(&mut session, schema, &runs::Which::Run(&part.run_id))?;
            found.extend(runs.into_iter().next().map(|run| (part, run)));
        }
        Ok(found)
    }

    /// Takes a run back; of a load in parts, all of it.
    pub fn take_back_all(&self, schema: &str, run: &LedgerRun) -> Result<TakenBack> {
        let Some(part) = self.part_of(schema, &run.run_id)? else {
            return self.take_back(schema, run);
        };
        let mut session = self.control();
        acting_as(&mut session, run, |session| {
            // Who works on any of them holds up the others for long.
            lock_members(session, schema, &part.whole)?;
            parts::alone(session, &part.whole, |session| {
                take_back_whole(session, schema, &part.whole)
            })
        })
    }
}

/// The runs of a whole, none of them worked on by anybody else.
fn lock_members(session: &mut Session, schema: &str, whole: &RunId) -> Result<Vec<LedgerRun>> {
    let mut members = Vec::new();
    for member in parts::of_whole(session, schema, whole)? {
        members.extend(runs::find(session, schema, &runs::Which::Run(&member.run_id))?);
    }
    for member in &members {
        locks::lock_job(session, &member.job)?;
    }
    Ok(members)
}

/// Takes all parts back. What they share goes before the first of their rows in the ledger does: as
/// long as it is there, the ledger says whose rows it holds, and whoever tries again finds it.
fn take_back_whole(session: &mut Session, schema: &str, whole: &RunId) -> Result<TakenBack> {
    // One may have joined them since.
    let members = lock_members(session, schema, whole)?;
    for member in &members {
        take_back::begin(session, schema, member)?;
    }
    let targets = members.iter().flat_map(|run| &run.tables).map(|table| &table.target);
    let targets: Vec<_> = targets.collect();
    let left_behind = take_back::drop_all(session, whole, &targets)?;
    let mut all = TakenBack { left_behind, ..TakenBack::default() };
    if !all.left_behind.is_empty() {
        return Ok(all);
    }
    for member in &members {
        let taken = take_back::take_back(session, schema, member)?;
        all.rows_kept += taken.rows_kept;
        all.left_behind.extend(taken.left_behind);
    }
    Ok(all)
}
