//! What a run that failed has left, and what can be done with it, in words.

use fullbore_load::plan::Plan;
use fullbore_load::run::Failure;
use fullbore_read::error::{DestinationFailure, Error};
use fullbore_report::words::{counted, grouped};

/// Whether a run that is kept can only be closed: what it had committed is not what it was, or went with
/// its table.
fn ends_it(error: &Error) -> bool {
    use DestinationFailure::{Differs, Gone};
    matches!(error, Error::Destination { kind: Differs | Gone, .. })
}

/// Whether another process resumed the run: what is left of it is that one's.
fn is_taken(error: &Error) -> bool {
    matches!(error, Error::Destination { kind: DestinationFailure::TakenOver, .. })
}

/// Whether the run can be resumed.
pub fn is_resumable(plan: &Plan, failure: &Failure) -> bool {
    let is_left = failure.is_kept && !is_taken(&failure.error) && !ends_it(&failure.error);
    is_left && !plan.ends_with_process()
}

/// A line for each thing that should be known.
pub fn lines(plan: &Plan, failure: &Failure) -> Vec<String> {
    let Failure { error, outcome, is_kept, is_published, left_behind, rows_kept } = failure;
    let mut lines: Vec<String> = outcome
        .reject_files
        .iter()
        .map(|path| format!("rejected rows are in {}", path.display()))
        .collect();
    let run = &plan.run_id;
    if *is_published == Some(true) && !is_taken(error) {
        lines.push(format!(
            "its {} were published; `fullbore runs resume {run}` completes the remaining steps",
            counted(outcome.rows, "row")
        ));
    } else if *is_kept && !is_taken(error) {
        lines.push(kept(plan, failure));
    } else {
        let names = left_behind.iter();
        lines.extend(names.map(|name| format!("could not clean up, drop manually: {name}")));
        let is_unsure = outcome.is_unsure && outcome.tables.iter().any(|t| t.kept_on_failure);
        if is_unsure && !plan.continuity.is_resumable {
            lines.push(
                "a connection was lost: without a ledger, it is unknown whether the rows of its piece were \
                 committed; check the table before you load again"
                    .to_owned(),
            );
        } else if matches!(error, Error::Interrupted) && *rows_kept == 0 {
            lines.push("nothing was committed, and nothing is kept: load again".to_owned());
        }
    }
    if *rows_kept > 0 && !ends_it(error) {
        // Of a piece whose commit was not heard of only a ledger knows.
        let is_least = !plan.continuity.is_resumable && outcome.is_unsure;
        lines.push(format!(
            "{}{} rows of committed pieces stay in the table (plain append is not atomic; see --atomic)",
            if is_least { "at least " } else { "" },
            grouped(*rows_kept)
        ));
        if !plan.continuity.is_resumable {
            lines.push(format!(
                "this run can't be resumed ({}): loading the files again would duplicate these rows",
                plan.continuity.reason
            ));
        }
    }
    lines
}

/// What is kept of a run, and how it is resumed or closed.
fn kept(plan: &Plan, failure: &Failure) -> String {
    let Failure { error, outcome, is_published, rows_kept, .. } = failure;
    let run = &plan.run_id;
    let kept = match outcome.pieces {
        0 => "nothing is committed yet".to_owned(),
        pieces => format!(
            "{} with {} {}",
            counted(pieces, "piece"),
            counted(outcome.rows, "row"),
            if ends_it(error) { "had been committed" } else { "committed and kept" }
        ),
    };
    let closes = match *rows_kept > 0 {
        true if ends_it(error) => format!("`fullbore runs abort {run}` closes it"),
        true => {
            format!("`fullbore runs abort {run}` closes it (and --delete-rows deletes its rows)")
        }
        false => format!("`fullbore runs abort {run}` rolls it back"),
    };
    match error {
        _ if ends_it(error) => format!("{kept}: the run can't be resumed; {closes}"),
        _ if plan.ends_with_process() => format!(
            "{kept}: the run can't be resumed, since its data, or the snapshot that it was read under, ended with this process; {closes}"
        ),
        // The hint has said how it goes on.
        _ if error.hint().is_some_and(|hint| hint.contains("runs resume")) => {
            format!("{kept}; {closes}")
        }
        Error::Destination { kind: DestinationFailure::Changed, .. } => format!(
            "{kept}: `fullbore runs resume {run}` resumes the run once the change is undone, {closes}"
        ),
        _ if is_published.is_none() => format!(
            "{kept}; it is unknown whether they were published: `fullbore runs resume {run}` checks \
             and continues"
        ),
        _ => format!("{kept}: `fullbore runs resume {run}` resumes it, {closes}"),
    }
}
