//! Reads the files of a run once more, for the sums of their rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fullbore::state::runs_dir;
use fullbore::{assemble, saved};
use fullbore_load::job::{Job, LookupJob, RejectLimit, TableJob};
use fullbore_load::plan::recorded::RecordedTable;
use fullbore_load::plan::{Completion, PieceInput, Plan, Planned, PlannedPiece, TablePlan};
use fullbore_postgres::Postgres;
use fullbore_postgres::ledger::runs::LedgerRun;
use fullbore_postgres::verify::anew::Anew;
use fullbore_postgres::verify::recount::Recount;
use fullbore_read::error::{Error, Result};
use fullbore_record::Recorder;
use fullbore_record::terms::{Method, Publish, Verify};

use super::take_back::Opened;

/// The sums of a run's files, or of those that are named.
pub fn recount(opened: &Opened, run: &LedgerRun, files: &[String]) -> Result<Anew> {
    let saved = saved::read(&runs_dir()?.join(&*run.run_id)).map_err(|_| {
        Error::usage_with_hint(
            format!("the job of run {} is not stored on this machine", run.run_id),
            "verify on the machine where the load was started; without --against, the run is \
             compared with the checksums in the ledger",
        )
    })?;
    // The server reads text as it did for the run.
    opened.postgres.read_as(run)?;
    let job = read_only(saved.job, run, files)?;
    let draft = assemble(&job, Some(opened.postgres.server()), "".into(), None)?;
    let Planned { plan, targets, .. } = draft.finish(Completion::default());
    let same_cuts = cuts_of(&plan, run, files.is_empty())?;
    let is_cut_anew = same_cuts.is_none();
    let plan = Arc::new(Plan {
        // Nothing of it is to stay: neither spools nor rejects, which the run has written already.
        reject_dir: plan.run_dir.join("rejects"),
        pieces: same_cuts.unwrap_or(plan.pieces),
        tables: plan.tables.into_iter().map(without_lineage).collect(),
        ..plan
    });
    let postgres = Postgres::new(opened.postgres.server().clone(), targets, None, None);
    let sink = Recount::new(&postgres);
    let result =
        fullbore_load::run::run(&plan, &sink, &Recorder::nowhere(), &AtomicBool::new(false));
    let _ = std::fs::remove_dir_all(&plan.run_dir);
    let outcome = result.map_err(|failure| failure.error)?;
    let (mut proofs, mut tables) = (BTreeMap::new(), BTreeMap::new());
    for (piece, (table, proof)) in sink.into_proofs() {
        proofs.insert(piece, proof);
        tables.insert(piece, table);
    }
    let rejected = outcome.tables.iter().map(|table| table.rejected).collect();
    Ok(Anew { proofs, is_cut_anew, tables, rejected, is_of_other_files: !files.is_empty() })
}

/// What marks rows with their origin is in no file, and may be other with every load.
fn without_lineage(mut table: TablePlan) -> TablePlan {
    for shape in [&mut table.shape, &mut table.text_shape] {
        let shape = Arc::make_mut(shape);
        shape.columns.truncate(shape.columns.len() - table.lineage.columns.len());
    }
    table.lineage.columns.clear();
    table
}

/// The run's job, as one that only reads: its tables are there, and nothing is refused for their sake.
fn read_only(job: Job, run: &LedgerRun, files: &[String]) -> Result<Job> {
    if !files.is_empty() && job.tables.len() > 1 {
        return Err(Error::usage_with_hint(
            format!("run {} loaded {} tables", run.run_id, job.tables.len()),
            "use --against without file names: the files of the job are read",
        ));
    }
    let tables = job.tables.into_iter().zip(&run.tables).map(|(table, known)| TableJob {
        name: Some(known.target.to_string()),
        sources: if files.is_empty() { table.sources } else { files.to_vec() },
        format: table.format,
        delimiter: table.delimiter,
        quote: table.quote,
        escape: table.escape,
        quotes: table.quotes,
        null: table.null,
        header: table.header,
        line_end: table.line_end,
        ragged: table.ragged,
        comment: table.comment,
        skip_lines: table.skip_lines,
        skip_footer: table.skip_footer,
        widths: table.widths,
        encoding: table.encoding,
        columns: table.columns,
        field_types: table.field_types,
        select: table.select,
        r#where: table.r#where,
        checks: table.checks,
        lookups: table.lookups.iter().map(LookupJob::reading_only).collect(),
        lineage: table.lineage,
        publish: Publish::Append,
        as_text: table.as_text,
        ..TableJob::default()
    });
    Ok(Job {
        tables: tables.collect(),
        method: Method::Copy,
        verify: Verify::Full,
        // What was refused then is refused again, and no reason to stop.
        max_rejects: RejectLimit::Percent(100.0),
        no_ledger: true,
        allow_publication: true,
        streams: job.streams,
        parsers: job.parsers,
        piece_size: job.piece_size,
        max_field_bytes: job.max_field_bytes,
        store: job.store,
        ..Job::default()
    })
}

/// The pieces of the run, so that they can be compared one by one; none where these are other files, or
/// were cut as they were read.
fn cuts_of(plan: &Plan, run: &LedgerRun, must_be_same: bool) -> Result<Option<Vec<PlannedPiece>>> {
    let recorded = run.recorded();
    for (number, table) in plan.tables.iter().enumerate() {
        let now = RecordedTable::of(table);
        if let Some(change) = recorded.source_change(number, &now.files) {
            if must_be_same {
                return Err(Error::usage_with_hint(
                    format!("the files of run {} have changed: {change}", run.run_id),
                    "name the files to compare with: --against FILES",
                ));
            }
            return Ok(None);
        }
        if recorded.check(number, table).is_err() {
            return Ok(None);
        }
    }
    let is_cut_beforehand =
        run.pieces.iter().all(|piece| !matches!(piece.input, PieceInput::Stream { .. }));
    Ok(is_cut_beforehand.then(|| run.pieces.clone()))
}
