//! `fullbore load` and `fullbore plan`.

mod args;
pub mod destinations;
mod here;
pub mod job;
mod loaded;
pub mod manner;
mod parts;
pub mod saved;
pub mod signals;
mod standing;
mod tables;
mod unfinished;

use std::sync::Arc;

use fullbore_load::job::Job;
use fullbore_load::plan::Plan;
use fullbore_load::plan::assemble::Assembled;
use fullbore_load::run::{Failure, Outcome};
use fullbore_postgres::ledger::Ledger;
use fullbore_postgres::ledger::runs::{LedgerRun, State};
use fullbore_postgres::{Postgres, Target};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::{Recorder, claim};
use fullbore_report::live::Live;

use crate::assemble::assemble;
use crate::exit::Ended;
use crate::words::{complain, counted, grouped, print_json};
use crate::{ceilings, log_file, plan_view, progress, summary, watch};
pub use args::LoadArgs;
use destinations::Destinations;
use job::{job_of, refuse_given};
use manner::Manner;
use signals::{INTERRUPTED, listen_for_signals, say_at_once};
use standing::{Course, Standing};
use unfinished::Ask;

pub fn run(args: &LoadArgs) -> Ended {
    if args.dry_run {
        return plan(args);
    }
    let manner = Manner::of(args);
    job_of(args).and_then(|job| load(&job, &manner)).unwrap_or_else(|error| fail(&manner, &error))
}

pub fn plan(args: &LoadArgs) -> Ended {
    let manner = Manner::of(args);
    let planned = check_planned(args).and_then(|()| job_of(args)).and_then(|job| {
        let to = Destinations::open(&job)?;
        let ask = Ask { resume: args.resume, run: None, loads: false };
        let mut standing = Standing::ask(&job, to.postgres(), args.resume)?;
        if let Some(postgres) = to.postgres() {
            standing.look(postgres, ask)?;
        }
        standing.check_own(to.postgres(), args.resume)?;
        let job = standing.settle(&job, to.postgres(), ask)?;
        let course = standing.course(&job, args.resume)?;
        if let Course::Finished(_, words) = course {
            return Ok((words, Vec::new()));
        }
        let assembled = planned(&job, &to, &manner, &mut standing, &course)?;
        let text = plan_view::render(&assembled.plan, &assembled.statements);
        Ok((text, assembled.statements))
    });
    match planned {
        Ok((text, statements)) => {
            match manner.json {
                true => print_json(&serde_json::json!({ "plan": text, "statements": statements })),
                false => answer!("{}", text.trim_end()),
            }
            Ended::Loaded
        }
        Err(error) => fail(&manner, &error),
    }
}

/// What is said of a load as it goes on means nothing to a plan.
fn check_planned(args: &LoadArgs) -> Result<()> {
    let given = [
        (args.live.is_some(), "--live"),
        (args.log.log_file.is_some(), "--log-file"),
        (args.ceilings.is_some(), "--ceilings"),
    ];
    refuse_given(&given, "is for a load, and this only plans one", "")
}

/// A refusal before anything was touched.
pub fn fail(manner: &Manner, error: &Error) -> Ended {
    tracing::error!("refused: {error}");
    complain(&error.to_string(), error.hint());
    if manner.json {
        print_json(&serde_json::json!({ "error": error.to_string(), "hint": error.hint() }));
    }
    Ended::Usage
}

/// The plan of a new run, or of one that goes on.
fn planned(
    job: &Job,
    to: &Destinations,
    manner: &Manner,
    standing: &mut Standing,
    course: &Course,
) -> Result<Assembled<Target>> {
    let (recorded, notes) = match (course, to.postgres()) {
        // Before columns are looked at: what they are read as may depend on it.
        (Course::Resume(run), Some(postgres)) => (Some(run.as_ref()), postgres.read_as(run)?),
        (Course::Resume(run), None) => (Some(run.as_ref()), Vec::new()),
        (Course::Begin { notes }, _) => (None, notes.clone()),
        (Course::Finished(..), _) => (None, Vec::new()),
    };
    let mut assembled = assemble(job, to.postgres(), manner.reject_dir.clone(), recorded)?;
    if let Some((table, reason)) = assembled.not_resumable.take() {
        let hint = Some("leave --resume away, or load into ordinary tables".to_owned());
        standing.refuse(
            &format!("{table}: {reason}"),
            hint,
            manner.resume || job.part.is_some(),
        )?;
    }
    let mut continuity = standing.continuity.clone();
    continuity.resumes = recorded.is_some();
    continuity.part = parts::part_of(job, to.postgres(), standing, recorded, &assembled.targets)?;
    assembled.plan.continuity = continuity;
    if let Some(table) = assembled.plan.tables.first_mut() {
        table.notes.extend(notes);
    }
    Ok(assembled)
}

