//! Rows that violate constraints, found while publishing: rejected, so that the others can be
//! published.

use fullbore_read::error::{Error, Result};

use super::Outcome;
use super::rejects::{self, Rejects};
use super::reread::SourcesAgain;
use crate::plan::Plan;
use crate::sink::{Committed, Sink};

/// Whether it is rows that keep the others from being published, and they may be rejected.
pub fn may_reject(plan: &Plan, error: &Error) -> bool {
    error.is_of_rows() && plan.rejects_violations()
}

/// Takes out rows that violate what the table asks of all its rows, after `first` was what
/// publishing failed with; whether there were any.
pub fn reject(
    plan: &Plan,
    sink: &dyn Sink,
    first: &Error,
    committed: &mut [Committed],
    rejects: &Rejects,
    outcome: &mut Outcome,
) -> Result<bool> {
    let Some(constraints) = sink.rejects_violations() else { return Ok(false) };
    let mut sources = SourcesAgain::new(plan, sink, rejects, committed);
    let rejected = constraints.reject_violations(plan, committed, &mut sources);
    let SourcesAgain { refused, records, .. } = sources;
    let count = refused.values().sum();
    if let Err(error) = rejected {
        if matches!(error, Error::TooManyRejects { .. }) {
            // Those that ended the run are what the user wants to see.
            note_files(outcome, rejects.append(plan, &records)?);
            outcome.rejected = rejects.count();
        } else {
            rejects.forget_late(count);
        }
        return Err(after(first, error));
    }
    for piece in committed.iter_mut() {
        let Some(count) = refused.get(&piece.piece) else { continue };
        rejects::remove_saved(plan, std::slice::from_ref(piece));
        piece.rows -= count;
        piece.portion.rejected += count;
        outcome.tables[piece.table].rows -= count;
        outcome.tables[piece.table].rejected += count;
    }
    outcome.rows -= count;
    outcome.rejected = rejects.count();
    note_files(outcome, rejects.append(plan, &records)?);
    Ok(count > 0)
}

/// Where violations can't be taken out, the reason for trying is what one wants to know first.
fn after(first: &Error, second: Error) -> Error {
    match second {
        lost if lost.is_lost() => lost,
        Error::Destination { message, hint, kind } => Error::Destination {
            message: format!("{first}; then: {message}"),
            hint: hint.or_else(|| first.hint().map(str::to_owned)),
            kind,
        },
        other => other,
    }
}

fn note_files(outcome: &mut Outcome, files: Vec<std::path::PathBuf>) {
    for file in files {
        if !outcome.reject_files.contains(&file) {
            outcome.reject_files.push(file);
        }
    }
}
