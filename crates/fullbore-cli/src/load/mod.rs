//! `fullbore load` and `fullbore plan`.

mod args;
pub mod destinations;
mod here;
pub mod job;
mod ledger_state;
mod loaded;
pub mod options;
mod parts;
pub mod saved;
pub mod signals;
mod tables;
mod unfinished;

use std::sync::Arc;

use fullbore_load::job::Job;
use fullbore_load::plan::{Completion, Continuity, Plan, Planned};
use fullbore_load::run::{Failure, Outcome};
use fullbore_postgres::ledger::Ledger;
use fullbore_postgres::ledger::runs::{LedgerRun, State};
use fullbore_postgres::{Attended, Postgres, PostgresTable};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::{Recorder, claim};
use fullbore_report::live::Live;

use crate::assemble::assemble;
use crate::exit::Ended;
use crate::plan_json::JsonPlan;
use crate::words::{complain, counted, grouped, print_json};
use crate::{ceilings, log_file, plan_view, progress, summary, watch};
pub use args::LoadArgs;
use destinations::{Destinations, RunSink};
use job::{job_of, refuse_given};
use ledger_state::{Decision, LedgerState};
use options::LoadOptions;
use signals::{INTERRUPTED, listen_for_signals, say_at_once};
use unfinished::Ask;

pub fn run(args: &LoadArgs) -> Ended {
    if args.dry_run {
        return plan(args);
    }
    let options = LoadOptions::of(args);
    job_of(args).and_then(|job| load(&job, &options)).unwrap_or_else(|error| fail(&options, &error))
}

pub fn plan(args: &LoadArgs) -> Ended {
    let options = LoadOptions::of(args);
    let planned = check_planned(args).and_then(|()| job_of(args)).and_then(|job| {
        let to = Destinations::open(&job)?;
        let ask = Ask { resume: args.resume, run: None, loads: false };
        let mut state = LedgerState::ask(&job, to.server(), args.resume)?;
        if let Some(server) = to.server() {
            state.look(server, ask)?;
        }
        state.check_own(to.server(), args.resume)?;
        let job = state.settle(&job, to.server(), ask)?;
        let decision = state.decide(&job, args.resume)?;
        if let Decision::Finished(_, words) = decision {
            return Ok(JsonPlan::nothing_to_do(words));
        }
        let planned = planned(&job, &to, &options, &mut state, &decision)?;
        let text = plan_view::render(&planned.plan, &planned.statements);
        Ok(JsonPlan::of(&planned.plan, text, &planned.statements))
    });
    match planned {
        Ok(plan) => {
            match options.json {
                true => print_json(&plan),
                false => answer!("{}", plan.text().trim_end()),
            }
            Ended::Loaded
        }
        Err(error) => fail(&options, &error),
    }
}

/// What is said of a load as it goes on means nothing to a plan.
fn check_planned(args: &LoadArgs) -> Result<()> {
    let given = [
        (args.live.is_some(), "--live"),
        (args.log.log_file.is_some(), "--log-file"),
        (args.ceilings.is_some(), "--ceilings"),
    ];
    refuse_given(&given, "applies to `fullbore load`, not to a plan", "")
}

/// A refusal before anything was touched.
pub fn fail(options: &LoadOptions, error: &Error) -> Ended {
    tracing::error!("refused: {error}");
    complain(&error.to_string(), error.hint());
    if options.json {
        print_json(&serde_json::json!({ "error": error.to_string(), "hint": error.hint() }));
    }
    Ended::Usage
}

/// The plan of a new run, or of one that goes on.
fn planned(
    job: &Job,
    to: &Destinations,
    options: &LoadOptions,
    state: &mut LedgerState,
    decision: &Decision,
) -> Result<Planned<PostgresTable>> {
    let (recorded, mut notes) = match (decision, to.server()) {
        // Before columns are looked at: what they are read as may depend on it.
        (Decision::Resume(run), Some(server)) => (Some(run.as_ref()), server.read_as(run)?),
        (Decision::Resume(run), None) => (Some(run.as_ref()), Vec::new()),
        (Decision::Begin { notes }, _) => (None, notes.clone()),
        (Decision::Finished(..), _) => (None, Vec::new()),
    };
    let draft = assemble(job, to.server(), options.reject_dir.clone(), recorded)?;
    if let Some((table, reason)) = draft.not_resumable() {
        let hint = Some("omit --resume, or load into ordinary tables".to_owned());
        state.refuse(&format!("{table}: {reason}"), hint, options.resume || job.part.is_some())?;
    }
    let part = parts::part_of(job, to.server(), state, recorded, draft.targets())?;
    if let Some(server) = to.server().filter(|_| recorded.is_none()) {
        // A role that may not read the ledger is told nothing.
        let left = server.left_by_unknown(&state.schema, draft.targets()).unwrap_or_default();
        notes.extend(left.iter().map(|name| {
            format!(
                "{name} was created by a load that is not in the ledger; if no load is running, it \
                 is a leftover: DROP TABLE {name} removes it"
            )
        }));
    }
    let ceilings = ceilings::of(job, to.server(), draft.plan(), options.ceilings.as_deref())?;
    Ok(draft.finish(Completion {
        continuity: Continuity { resumes: recorded.is_some(), part, ..state.continuity.clone() },
        ceilings,
        destination: destinations::words(job, to.server()),
        notes,
    }))
}