/// Loads a job, from the beginning or from where a run of it stopped.
pub fn load(job: &Job, manner: &Manner) -> Result<Ended> {
    if let Some(path) = &manner.log_file {
        log_file::open(path)?;
    }
    let to = Destinations::open(job)?;
    let uses_default = !job.no_ledger && job.ledger_schema.is_none();
    if let Some(postgres) = to.postgres().filter(|_| uses_default)
        && let Some(said) = postgres.move_old_ledger()?
        && !manner.quiet
    {
        tell!("note: {said}");
    }
    let ask = Ask { resume: manner.resume, run: manner.run.as_deref(), loads: true };
    let mut standing = Standing::ask(job, to.postgres(), manner.resume)?;
    let mut cleared = None;
    if let Some(postgres) = to.postgres().filter(|_| standing.continuity.is_resumable) {
        // Before looking: what is found stays so while we have the lock.
        postgres.lock_job(&standing.job)?;
        standing.look(postgres, ask)?;
        standing.check_own(Some(postgres), manner.resume)?;
        if let (Some(said), Some(run)) = (standing.end_gone(postgres, ask)?, &standing.earlier) {
            return Ok(finished_already(manner, run, &said));
        }
        let is_ours = |run: &LedgerRun| postgres.check_own(run).is_ok();
        let is_left = |run: &mut LedgerRun| run.state == State::Preparing && is_ours(run);
        if let Some(run) = standing.earlier.take_if(is_left) {
            // It ended before its first row.
            postgres.take_back(&standing.schema, &run)?;
            cleared = Some(run);
        }
    }
    if let Some(hint) = standing.unkept.as_deref().filter(|_| !manner.quiet) {
        let reason = &standing.continuity.reason;
        let warning = format!(
            "warning: no ledger is kept, so this load can't be resumed, and is not known to have \
             happened if its last answer is lost: {reason}"
        );
        complain(&warning, Some(hint));
    }
    if let Some(wanted) = &manner.run {
        check_named(wanted, standing.earlier.as_ref().or(cleared.as_ref()))?;
    }
    let settled = &standing.settle(job, to.postgres(), ask)?;
    let course = standing.course(settled, manner.resume)?;
    if let Course::Finished(run, words) = &course {
        return Ok(finished_already(manner, run, words.trim()));
    }
    let Assembled { mut plan, targets, statements, .. } =
        planned(settled, &to, manner, &mut standing, &course)?;
    plan.destination = destinations::words(job, to.postgres());
    plan.ceilings = ceilings::of(job, to.postgres(), &plan, manner.ceilings.as_deref())?;
    if let Destinations::Postgres(postgres) = &to {
        postgres.adopt(targets);
        if !plan.continuity.resumes {
            // A role that may not read the ledger is told nothing.
            let left = postgres.left_by_unknown(&standing.schema).unwrap_or_default();
            if let Some(table) = plan.tables.first_mut() {
                table.notes.extend(left.iter().map(|name| {
                    format!(
                        "{name} was made by a load that the ledger does not know: if none is at work, one \
                         was killed and left it; DROP TABLE {name} removes it"
                    )
                }));
            }
        }
        if plan.continuity.is_resumable {
            let ledger = Ledger::new(&standing.schema, &standing.job, &plan.run_id);
            postgres.keep_ledger(ledger.of_a_part(plan.continuity.part.is_some()));
        }
    }
    if !manner.quiet {
        for note in plan.tables.iter().flat_map(|table| &table.notes) {
            tell!("note: {note}");
        }
    }
    if !plan.continuity.resumes {
        claim(&plan.run_dir)?;
    }
    if plan.continuity.is_resumable && !plan.continuity.resumes {
        saved::save(&plan, settled, to.postgres(), manner)?;
    }
    if let Some(postgres) = to.postgres().filter(|_| !plan.continuity.resumes) {
        here::note(&plan, postgres)?;
    }
    let expected: Vec<_> =
        plan.tables.iter().map(|table| (table.name.clone(), table.bytes)).collect();
    let listener = progress::listener(&expected, manner.quiet || manner.json);
    let recorder = match plan.continuity.resumes {
        true => Recorder::append(&plan.run_dir, listener)?,
        false => Recorder::create(&plan.run_dir, listener)?,
    };
    for line in plan_view::render(&plan, &statements).lines() {
        tracing::debug!("plan: {line}");
    }
    let (plan, recorder) = (Arc::new(plan), Arc::new(recorder));
    if let Some(postgres) = to.postgres() {
        postgres.attend(recorder.clone(), &INTERRUPTED, plan.continuity.patience);
    }
    let live = manner.live.as_deref().map(|at| watch::open(at, &plan.run_dir)).transpose()?;
    last_words(&plan, to.postgres().is_some());
    listen_for_signals();
    let result = fullbore_load::run::run(&plan, to.as_destination(), &recorder, &INTERRUPTED);
    live.into_iter().for_each(Live::finish);
    Ok(match result {
        Ok(outcome) => finished(manner, &plan, &outcome, Shown::of(&to, &plan)?),
        Err(failure) => failed(manner, &plan, &failure),
    })
}

