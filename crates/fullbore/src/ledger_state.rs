//! Reads the ledger before a load: whether runs of the job can be resumed, whether one exists, and what to
//! do.

use std::time::Duration;

use fullbore_load::constants::{LOCK_TIMEOUT_DEFAULT_MS, RETRY_FOR_DEFAULT_S};
use fullbore_load::job::{IfLoaded, Job};
use fullbore_load::plan::Continuity;
use fullbore_load::plan::recorded::{Recorded, RecordedFile};
use fullbore_pgwire::quote_identifier;
use fullbore_postgres::Server;
use fullbore_postgres::ledger::SCHEMA_DEFAULT;
use fullbore_postgres::ledger::runs::{LedgerRun, LedgerTable, State, Which};
use fullbore_postgres::ledger::schema::Availability;
use fullbore_postgres::ledger::shown::Now;
use fullbore_read::discover::{found_in, read_once};
use fullbore_read::error::{Error, Result};
use fullbore_report::words::grouped;

use crate::unfinished::Ask;

/// Where a job stands before it is loaded.
pub struct LedgerState {
    /// The ledger's schema, quoted.
    pub schema: String,
    /// The job's hash.
    pub job: String,
    pub continuity: Continuity,
    /// The run of this job that was begun last into the tables that it names, if the ledger knows any.
    pub earlier: Option<LedgerRun>,
    /// What has become of the tables that it has shown its rows in.
    pub became: Now,
    /// What should be known of other runs.
    pub notes: Vec<String>,
    /// All files of the job are in its tables already; the last of the runs that loaded them.
    pub done: Option<LedgerRun>,
    /// The option that asks for a run that can be resumed, where one does.
    asked: &'static str,
    /// What to do about it where the server, rather than the user or the job, is why no ledger is kept.
    pub unkept: Option<String>,
}

/// What is to be done.
pub enum Decision {
    /// Load from the beginning; what should be known before.
    Begin { notes: Vec<String> },
    /// Go on with a run.
    Resume(Box<LedgerRun>),
    /// It was done before, as the words say.
    Finished(Box<LedgerRun>, String),
}

impl LedgerState {
    /// Asks files and server; nothing is touched. `resume`: it is asked for.
    pub fn ask(job: &Job, server: Option<&Server>, resume: bool) -> Result<Self> {
        let named = job.ledger_schema.as_deref();
        let bare = match server {
            Some(server) => server.ledger_schema(named)?,
            None => named.unwrap_or(SCHEMA_DEFAULT).to_owned(),
        };
        let schema = quote_identifier(&bare)
            .map_err(|error| Error::usage(format!("--ledger-schema: {error}")))?;
        let patience = Duration::from_secs(job.retry_for.unwrap_or(RETRY_FOR_DEFAULT_S));
        // Parts of a load are joined by the ledger.
        let is_resumed = resume;
        let resume = resume || job.part.is_some() || job.write.is_some();
        let mut state = Self {
            schema,
            job: job.identity()?,
            continuity: Continuity {
                keeps: resume,
                patience,
                pause_when: job.pause_when,
                lock_timeout: lock_timeout(job),
                other_writers: job.other_writers(),
                staged: job.write.as_ref().map_or_else(Vec::new, |write| write.staged.clone()),
                write: job.write.as_ref().map(|write| write.id.clone()),
                ..Continuity::default()
            },
            earlier: None,
            became: Now::Same,
            notes: Vec::new(),
            done: None,
            asked: if is_resumed { "--resume" } else { "--part" },
            unkept: None,
        };
        if let Some(limits) = &job.pause_when {
            match server {
                Some(server) => server.check_limits(limits)?,
                None => {
                    return Err(Error::usage_with_hint(
                        "--pause-when needs a PostgreSQL server",
                        "omit it, or set a server with --to URL",
                    ));
                }
            }
        }
        let Some(server) = server else {
            state.refuse("the destination keeps no ledger", None, resume)?;
            return Ok(state);
        };
        // Not even the ledger can be read on a standby: its tables may be unlogged.
        server.check_writable()?;
        if let Some((reason, hint, is_servers)) = obstacle(job, server, &bare)? {
            if let Some(IfLoaded::Fail | IfLoaded::Skip) = job.if_loaded {
                return Err(Error::Usage {
                    message: format!("--if-loaded needs a ledger, but none can be kept: {reason}"),
                    hint: Some(hint),
                });
            }
            state.unkept = is_servers.then(|| hint.clone());
            state.continuity.is_unkept = is_servers;
            state.refuse(&reason, Some(hint), resume)?;
            return Ok(state);
        }
        state.continuity.is_resumable = true;
        Ok(state)
    }

