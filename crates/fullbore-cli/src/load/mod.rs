//! `fullbore load` and `fullbore plan`.

mod args;
mod engine;
pub mod job;
pub mod options;
pub mod signals;

use std::cell::RefCell;

use fullbore::check::refuse_given;
use fullbore::{Audience, Ended, Loaded};
use fullbore_load::job::Job;
use fullbore_load::plan::Plan;
use fullbore_read::error::{Error, Result};
use fullbore_record::Listener;
use fullbore_report::live::Live;

use crate::words::{complain, print_json, warn};
use crate::{log_file, progress, summary, watch};
pub use args::LoadArgs;
use job::job_of;
use options::Reporting;
use signals::{listen_for_signals, say_at_once};

pub fn run(args: &LoadArgs) -> Ended {
    if args.dry_run {
        return plan(args);
    }
    let reporting = Reporting::of(args);
    let loaded =
        job_of(args).and_then(|job| load_anywhere(&job, &options::load_options(args), &reporting));
    loaded.unwrap_or_else(|error| fail(&reporting, &error))
}

pub fn plan(args: &LoadArgs) -> Ended {
    let reporting = Reporting::of(args);
    let job = match check_planned(args).and_then(|()| job_of(args)) {
        Ok(job) => job,
        Err(error) => return fail(&reporting, &error),
    };
    let options = options::load_options(args);
    if job.on.is_some() {
        return engine::load(&job, &options, &reporting, engine::Asked::Plan)
            .unwrap_or_else(|error| fail(&reporting, &error));
    }
    match fullbore::plan(&job, &options, &Terminal::of(&reporting)) {
        Ok(plan) => {
            match reporting.json {
                true => print_json(&plan),
                false => answer!("{}", plan.text().trim_end()),
            }
            Ended::Loaded
        }
        Err(error) => fail(&reporting, &error),
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
pub fn fail(reporting: &Reporting, error: &Error) -> Ended {
    tracing::error!("refused: {error}");
    complain(&error.to_string(), error.hint());
    if reporting.json {
        print_json(&fullbore::refusal(error));
    }
    Ended::Usage
}

/// Loads a job, on this machine or where it is to run, and prints what becomes of it.
pub fn load_anywhere(
    job: &Job,
    options: &fullbore::LoadOptions,
    reporting: &Reporting,
) -> Result<Ended> {
    match job.on.is_some() {
        true => {
            let given = [(options.ceilings.is_some(), "--ceilings")];
            refuse_given(&given, "is for a load by one host, not for --on", "")?;
            engine::load(job, options, reporting, engine::Asked::Load)
        }
        false => load(job, options, reporting),
    }
}

fn load(job: &Job, options: &fullbore::LoadOptions, reporting: &Reporting) -> Result<Ended> {
    if let Some(path) = &reporting.log_file {
        log_file::open(path)?;
    }
    let terminal = Terminal::of(reporting);
    let loaded = fullbore::load(job, options, &terminal);
    terminal.live.take().into_iter().for_each(Live::finish);
    let loaded = loaded?;
    match &loaded {
        Loaded::Finished { plan, outcome, kept, waits_for } if !reporting.quiet => {
            summary::print(&summary::About::of(plan, outcome), outcome);
            summary::print_kept(plan, kept);
            summary::print_waits(plan, waits_for);
        }
        Loaded::Finished { .. } => {}
        Loaded::Before { words, .. } => tell!("{words}"),
        Loaded::Failed { failure, .. } => {
            complain(&failure.error.to_string(), failure.error.hint());
            loaded.remains().iter().for_each(|line| tell!("  {line}"));
        }
    }
    if reporting.json {
        print_json(&loaded.json());
    }
    Ok(loaded.ended())
}

/// Tells people at a terminal.
struct Terminal<'a> {
    reporting: &'a Reporting,
    live: RefCell<Option<Live>>,
}

impl<'a> Terminal<'a> {
    fn of(reporting: &'a Reporting) -> Self {
        Self { reporting, live: RefCell::default() }
    }
}

impl Audience for Terminal<'_> {
    fn warn(&self, words: &str) {
        warn(words);
    }

    fn note(&self, words: &str, hint: Option<&str>) {
        if self.reporting.quiet {
            return;
        }
        tell!("note: {words}");
        if let Some(hint) = hint {
            tell!("  hint: {hint}");
        }
    }

    fn planned(&self, plan: &Plan) -> Option<Listener> {
        let expected: Vec<_> =
            plan.tables.iter().map(|table| (table.name.clone(), table.bytes)).collect();
        progress::listener(&expected, self.reporting.quiet || self.reporting.json)
    }

    fn begins(&self, plan: &Plan, is_server: bool) -> Result<()> {
        if let Some(at) = &self.reporting.live {
            // A load in order has two runs, one after the other.
            self.live.take().into_iter().for_each(Live::finish);
            self.live.replace(Some(watch::open(at, &plan.run_dir)?));
        }
        say_at_once(&last_words(plan, is_server));
        listen_for_signals();
        Ok(())
    }
}

/// What is said where a second signal leaves no time to look.
fn last_words(plan: &Plan, is_server: bool) -> String {
    let run = &plan.run_id;
    match (plan.continuity.is_resumable, is_server) {
        (true, _) => format!(
            "the server rolls back pieces in progress and keeps committed ones: `fullbore runs \
             resume {run}` resumes the run, `fullbore runs abort {run}` closes it"
        ),
        (false, true) => format!(
            "the server rolls back pieces in progress; run {run} can't be resumed: before you load \
             again, check the rows in the table and look for tables named ..._fb_{run}_..."
        ),
        (false, false) => format!("run {run} did not finish; its output is incomplete"),
    }
}
