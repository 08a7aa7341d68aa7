//! Rejects: refused rows in their original spelling, and one JSON line with the reason for each.
//!
//! A piece's rejects count once the piece is committed. They are written at the end of the run, when line
//! numbers are known. In a resumable run, a piece with rejects is committed only after they are safe in a
//! file of the run's folder, where a resume finds them. The file's name contains their number, as the
//! ledger does. If loaded rows are rejected later, the piece gets a new file before the ledger is updated.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use fullbore_read::FileRange;
use fullbore_read::error::{Error, Position, RejectedRow, Result};
use fullbore_read::lines::line_at;
use fullbore_read::sniff::kind::is_null_word;

use super::reject_files::AllRejectFiles;
use super::reject_record::{HINT, Place, Reject, SavedReject};
use super::schedule::Schedule;
use super::source_row::SourceRow;
use super::spool::Spool;
use crate::job::RejectLimit;
use crate::plan::infer::{null_options, type_option};
use crate::plan::{Format, PieceInput, Plan, PlannedPiece};
use crate::sink::{Committed, LoadState};

/// Bytes of one piece's rejects kept in memory.
pub const MEMORY_PER_PIECE: usize = 256 * 1024;

/// Lines of a file are counted up to here to say where the reject stands that ends a run; after it the
/// byte is told, and the run's end does not wait for a whole file to be read.
const LINES_COUNTED_UP_TO: u64 = 8 << 30;

/// Rejects of a piece that is not committed yet.
#[derive(Default)]
pub struct PieceRejects {
    spool: Option<Spool>,
    /// Where they were saved.
    saved: Option<PathBuf>,
    count: u64,
}

/// All rejects of a run.
pub struct Rejects {
    pub(super) limit: RejectLimit,
    pub(super) count: AtomicU64,
    committed: Mutex<Option<Spool>>,
    /// Where the committed ones stand, by table: file and place. Kept where rows may be rejected after
    /// they were loaded, which must not find these again.
    pub(super) places: Mutex<HashMap<usize, HashSet<(usize, u64)>>>,
}

impl Rejects {
    pub fn new(plan: &Plan) -> Self {
        Self {
            limit: plan.max_rejects,
            count: AtomicU64::new(0),
            committed: Mutex::new(Some(Spool::new(&plan.run_dir, MEMORY_PER_PIECE))),
            places: Mutex::default(),
        }
    }

    pub fn for_piece(&self, plan: &Plan) -> PieceRejects {
        let spool = Some(Spool::new(&plan.run_dir, MEMORY_PER_PIECE));
        PieceRejects { spool, saved: None, count: 0 }
    }

    /// The rejects of pieces that are committed already, from the run's folder.
    pub fn restore(&self, plan: &Plan, state: &LoadState) -> Result<()> {
        let with_rejects = || state.committed.iter().filter(|piece| piece.portion.rejected > 0);
        let is_saved =
            |piece: &Committed| saved_path(plan, piece.piece, piece.portion.rejected).is_file();
        if state.is_published && !with_rejects().all(is_saved) {
            // Their files were written before the rows were shown, and stay as they are.
            let count = with_rejects().map(|piece| piece.portion.rejected).sum();
            self.count.fetch_add(count, Ordering::Relaxed);
            self.committed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
            return Ok(());
        }
        for piece in with_rejects() {
            let count = piece.portion.rejected;
            let path = saved_path(plan, piece.piece, count);
            if !path.is_file() {
                let number = piece.piece;
                return Err(Error::usage_with_hint(
                    format!(
                        "the {count} rejects of piece {number} are not on this machine: {} does \
                         not exist",
                        path.display()
                    ),
                    "resume where the run was started, with the same FULLBORE_HOME, or roll the \
                     run back with `fullbore runs abort` and load again",
                ));
            }
            self.count.fetch_add(count, Ordering::Relaxed);
            self.commit(PieceRejects { spool: None, saved: Some(path), count })?;
        }
        Ok(())
    }