    /// Not resumable: a refusal where that is asked for.
    pub fn refuse(&mut self, reason: &str, hint: Option<String>, resume: bool) -> Result<()> {
        if resume {
            return Err(Error::Usage { message: format!("{}: {reason}", self.asked), hint });
        }
        self.continuity.is_resumable = false;
        self.continuity.reason = reason.to_owned();
        Ok(())
    }

    /// Looks for the run that was begun last into these tables, or the one that is named, and what has
    /// become of them.
    pub fn look(&mut self, server: &Server, ask: Ask<'_>) -> Result<()> {
        if self.continuity.is_resumable {
            let runs = server.ledger_runs(&self.schema, &Which::OfJob(&self.job))?;
            self.earlier = server.last_into(runs)?;
            let is_other = |run: &&str| self.earlier.as_ref().is_none_or(|e| *e.run_id != **run);
            if let Some(named) = ask.run.filter(is_other) {
                // Its job may be spelled otherwise than the one that is kept of it.
                let found = server.ledger_runs(&self.schema, &Which::Run(named))?;
                if let Some(run) = server.last_into(found)?.filter(|run| run.job != self.job) {
                    self.adopt(&run, server, ask.loads)?;
                }
            }
        }
        if let Some(run) = self.earlier.as_ref().filter(|run| run.state.is_shown()) {
            self.became = server.became_of(run)?;
        }
        Ok(())
    }

    /// Ends an earlier run whose rows were shown in a table that is gone since: nothing is left to do for
    /// it. What is to be said where it is the run that was named.
    pub fn end_gone(&mut self, server: &Server, ask: Ask<'_>) -> Result<Option<String>> {
        let (Now::Gone(table) | Now::Anew(table)) = &self.became else { return Ok(None) };
        let Some(run) = &mut self.earlier else { return Ok(None) };
        if run.state != State::Published || server.check_own(run).is_err() {
            return Ok(None);
        }
        server.end_published(&self.schema, run)?;
        run.state = State::Finished;
        let named = ask.run.filter(|named| *run.run_id == **named);
        Ok(named.map(|_| {
            format!(
                "run {} published its rows ({}) in {table}, which was dropped afterwards: the run \
                 is closed",
                run.run_id,
                grouped(run.rows_committed)
            )
        }))
    }

    /// Refuses to go on with a run of another role.
    pub fn check_own(&self, server: Option<&Server>, resume: bool) -> Result<()> {
        match (server, &self.earlier) {
            (Some(server), Some(earlier)) if resume => server.check_own(earlier),
            _ => Ok(()),
        }
    }

    /// What is to be done, `resume` being asked for or not; of a run that is `named`, and has ended, nothing.
    pub fn decide(&self, job: &Job, resume: bool, named: bool) -> Result<Decision> {
        if let Some(run) = &self.done {
            let notes = self.notes.join("\n");
            let words = format!("{notes}\nall files are already loaded: there is nothing to do\n");
            return Ok(Decision::Finished(Box::new(run.clone()), words));
        }
        let begin = || Decision::Begin { notes: self.notes.clone() };
        let Some(earlier) = &self.earlier else { return Ok(begin()) };
        let run = &earlier.run_id;
        if job.write.is_some() {
            // Whatever it staged it had from the same tasks.
            return Ok(match earlier.state.is_shown() {
                true => Decision::Finished(Box::new(earlier.clone()), finished_before(earlier)),
                false => begin(),
            });
        }
        if !resume {
            let of_part = job.part.and_then(|_| unfinished_note(earlier));
            return Ok(Decision::Begin {
                notes: self.notes.iter().cloned().chain(of_part).collect(),
            });
        }
        match earlier.state {
            State::Finished if named => {
                let words = format!(
                    "run {run} has already loaded its files ({} rows, started {}): there is nothing to do\n",
                    grouped(earlier.rows_committed),
                    earlier.started.for_people()
                );
                return Ok(Decision::Finished(Box::new(earlier.clone()), words));
            }
            State::Undone if named => {
                return Err(Error::usage_with_hint(
                    format!("run {run} was rolled back: there is nothing to resume"),
                    "load again with `fullbore load`",
                ));
            }
            _ => {}
        }
        let change = source_change(job, &earlier.recorded());
        Ok(match (earlier.state, change) {
            (State::Preparing | State::Undone, _) => begin(),
            (State::Aborting, _) => {
                return Err(Error::usage_with_hint(
                    format!("run {run} of this job is being rolled back"),
                    format!("finish the rollback first: fullbore runs abort {run}"),
                ));
            }
            (State::Finished | State::Published, None) if self.became != Now::Same => {
                not_there(run, &self.became)?
            }
            (State::Finished, None) if job.if_loaded == Some(IfLoaded::Again) => begin(),
            (State::Finished, None) => {
                Decision::Finished(Box::new(earlier.clone()), finished_before(earlier))
            }
            // What is shown needs its sources no more.
            (State::Finished | State::Published, Some(_)) if !self.notes.is_empty() => begin(),
            (State::Finished | State::Published, Some(change)) => Decision::Begin {
                notes: vec![format!(
                    "run {run} of this job finished with different sources ({change}); this is a \
                     new run of all sources"
                )],
            },
            (State::Loading | State::Published, None) => {
                Decision::Resume(Box::new(earlier.clone()))
            }
            (State::Loading, Some(change)) => {
                let why = format!("its sources changed: {change}");
                return Err(earlier.recorded().refusal(&why));
            }
        })
    }
}

