//! Plans and loads a job.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fullbore_databases::Database;
use fullbore_load::job::Job;
use fullbore_load::plan::{Completion, Continuity, Plan, Planned};
use fullbore_load::run::{self, Failure, Outcome};
use fullbore_postgres::ledger::Ledger;
use fullbore_postgres::ledger::runs::{LedgerRun, State};
use fullbore_postgres::{Attended, Postgres, PostgresTable};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::{Listener, Recorder, claim};

use crate::check::check_alone;
use crate::destinations::{Destinations, RunSink};
use crate::ended::{Ended, RunBefore};
use crate::error_json::ErrorDetails;
use crate::json_summary::{self, JsonSummary};
use crate::ledger_state::{Decision, LedgerState};
use crate::plan_json::JsonPlan;
use crate::unfinished::Ask;
use crate::{
    assemble, ceilings, databases, destinations, here, ordered, part, plan_view, remains, saved,
    sources, tuned,
};

/// What is asked of a load besides its job.
#[derive(Debug, Default)]
pub struct LoadOptions {
    pub resume: bool,
    /// The run to resume, where one is named.
    pub run: Option<String>,
    /// Where rejected rows are written.
    pub reject_dir: PathBuf,
    /// Ceilings to compare with, where a file of them is named.
    pub ceilings: Option<PathBuf>,
    /// The load that a part belongs to, where its driver has said so: a host that was taken for dead must not
    /// begin the next one.
    pub whole: Option<String>,
    /// Whoever works on the part is ended: its driver takes that host for dead.
    pub take_over: bool,
    /// Once it is set, the run stops, and keeps what is committed.
    pub interrupted: Arc<AtomicBool>,
}

/// Who is told of a load while it goes on.
pub trait Audience {
    /// Something is not as it should be.
    fn warn(&self, words: &str);
    /// Something should be known, and perhaps done.
    fn note(&self, words: &str, hint: Option<&str>);
    /// The plan is made. Returns who hears of the run's events.
    fn planned(&self, plan: &Plan) -> Option<Listener>;
    /// Rows are about to move; an error stops the load before they do.
    fn begins(&self, plan: &Plan, is_server: bool) -> Result<()>;
}

/// What became of a load.
pub enum Loaded {
    Finished {
        plan: Arc<Plan>,
        outcome: Box<Outcome>,
        /// Where tables that were replaced are kept.
        kept: Vec<String>,
        /// The parts of the load that were not loaded when this one was.
        waits_for: Vec<String>,
    },
    /// There was nothing to do, as the words say.
    Before {
        run: RunBefore,
        words: String,
    },
    Failed {
        plan: Arc<Plan>,
        failure: Box<Failure>,
    },
}

impl Loaded {
    /// Of which kind it is, as the command's exit code.
    pub fn ended(&self) -> Ended {
        let rejected = match self {
            Self::Finished { outcome, .. } => outcome.rejected,
            Self::Before { run, .. } => run.rejected,
            Self::Failed { failure, .. } => {
                return match &failure.error {
                    _ if failure.is_kept || failure.rows_kept > 0 => Ended::Stopped,
                    Error::Interrupted => Ended::Stopped,
                    Error::Usage { .. } => Ended::Usage,
                    Error::Destination { kind: DestinationFailure::Refused, .. } => Ended::Usage,
                    _ => Ended::Failed,
                };
            }
        };
        if rejected > 0 { Ended::LoadedWithRejects } else { Ended::Loaded }
    }

    /// The same as data.
    pub fn json(&self) -> serde_json::Value {
        let summary = match self {
            Self::Finished { plan, outcome, kept, waits_for } => {
                let mut summary = JsonSummary::of(plan, outcome, None);
                summary.kept.clone_from(kept);
                summary.waits_for.clone_from(waits_for);
                summary
            }
            Self::Before { run, .. } => return json_summary::finished_before(run),
            Self::Failed { plan, failure } => {
                let error = Some(failure.error.to_string());
                let mut summary = JsonSummary::of(plan, &failure.outcome, error);
                summary.error_details = Some(ErrorDetails::of(&failure.error));
                summary.resumable = remains::is_resumable(plan, failure);
                summary
            }
        };
        serde_json::to_value(summary).expect("plain data becomes JSON")
    }

    /// What is left of a load that failed, and what can be done with it: a line each.
    pub fn remains(&self) -> Vec<String> {
        match self {
            Self::Failed { plan, failure } => remains::lines(plan, failure),
            Self::Finished { .. } | Self::Before { .. } => Vec::new(),
        }
    }
}

