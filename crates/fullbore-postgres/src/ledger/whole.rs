//! Loads in parts as the command uses them: what a run is a part of, what is missing, and all of it
//! taken back.

use fullbore_core::error::Result;
use fullbore_core::job::PartSpec;
use fullbore_core::plan::Part;

use super::parts::KnownPart;
use super::runs::{self, LedgerRun};
use super::{TakenBack, locks, parts};
use crate::destination::Postgres;

impl Postgres {
    /// What a run is a part of, if it is one.
    pub fn part_of(&self, schema: &str, run_id: &str) -> Result<Option<KnownPart>> {
        parts::of_run(&mut self.control(), schema, run_id)
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

    /// Takes a run back; of a load in parts, all of it.
    pub fn take_back_all(&self, schema: &str, run: &LedgerRun) -> Result<TakenBack> {
        let mut all = TakenBack::default();
        let Some(part) = self.part_of(schema, &run.run_id)? else {
            return self.take_back(schema, run);
        };
        let mut members = Vec::new();
        {
            let mut session = self.control();
            for member in parts::of_whole(&mut session, schema, &part.whole)? {
                let which = runs::Which::Run(&member.run_id);
                members.extend(runs::find(&mut session, schema, &which)?);
            }
            // Before anything is touched: nobody works on any of them.
            for member in &members {
                locks::lock_job(&mut session, &member.job)?;
            }
        }
        for member in &members {
            let taken = self.take_back(schema, member)?;
            all.rows_kept += taken.rows_kept;
            all.left_behind.extend(taken.left_behind);
        }
        let mut session = self.control();
        for name in runs::leftovers(&mut session, &part.whole)? {
            if session.execute(&format!("DROP TABLE {name}")).is_err() {
                all.left_behind.push(name.to_string());
            }
        }
        Ok(all)
    }
}
