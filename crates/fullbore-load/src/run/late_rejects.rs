//! Rejects of rows that were already loaded, found after the last piece.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use fullbore_read::error::{Error, Position, RejectedRow, Result};

use super::reject_files::AllRejectFiles;
use super::reject_record::{HINT, Reject, SavedReject};
use super::rejects::{MEMORY_PER_PIECE, Rejects, saved_path};
use super::spool::Spool;
use crate::job::RejectLimit;
use crate::plan::{Format, Plan};

impl Rejects {
    /// Where the committed rejects of a table stand: file and place.
    pub fn places_of(&self, table: usize) -> HashSet<(usize, u64)> {
        let places = self.places.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        places.get(&table).cloned().unwrap_or_default()
    }

    /// Takes a reject of rows that were loaded already: what the reject files are to hold of it, and
    /// the error where it is one too many.
    pub fn late(
        &self,
        plan: &Plan,
        table: usize,
        reject: Reject,
    ) -> ((Vec<u8>, Vec<u8>), Option<Error>) {
        let found = &plan.tables[table];
        let first = RejectedRow {
            file: found.files[reject.row.file].path.clone(),
            place: match &found.format {
                Format::Columnar(_) => Position::Row(reject.row.offset + 1),
                Format::Delimited(_) => Position::Line(reject.row.line),
            },
            column: None,
            value: reject.value.clone(),
            reason: reject.reason.clone(),
        };
        tracing::debug!(table = found.name, "reject: {first}");
        let (raw, kept) = SavedReject::of(table, None, reject);
        let json = serde_json::to_vec(&kept).expect("plain data becomes JSON");
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let limit = self.limit.to_string();
        let too_many = match self.limit {
            RejectLimit::Rows(most) if count > most => {
                let first = Some(Box::new(first));
                Some(Error::TooManyRejects { rejects: count, limit, first, hint: HINT })
            }
            _ => None,
        };
        ((raw, json), too_many)
    }

    /// Adds rejects to the `before` ones of a committed piece, in a file of their own number.
    pub fn save_more<'r>(
        &self,
        plan: &Plan,
        piece: usize,
        before: u64,
        more: impl Iterator<Item = &'r (Vec<u8>, Vec<u8>)>,
    ) -> Result<()> {
        if !plan.continuity.is_resumable {
            return Ok(());
        }
        let mut spool = Spool::new(&plan.run_dir, MEMORY_PER_PIECE);
        if before > 0 {
            let mut saved = Spool::saved(&saved_path(plan, piece, before), 2)?;
            while let Some(record) = saved.next()? {
                spool.push(&[&record[0], &record[1]])?;
            }
        }
        // Named by what they count as: one may be of several lines.
        let mut count = before;
        for (raw, json) in more {
            spool.push(&[raw, json])?;
            count += 1;
        }
        spool.save(&saved_path(plan, piece, count))
    }

    /// Rejects that were taken late are committed, or are shown although they were too many: adds
    /// them to the reject files, whose paths it returns.
    pub fn append(&self, plan: &Plan, records: &[(Vec<u8>, Vec<u8>)]) -> Result<Vec<PathBuf>> {
        let mut files = AllRejectFiles::new(plan, true);
        let mut places = self.places.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for (raw, json) in records {
            let kept = SavedReject::read(json);
            places.entry(kept.table).or_default().insert((kept.file, kept.offset));
            let line = (kept.line > 0).then_some(kept.line);
            let table = &plan.tables[kept.table];
            let file = kept.file;
            files.write(kept.table, file, raw, &kept.reason(table, line))?;
        }
        files.close()
    }

    /// Rejects that were taken late don't count after all.
    pub fn forget_late(&self, count: u64) {
        self.count.fetch_sub(count, Ordering::Relaxed);
    }
}