/// What is said where a second signal leaves no time to look.
fn last_words(plan: &Plan, is_server: bool) {
    let run = &plan.run_id;
    let words = match (plan.continuity.is_resumable, is_server) {
        (true, _) => format!(
            "the server takes back the pieces under way, committed ones are kept: `fullbore runs resume \
             {run}` goes on, `fullbore runs abort {run}` closes the run"
        ),
        (false, true) => format!(
            "the server takes back what is under way; run {run} can't be resumed, so look what is in \
             the table before you load again, and for tables named ..._fb_{run}_..."
        ),
        (false, false) => format!("run {run} has not ended, and what it has written is not whole"),
    };
    say_at_once(&words);
}

/// Refuses a run, named by its id, that is not the last one of its job.
fn check_named(wanted: &str, last: Option<&LedgerRun>) -> Result<()> {
    match last {
        Some(last) if *last.run_id == *wanted => Ok(()),
        Some(last) => Err(Error::usage_with_hint(
            format!("run {wanted} is not the last one of its job: that is {}", last.run_id),
            format!("resume that one, or take {wanted} back with `fullbore runs abort {wanted}`"),
        )),
        None => Err(Error::usage_with_hint(
            format!("the database's ledger knows no run {wanted}"),
            "it was taken back, is in another database (--to), or went into tables that are not what \
             its names stand for now (search_path): load again",
        )),
    }
}

/// What publishing left to be told.
struct Shown {
    /// Where tables that were replaced are kept.
    kept: Vec<String>,
    /// The parts of the load that were not loaded when this one was.
    waits_for: Vec<String>,
}

impl Shown {
    fn of(to: &Destinations, plan: &Plan) -> Result<Self> {
        let targets = to.postgres().map_or(&[][..], Postgres::targets);
        let kept = targets.iter().filter_map(|target| target.kept(&plan.run_id).transpose());
        Ok(Self {
            kept: kept.map(|name| name.map(|name| name.to_string())).collect::<Result<_>>()?,
            waits_for: to.postgres().map(Postgres::waits_for).unwrap_or_default(),
        })
    }
}

fn finished(manner: &Manner, plan: &Plan, outcome: &Outcome, shown: Shown) -> Ended {
    let Shown { kept, waits_for } = shown;
    if !manner.quiet {
        summary::print(plan, outcome);
        summary::print_kept(plan, &kept);
        parts::tell(plan, &waits_for);
    }
    if manner.json {
        let mut summary = summary::JsonSummary::of(plan, outcome, None);
        summary.kept = kept;
        summary.waits_for = waits_for;
        summary.print();
    }
    loaded(outcome.rejected)
}

/// There is nothing to do, as the words say.
fn finished_already(manner: &Manner, run: &LedgerRun, words: &str) -> Ended {
    tell!("{words}");
    if manner.json {
        print_json(&summary::finished_before(run));
    }
    loaded(run.rejected)
}

fn loaded(rejected: u64) -> Ended {
    if rejected > 0 { Ended::LoadedWithRejects } else { Ended::Loaded }
}

/// Whether what a run had committed is no longer what it was.
fn differs(error: &Error) -> bool {
    matches!(error, Error::Destination { kind: DestinationFailure::Differs, .. })
}