    /// Makes a piece's rejects safe before it is committed.
    pub fn save(
        &self,
        plan: &Plan,
        piece: &PlannedPiece,
        rejects: &mut PieceRejects,
    ) -> Result<()> {
        if !plan.continuity.is_resumable || rejects.count == 0 {
            return Ok(());
        }
        let Some(spool) = rejects.spool.take() else { return Ok(()) };
        let path = saved_path(plan, piece.number, rejects.count);
        spool.save(&path)?;
        rejects.saved = Some(path);
        Ok(())
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Takes a reject of a piece; an error where it is one too many.
    pub fn add(
        &self,
        plan: &Plan,
        piece: &PlannedPiece,
        rejects: &mut PieceRejects,
        mut reject: Reject,
    ) -> Result<()> {
        let range_start = range_start(plan, piece, &reject.row);
        let table = &plan.tables[piece.table];
        let guessed = reject.column.as_ref().and_then(|name| table.inferred.get_key_value(name));
        if let Some((name, type_name)) = guessed {
            let option = type_option(name, "text");
            let null = reject.value.as_deref().filter(|value| is_null_word(value.as_bytes()));
            let advice = match null {
                Some(null) => {
                    let known = match &table.format {
                        Format::Delimited(dialect) => dialect.nulls().collect(),
                        Format::Columnar(_) => Vec::new(),
                    };
                    format!("{null:?} looks like NULL: {}", null_options(&known, &[null]))
                }
                None => format!("use --type {option}"),
            };
            reject.reason = format!("{}; inferred as {type_name}, {advice}", reject.reason);
        }
        let file = &table.files[reject.row.file];
        let offset = reject.row.offset;
        // In a file that was cut, lines before the piece are yet to be counted.
        let is_cut = range_start.is_some_and(|start| start > file.data_start);
        let counts = reject.counts();
        let number = self.count.fetch_add(counts, Ordering::Relaxed) + counts;
        rejects.count += counts;
        // Made of few of them: there may be millions.
        let told = |line: Option<u64>| RejectedRow {
            file: file.path.clone(),
            place: match (&table.format, line) {
                (_, Some(line)) => Position::Line(line),
                (Format::Columnar(_), _) => Position::Row(offset + 1),
                _ if is_cut => Position::Byte(offset),
                _ => Position::Line(reject.row.line + lines_skipped(plan, piece, &reject.row)),
            },
            column: reject.column.clone(),
            value: reject.value.clone(),
            reason: reject.reason.clone(),
        };
        tracing::debug!(table = table.name, "reject: {}", told(None));
        let counted_line = || {
            let counts = is_cut && offset <= LINES_COUNTED_UP_TO;
            counts.then(|| line_at(file, offset)).flatten()
        };
        let too_many = match self.limit {
            _ if reject.ends_load => {
                Some(Error::Unterminated { row: Box::new(told(counted_line())) })
            }
            RejectLimit::Rows(limit) if number > limit => {
                let first = Some(Box::new(told(counted_line())));
                let limit = self.limit.to_string();
                let hint = reject.hint.unwrap_or(HINT);
                Some(Error::TooManyRejects { rejects: number, limit, first, hint })
            }
            _ => None,
        };
        let (raw, kept) = SavedReject::of(piece.table, range_start, reject);
        let json = serde_json::to_vec(&kept).expect("plain data becomes JSON");
        if let Some(spool) = &mut rejects.spool {
            spool.push(&[&raw, &json])?;
        }
        too_many.map_or(Ok(()), Err)
    }

    /// The piece is committed: its rejects count.
    pub fn commit(&self, rejects: PieceRejects) -> Result<()> {
        let mut reader = match (rejects.saved, rejects.spool) {
            (Some(path), _) => Spool::saved(&path, 2)?,
            (None, Some(spool)) => spool.into_reader(2)?,
            (None, None) => return Ok(()),
        };
        let mut committed = self.committed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(committed) = committed.as_mut() else { return Ok(()) };
        let mut places = self.places.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while let Some(record) = reader.next()? {
            if self.limit.allows_any() {
                let place = Place::read(&record[1]);
                places.entry(place.table).or_default().insert((place.file, place.offset));
            }
            committed.push(&[&record[0], &record[1]])?;
        }
        Ok(())
    }

    /// The piece was rolled back: its rejects don't count.
    pub fn forget(&self, rejects: PieceRejects) {
        self.count.fetch_sub(rejects.count, Ordering::Relaxed);
    }

    /// How many of so many loaded rows may still be rejected.
    pub fn room(&self, rows: u64) -> u64 {
        let rejects = self.count();
        let most = match self.limit {
            RejectLimit::Rows(most) => most,
            RejectLimit::Percent(percent) => (percent * (rows + rejects) as f64 / 100.0) as u64,
        };
        most.saturating_sub(rejects)
    }

    /// Refuses where the limit was passed: a share of the rows, or by rejects of an attempt that was allowed more.
    pub fn check_limit(&self, rows: u64) -> Result<()> {
        let rejects = self.count();
        let (is_passed, limit) = match self.limit {
            RejectLimit::Rows(limit) => (rejects > limit, self.limit.to_string()),
            RejectLimit::Percent(percent) => (
                rejects as f64 * 100.0 > percent * (rows + rejects) as f64,
                format!("{percent}% of {} rows", rows + rejects),
            ),
        };
        match is_passed {
            true => Err(Error::TooManyRejects { rejects, limit, first: None, hint: HINT }),
            false => Ok(()),
        }
    }

    /// Writes the reject files; their paths, none where nothing was rejected.
    pub fn finish(&self, plan: &Plan, schedule: &Schedule<'_>) -> Result<Vec<PathBuf>> {
        let spool = self.committed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let Some(spool) = spool.filter(|spool| spool.records > 0) else { return Ok(Vec::new()) };
        let mut lines = schedule.lines();
        let mut reader = spool.into_reader(2)?;
        let mut files = AllRejectFiles::new(plan, false);
        while let Some(record) = reader.next()? {
            let kept = SavedReject::read(&record[1]);
            let table = &plan.tables[kept.table];
            let line = match kept.range_start {
                Some(start) => lines
                    .before(kept.table, kept.file, &table.files[kept.file], start)
                    .map(|n| n + kept.line),
                None => (kept.line > 0).then_some(kept.line),
            };
            let file = kept.file;
            files.write(kept.table, file, &record[0], &kept.reason(table, line))?;
        }
        files.close()
    }
}

/// Where the stretch of its file begins from which on a row's lines were counted; none where they were from
/// the file's beginning.
fn range_start(plan: &Plan, piece: &PlannedPiece, row: &SourceRow) -> Option<u64> {
    let PieceInput::Ranges(ranges) = &piece.input else { return None };
    if !plan.tables[piece.table].files[row.file].is_seekable() {
        return None;
    }
    let has_it = |range: &&FileRange| {
        range.file == row.file && (range.start..range.end).contains(&row.offset)
    };
    ranges.iter().find(has_it).map(|range| range.start)
}

/// Takes away the files in which pieces' rejects waited for the end of the run.
pub fn remove_saved(plan: &Plan, committed: &[Committed]) {
    for piece in committed.iter().filter(|piece| piece.portion.rejected > 0) {
        // What stays is in nobody's way.
        let _ = std::fs::remove_file(saved_path(plan, piece.piece, piece.portion.rejected));
    }
}

/// Where a piece's rejects, so many, wait for the end of the run.
pub fn saved_path(plan: &Plan, piece: usize, count: u64) -> PathBuf {
    plan.run_dir.join(format!("rejects-{piece:05}-{count}.spool"))
}

fn lines_skipped(plan: &Plan, piece: &PlannedPiece, row: &SourceRow) -> u64 {
    match piece.input {
        PieceInput::Ranges(_) if plan.tables[piece.table].files[row.file].is_seekable() => {
            plan.tables[piece.table].files[row.file].data_start_lines
        }
        _ => 0,
    }
}