/// Plans a job; nothing is touched.
pub fn plan(job: &Job, options: &LoadOptions, audience: &dyn Audience) -> Result<JsonPlan> {
    check_alone(job)?;
    let opened = sources::open(job)?;
    let job = &opened.job;
    let to = Destinations::open(job, &|warning| audience.warn(warning))?;
    if let Destinations::Database(database) = &to {
        return plan_database(job, database, options);
    }
    let ask = Ask { resume: options.resume, run: None, loads: false };
    let mut state = LedgerState::ask(job, to.server(), options.resume)?;
    if let Some(server) = to.server() {
        state.look(server, ask)?;
    }
    state.check_own(to.server(), options.resume)?;
    let job = state.settle(job, to.server(), ask)?;
    let decision = state.decide(&job, options.resume, options.run.is_some())?;
    if let Decision::Finished(_, words) = decision {
        return Ok(JsonPlan::nothing_to_do(words));
    }
    let planned = planned(&job, &to, options, &mut state, &decision)?;
    let text = plan_view::render(&planned.plan, &planned.statements);
    Ok(JsonPlan::of(&planned.plan, text, &planned.statements))
}

/// The statement that creates the first table of a job as its files are; `None` where the table is there.
pub fn creation(
    job: &Job,
    options: &LoadOptions,
    audience: &dyn Audience,
) -> Result<Option<String>> {
    check_alone(job)?;
    let to = Destinations::open(job, &|warning| audience.warn(warning))?;
    let mut state = LedgerState::ask(job, to.server(), false)?;
    let begin = Decision::Begin { notes: Vec::new() };
    let planned = planned(job, &to, options, &mut state, &begin)?;
    Ok(planned.statements.into_iter().next().flatten())
}

fn plan_database(job: &Job, database: &Database, options: &LoadOptions) -> Result<JsonPlan> {
    match databases::decide(job, database, options)? {
        databases::Decision::Finished(_, words) => Ok(JsonPlan::nothing_to_do(words)),
        databases::Decision::Run(decided) => {
            let (planned, _) = databases::planned(*decided, database, options)?;
            let text = plan_view::render(&planned.plan, &planned.statements);
            Ok(JsonPlan::of(&planned.plan, text, &planned.statements))
        }
    }
}

/// The plan of a new run, or of one that goes on.
pub(crate) fn planned(
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
    let part = part::part_of(job, to.server(), state, recorded, draft.targets())?;
    part::check_whole(part.as_ref(), options.whole.as_deref())?;
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
    notes.extend(ordered::notes(job, draft.plan()));
    let ceilings = ceilings::of(job, to.server(), draft.plan(), options.ceilings.as_deref())?;
    let mut planned = draft.finish(Completion {
        continuity: Continuity { resumes: recorded.is_some(), part, ..state.continuity.clone() },
        ceilings,
        destination: destinations::words(job, to.server()),
        notes,
    });
    tuned::recall(job, to.server(), &mut planned.plan)?;
    Ok(planned)
}

/// Loads a job, from the beginning or from where a run of it stopped.
///
/// An error is a refusal before anything was touched; what fails later is [`Loaded::Failed`].
pub fn load(job: &Job, options: &LoadOptions, audience: &dyn Audience) -> Result<Loaded> {
    check_alone(job)?;
    if ordered::is_asked(job) {
        return ordered::load(job, options, audience);
    }
    let opened = sources::open(job)?;
    let job = &opened.job;
    let to = Destinations::open(job, &|warning| audience.warn(warning))?;
    if let Destinations::Database(database) = to {
        return load_database(job, database, options, audience);
    }
    let uses_default = !job.no_ledger && job.ledger_schema.is_none();
    if let Some(server) = to.server().filter(|_| uses_default)
        && let Some(words) = server.move_old_ledger()?
    {
        audience.note(&words, None);
    }
    let ask = Ask { resume: options.resume, run: options.run.as_deref(), loads: true };
    let mut state = LedgerState::ask(job, to.server(), options.resume)?;
    let mut cleared = None;
    if let Some(server) = to.server().filter(|_| state.continuity.is_resumable) {
        // Before looking: what is found stays so while we have the lock.
        match options.take_over {
            true => server.take_job_over(&state.job)?,
            false => server.lock_job(&state.job)?,
        }
        state.look(server, ask)?;
        state.check_own(Some(server), options.resume)?;
        if let (Some(words), Some(run)) = (state.end_gone(server, ask)?, &state.earlier) {
            return Ok(Loaded::Before { run: RunBefore::of(run), words });
        }
        let is_ours = |run: &LedgerRun| server.check_own(run).is_ok();
        // So did one that has only begun to publish what others staged.
        let is_left = |run: &mut LedgerRun| {
            let has_ended = match run.state {
                State::Preparing => true,
                State::Loading | State::Aborting => job.write.is_some(),
                _ => false,
            };
            has_ended && is_ours(run)
        };
        if let Some(run) = state.earlier.take_if(is_left) {
            // It ended before its first row.
            server.take_back(&state.schema, &run)?;
            cleared = Some(run);
        }
    }
    if let Some(hint) = state.unkept.as_deref() {
        let reason = &state.continuity.reason;
        let words = format!(
            "no ledger is kept, so this load can't be resumed, and its outcome is unknown if the \
             server's last reply is lost: {reason}"
        );
        audience.note(&words, Some(hint));
    }
    if let Some(wanted) = &options.run {
        check_named(wanted, state.earlier.as_ref().or(cleared.as_ref()))?;
    }
    let settled = &state.settle(job, to.server(), ask)?;
    let decision = state.decide(settled, options.resume, options.run.is_some())?;
    if let Decision::Finished(run, words) = decision {
        return Ok(Loaded::Before { run: RunBefore::of(&run), words: words.trim().to_owned() });
    }
    let Planned { plan, targets, statements } =
        planned(settled, &to, options, &mut state, &decision)?;
    let way = saved::Way::to_server(to.server());
    let ready = Ready::new(plan, settled, way, &statements, options, audience)?;
    if let Some(server) = to.server().filter(|_| !ready.plan.continuity.resumes) {
        here::note(&ready.plan, server, &targets)?;
    }
    let ledger = ready.plan.continuity.is_resumable.then(|| {
        let ledger = Ledger::new(&state.schema, &state.job, &ready.plan.run_id);
        ledger.of_a_part(ready.plan.continuity.part.is_some())
    });
    let attended = Attended {
        recorder: ready.recorder.clone(),
        interrupted: options.interrupted.clone(),
        patience: ready.plan.continuity.patience,
    };
    let sink = to.into_sink(targets, ledger, Some(attended));
    ready.run(settled, &sink, options, audience)
}