/// Loads a job, from the beginning or from where a run of it stopped.
pub fn load(job: &Job, options: &LoadOptions) -> Result<Ended> {
    if let Some(path) = &options.log_file {
        log_file::open(path)?;
    }
    let to = Destinations::open(job)?;
    let uses_default = !job.no_ledger && job.ledger_schema.is_none();
    if let Some(server) = to.server().filter(|_| uses_default)
        && let Some(said) = server.move_old_ledger()?
        && !options.quiet
    {
        tell!("note: {said}");
    }
    let ask = Ask { resume: options.resume, run: options.run.as_deref(), loads: true };
    let mut state = LedgerState::ask(job, to.server(), options.resume)?;
    let mut cleared = None;
    if let Some(server) = to.server().filter(|_| state.continuity.is_resumable) {
        // Before looking: what is found stays so while we have the lock.
        server.lock_job(&state.job)?;
        state.look(server, ask)?;
        state.check_own(Some(server), options.resume)?;
        if let (Some(said), Some(run)) = (state.end_gone(server, ask)?, &state.earlier) {
            return Ok(finished_already(options, run, &said));
        }
        let is_ours = |run: &LedgerRun| server.check_own(run).is_ok();
        let is_left = |run: &mut LedgerRun| run.state == State::Preparing && is_ours(run);
        if let Some(run) = state.earlier.take_if(is_left) {
            // It ended before its first row.
            server.take_back(&state.schema, &run)?;
            cleared = Some(run);
        }
    }
    if let Some(hint) = state.unkept.as_deref().filter(|_| !options.quiet) {
        let reason = &state.continuity.reason;
        let warning = format!(
            "warning: no ledger is kept, so this load can't be resumed, and its outcome is unknown \
             if the server's last reply is lost: {reason}"
        );
        complain(&warning, Some(hint));
    }
    if let Some(wanted) = &options.run {
        check_named(wanted, state.earlier.as_ref().or(cleared.as_ref()))?;
    }
    let settled = &state.settle(job, to.server(), ask)?;
    let decision = state.decide(settled, options.resume)?;
    if let Decision::Finished(run, words) = &decision {
        return Ok(finished_already(options, run, words.trim()));
    }
    let Planned { plan, targets, statements } =
        planned(settled, &to, options, &mut state, &decision)?;
    if !options.quiet {
        for note in plan.tables.iter().flat_map(|table| &table.notes) {
            tell!("note: {note}");
        }
    }
    if !plan.continuity.resumes {
        claim(&plan.run_dir)?;
    }
    if plan.continuity.is_resumable && !plan.continuity.resumes {
        saved::save(&plan, settled, to.server(), options)?;
    }
    if let Some(server) = to.server().filter(|_| !plan.continuity.resumes) {
        here::note(&plan, server, &targets)?;
    }
    let expected: Vec<_> =
        plan.tables.iter().map(|table| (table.name.clone(), table.bytes)).collect();
    let listener = progress::listener(&expected, options.quiet || options.json);
    let recorder = match plan.continuity.resumes {
        true => Recorder::append(&plan.run_dir, listener)?,
        false => Recorder::create(&plan.run_dir, listener)?,
    };
    for line in plan_view::render(&plan, &statements).lines() {
        tracing::debug!("plan: {line}");
    }
    let (plan, recorder) = (Arc::new(plan), Arc::new(recorder));
    let ledger = plan.continuity.is_resumable.then(|| {
        let ledger = Ledger::new(&state.schema, &state.job, &plan.run_id);
        ledger.of_a_part(plan.continuity.part.is_some())
    });
    let attended = Attended {
        recorder: recorder.clone(),
        interrupted: &INTERRUPTED,
        patience: plan.continuity.patience,
    };
    let sink = to.into_sink(targets, ledger, Some(attended));
    let live = options.live.as_deref().map(|at| watch::open(at, &plan.run_dir)).transpose()?;
    last_words(&plan, sink.postgres().is_some());
    listen_for_signals();
    let result = fullbore_load::run::run(&plan, sink.as_sink(), &recorder, &INTERRUPTED);
    live.into_iter().for_each(Live::finish);
    Ok(match result {
        Ok(outcome) => finished(options, &plan, &outcome, Shown::of(&sink, &plan)?),
        Err(failure) => failed(options, &plan, &failure),
    })
}

/// What is said where a second signal leaves no time to look.
fn last_words(plan: &Plan, is_server: bool) {
    let run = &plan.run_id;
    let words = match (plan.continuity.is_resumable, is_server) {
        (true, _) => format!(
            "the server rolls back pieces in progress and keeps committed ones: `fullbore runs \
             resume {run}` resumes the run, `fullbore runs abort {run}` closes it"
        ),
        (false, true) => format!(
            "the server rolls back pieces in progress; run {run} can't be resumed: before you load \
             again, check the rows in the table and look for tables named ..._fb_{run}_..."
        ),
        (false, false) => format!("run {run} did not finish; its output is incomplete"),
    };
    say_at_once(&words);
}