/// Whether a run that is kept can only be closed: what is wrong with it stays so.
fn ends_it(error: &Error) -> bool {
    let hint = error.hint().unwrap_or_default();
    differs(error) || hint.contains("runs abort") && !hint.contains("runs resume")
}

/// Whether what a run had committed can't be said to be in the table: it is not what it was, or went with
/// the table.
fn may_be_gone(error: &Error) -> bool {
    let is_changed = matches!(error, Error::Destination { kind: DestinationFailure::Changed, .. });
    differs(error) || is_changed && ends_it(error)
}

fn failed(manner: &Manner, plan: &Plan, failure: &Failure) -> Ended {
    let Failure { error, outcome, is_kept, is_published, left_behind, rows_kept } = failure;
    complain(&error.to_string(), error.hint());
    for path in &outcome.reject_files {
        tell!("  rejected rows are in {}", path.display());
    }
    let run = &plan.run_id;
    // What is in other hands is theirs to go on with, or gone.
    let is_taken = matches!(error, Error::Destination { kind: DestinationFailure::TakenOver, .. });
    if *is_published == Some(true) && !is_taken {
        tell!(
            "  its {} were published; `fullbore runs resume {run}` does what is left to do",
            counted(outcome.rows, "row")
        );
    } else if *is_kept && !is_taken {
        let kept = match outcome.pieces {
            0 => "nothing is committed yet".to_owned(),
            pieces => format!(
                "{} with {} {}",
                counted(pieces, "piece"),
                counted(outcome.rows, "row"),
                if may_be_gone(error) { "had been committed" } else { "committed and kept" }
            ),
        };
        let closes = match *rows_kept > 0 {
            true if may_be_gone(error) => format!("`fullbore runs abort {run}` closes it"),
            true => format!(
                "`fullbore runs abort {run}` closes it (and --delete-rows deletes its rows)"
            ),
            false => format!("`fullbore runs abort {run}` takes it back"),
        };
        match error {
            _ if ends_it(error) => tell!("  {kept}: the run can't go on; {closes}"),
            // The hint has said how it goes on.
            _ if error.hint().is_some_and(|hint| hint.contains("runs resume")) => {
                tell!("  {kept}; {closes}");
            }
            Error::Destination { kind: DestinationFailure::Changed, .. } => tell!(
                "  {kept}: `fullbore runs resume {run}` resumes the run once the change is undone, \
                 {closes}"
            ),
            _ if is_published.is_none() => tell!(
                "  {kept}; whether they are published is not known: `fullbore runs resume {run}` finds out and \
                 continues"
            ),
            _ => tell!("  {kept}: `fullbore runs resume {run}` goes on, {closes}"),
        }
    } else {
        for name in left_behind {
            tell!("  could not clean up, drop manually: {name}");
        }
        let is_unsure = outcome.is_unsure && outcome.tables.iter().any(|t| t.kept_on_failure);
        if is_unsure && !plan.continuity.is_resumable {
            tell!(
                "  a connection was lost: the rows of its piece may be in the table, and without a \
                 ledger nobody knows; look before you load again"
            );
        } else if matches!(error, Error::Interrupted) && *rows_kept == 0 {
            tell!("  nothing had been committed, and nothing is kept: load again");
        }
    }
    if *rows_kept > 0 && !may_be_gone(error) {
        // Of a piece whose commit was not heard of only a ledger knows.
        let is_least = !plan.continuity.is_resumable && outcome.is_unsure;
        tell!(
            "  {}{} rows of committed pieces stay in the table (plain append is not atomic; see --atomic)",
            if is_least { "at least " } else { "" },
            grouped(*rows_kept)
        );
        if !plan.continuity.is_resumable {
            tell!(
                "  this run can't be resumed ({}): another load of the files would load those rows again",
                plan.continuity.reason
            );
        }
    }
    if manner.json {
        let mut summary = summary::JsonSummary::of(plan, outcome, Some(error.to_string()));
        summary.resumable = *is_kept && !is_taken && !ends_it(error);
        summary.print();
    }
    match error {
        _ if *is_kept || *rows_kept > 0 => Ended::Stopped,
        Error::Interrupted => Ended::Stopped,
        Error::Usage { .. } => Ended::Usage,
        Error::Destination { kind: DestinationFailure::Refused, .. } => Ended::Usage,
        _ => Ended::Failed,
    }
}