fn load_database(
    job: &Job,
    database: Arc<Database>,
    options: &LoadOptions,
    audience: &dyn Audience,
) -> Result<Loaded> {
    let decided = match databases::decide(job, &database, options)? {
        databases::Decision::Finished(run, words) => return Ok(Loaded::Before { run, words }),
        databases::Decision::Run(decided) => decided,
    };
    let (mut planned, settled) = databases::planned(*decided, &database, options)?;
    tuned::recall(&settled, None, &mut planned.plan)?;
    let way = saved::Way::to_database(&database);
    let sink = RunSink::Database(databases::sink(database, &planned, &settled)?);
    let Planned { plan, statements, .. } = planned;
    let ready = Ready::new(plan, &settled, way, &statements, options, audience)?;
    ready.run(&settled, &sink, options, audience)
}

/// A run that is about to begin: it has its folder, and its record is open.
pub(crate) struct Ready {
    pub plan: Arc<Plan>,
    pub recorder: Arc<Recorder>,
}

impl Ready {
    pub fn new(
        plan: Plan,
        job: &Job,
        way: saved::Way,
        statements: &[Option<String>],
        options: &LoadOptions,
        audience: &dyn Audience,
    ) -> Result<Self> {
        for note in plan.tables.iter().flat_map(|table| &table.notes) {
            audience.note(note, None);
        }
        if !plan.continuity.resumes {
            claim(&plan.run_dir)?;
        }
        if plan.continuity.is_resumable && !plan.continuity.resumes {
            saved::save(&plan, job, way, &options.reject_dir)?;
        }
        let listener = audience.planned(&plan);
        let recorder = match plan.continuity.resumes {
            true => Recorder::append(&plan.run_dir, listener)?,
            false => Recorder::create(&plan.run_dir, listener)?,
        };
        for line in plan_view::render(&plan, statements).lines() {
            tracing::debug!("plan: {line}");
        }
        Ok(Self { plan: Arc::new(plan), recorder: Arc::new(recorder) })
    }

    fn run(
        self,
        job: &Job,
        sink: &RunSink,
        options: &LoadOptions,
        audience: &dyn Audience,
    ) -> Result<Loaded> {
        let Self { plan, recorder } = self;
        audience.begins(&plan, sink.postgres().is_some())?;
        let result = run::run(&plan, sink.as_sink(), &recorder, &options.interrupted);
        let outcome = result.as_ref().unwrap_or_else(|failure| &failure.outcome);
        let server = sink.postgres().map(|postgres| postgres.server().as_ref());
        tuned::keep(job, server, &plan, outcome.tuned);
        match result {
            Ok(outcome) => finished(plan, outcome, sink),
            Err(failure) => Ok(Loaded::Failed { plan, failure }),
        }
    }
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

fn finished(plan: Arc<Plan>, outcome: Outcome, sink: &RunSink) -> Result<Loaded> {
    let targets = sink.postgres().map_or(&[][..], Postgres::targets);
    let kept = targets.iter().filter_map(|target| target.kept(&plan.run_id).transpose());
    let kept = kept.map(|name| name.map(|name| name.to_string())).collect::<Result<_>>()?;
    let waits_for = sink.postgres().map(Postgres::waits_for).unwrap_or_default();
    Ok(Loaded::Finished { plan, outcome: Box::new(outcome), kept, waits_for })
}