/// Refuses a run, named by its id, that is not the last one of its job.
fn check_named(wanted: &str, last: Option<&LedgerRun>) -> Result<()> {
    match last {
        Some(last) if *last.run_id == *wanted => Ok(()),
        Some(last) => Err(Error::usage_with_hint(
            format!("run {wanted} is not the last run of its job, which is {}", last.run_id),
            format!(
                "resume the last run, or roll {wanted} back with `fullbore runs abort {wanted}`"
            ),
        )),
        None => Err(Error::usage_with_hint(
            format!("run {wanted} is not in the database's ledger"),
            "it was rolled back, is in another database (--to), or its table names now resolve to \
             other tables (search_path): load again",
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
    fn of(sink: &RunSink, plan: &Plan) -> Result<Self> {
        let targets = sink.postgres().map_or(&[][..], Postgres::targets);
        let kept = targets.iter().filter_map(|target| target.kept(&plan.run_id).transpose());
        Ok(Self {
            kept: kept.map(|name| name.map(|name| name.to_string())).collect::<Result<_>>()?,
            waits_for: sink.postgres().map(Postgres::waits_for).unwrap_or_default(),
        })
    }
}

fn finished(options: &LoadOptions, plan: &Plan, outcome: &Outcome, shown: Shown) -> Ended {
    let Shown { kept, waits_for } = shown;
    if !options.quiet {
        summary::print(plan, outcome);
        summary::print_kept(plan, &kept);
        parts::tell(plan, &waits_for);
    }
    if options.json {
        let mut summary = summary::JsonSummary::of(plan, outcome, None);
        summary.kept = kept;
        summary.waits_for = waits_for;
        summary.print();
    }
    loaded(outcome.rejected)
}

/// There is nothing to do, as the words say.
fn finished_already(options: &LoadOptions, run: &LedgerRun, words: &str) -> Ended {
    tell!("{words}");
    if options.json {
        print_json(&summary::finished_before(run));
    }
    loaded(run.rejected)
}

fn loaded(rejected: u64) -> Ended {
    if rejected > 0 { Ended::LoadedWithRejects } else { Ended::Loaded }
}

/// Whether a run that is kept can only be closed: what it had committed is not what it was, or went with
/// its table.
fn ends_it(error: &Error) -> bool {
    use DestinationFailure::{Differs, Gone};
    matches!(error, Error::Destination { kind: Differs | Gone, .. })
}

fn failed(options: &LoadOptions, plan: &Plan, failure: &Failure) -> Ended {
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
            "  its {} were published; `fullbore runs resume {run}` completes the remaining steps",
            counted(outcome.rows, "row")
        );
    } else if *is_kept && !is_taken {
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
            true => format!(
                "`fullbore runs abort {run}` closes it (and --delete-rows deletes its rows)"
            ),
            false => format!("`fullbore runs abort {run}` rolls it back"),
        };
        match error {
            _ if ends_it(error) => tell!("  {kept}: the run can't be resumed; {closes}"),
            // The hint has said how it goes on.
            _ if error.hint().is_some_and(|hint| hint.contains("runs resume")) => {
                tell!("  {kept}; {closes}");
            }
            Error::Destination { kind: DestinationFailure::Changed, .. } => tell!(
                "  {kept}: `fullbore runs resume {run}` resumes the run once the change is undone, \
                 {closes}"
            ),
            _ if is_published.is_none() => tell!(
                "  {kept}; it is unknown whether they were published: `fullbore runs resume {run}` \
                 checks and continues"
            ),
            _ => tell!("  {kept}: `fullbore runs resume {run}` resumes it, {closes}"),
        }
    } else {
        for name in left_behind {
            tell!("  could not clean up, drop manually: {name}");
        }
        let is_unsure = outcome.is_unsure && outcome.tables.iter().any(|t| t.kept_on_failure);
        if is_unsure && !plan.continuity.is_resumable {
            tell!(
                "  a connection was lost: without a ledger, it is unknown whether the rows of its \
                 piece were committed; check the table before you load again"
            );
        } else if matches!(error, Error::Interrupted) && *rows_kept == 0 {
            tell!("  nothing was committed, and nothing is kept: load again");
        }
    }
    if *rows_kept > 0 && !ends_it(error) {
        // Of a piece whose commit was not heard of only a ledger knows.
        let is_least = !plan.continuity.is_resumable && outcome.is_unsure;
        tell!(
            "  {}{} rows of committed pieces stay in the table (plain append is not atomic; see --atomic)",
            if is_least { "at least " } else { "" },
            grouped(*rows_kept)
        );
        if !plan.continuity.is_resumable {
            tell!(
                "  this run can't be resumed ({}): loading the files again would duplicate these \
                 rows",
                plan.continuity.reason
            );
        }
    }
    if options.json {
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