/// How long one attempt waits for locks.
fn lock_timeout(job: &Job) -> Duration {
    let default = Duration::from_millis(LOCK_TIMEOUT_DEFAULT_MS);
    job.lock_timeout.map_or(default, |timeout| timeout.0)
}

/// What is to be done where a run has shown its rows in a table that is not there any more.
fn not_there(run: &str, became: &Now) -> Result<Decision> {
    match became {
        Now::Gone(table) => Ok(Decision::Begin {
            notes: vec![format!(
                "run {run} of this job loaded the same files into {table}, which no longer exists; \
                 this is a new run"
            )],
        }),
        Now::Anew(table) => Err(Error::usage_with_hint(
            format!(
                "{table} was dropped and created again since run {run} of this job loaded the same \
                 files into it: it is unknown whether the table has their rows"
            ),
            "omit --resume to load the files into it",
        )),
        Now::Same | Now::Other => Ok(Decision::Begin { notes: Vec::new() }),
    }
}

fn unfinished_note(earlier: &LedgerRun) -> Option<String> {
    let run = &earlier.run_id;
    (earlier.state.is_unfinished()).then(|| {
        format!(
            "run {run} of this job has not finished, and {} of its pieces are committed; this is a \
             new run (--resume resumes {run}, `fullbore runs abort {run}` rolls it back)",
            earlier.pieces_committed
        )
    })
}

/// How the job's files differ from those that a run was begun with.
pub fn source_change(job: &Job, recorded: &Recorded) -> Option<String> {
    for (number, table) in job.tables.iter().enumerate() {
        let mut files = Vec::new();
        for source in &table.sources {
            match found_in(source, &job.store) {
                Ok(found) => files.extend(found.iter().map(RecordedFile::of)),
                Err(error) => return Some(error.to_string()),
            }
        }
        if let Some(change) = recorded.source_change(number, &files) {
            return Some(change);
        }
    }
    None
}

/// Why no ledger is kept, what to do about it, and whether it is the server that keeps none.
fn obstacle(job: &Job, server: &Server, schema: &str) -> Result<Option<(String, String, bool)>> {
    if job.no_ledger {
        let reason = "--no-ledger disables the ledger".to_owned();
        return Ok(Some((reason, "omit --no-ledger".into(), false)));
    }
    for source in job.tables.iter().flat_map(|table| &table.sources) {
        // What is not there is told by those who want it: a run to go on with, or a new one.
        if let Ok(Some(file)) = read_once(source) {
            return Ok(Some((
                format!("{} can be read only once", file.path.display()),
                "write it to a file first".into(),
                false,
            )));
        }
    }
    Ok(match server.ledger_availability(schema)? {
        Availability::Present | Availability::Absent => None,
        Availability::Refused { reason, hint } => Some((reason, hint, true)),
    })
}

/// What is said where there is nothing left to load.
fn finished_before(run: &LedgerRun) -> String {
    let is_append = |table: &LedgerTable| table.publish.joins_rows();
    let again = match run.tables.iter().any(is_append) {
        true => "--if-loaded again loads them again",
        false => "omit --resume to load them again",
    };
    format!(
        "run {} of this job already loaded the same files ({} rows, started {}): there is nothing \
         to do; {again}\n",
        run.run_id,
        grouped(run.rows_committed),
        run.started.for_people()
    )
}
