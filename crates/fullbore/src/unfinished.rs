//! Unfinished runs into a job's tables, one of which the job may mean, however it is spelled.

use std::collections::BTreeMap;

use fullbore_load::job::{IfLoaded, Job};
use fullbore_postgres::Server;
use fullbore_postgres::ledger::runs::{LedgerRun, LedgerTable, State, Which};
use fullbore_postgres::ledger::shown::Now;
use fullbore_read::content::Same;
use fullbore_read::error::{Error, Result};
use fullbore_record::terms::Publish;
use fullbore_report::words::{counted, grouped};

use crate::here;
use crate::ledger_state::{LedgerState, source_change};
use crate::tables::{File, Table};

/// Differences that are listed.
const LISTED_MAX: usize = 8;

/// How a job is to be begun.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    pub resume: bool,
    /// The run to resume, where one is named.
    pub run: Option<&'a str>,
    /// The run is to be loaded, not only planned.
    pub loads: bool,
}

/// A job held against a run.
struct Compared {
    /// How it differs, item by item.
    differences: Vec<String>,
    /// Some of the run's files are among the job's.
    shares_files: bool,
    /// One of the run's files is no longer what it was: it can't be resumed in any way.
    has_changed_file: bool,
    /// By table, which of the job's files stand for the run's, in their order.
    orders: Vec<Vec<usize>>,
}

/// Holds a job against a run; `named`: files that the run does not have are none of it.
fn compare(job: &Job, tables: &mut [Table], run: &LedgerRun, named: bool) -> Result<Compared> {
    let mut compared = Compared {
        differences: Vec::new(),
        shares_files: false,
        has_changed_file: false,
        orders: Vec::new(),
    };
    let differences = &mut compared.differences;
    if run.tables.len() != tables.len() {
        let (then, now) = (run.tables.len() as u64, tables.len() as u64);
        let loads = counted(then, "table");
        differences.push(format!("the run loads into {loads}, the job into {now}"));
    }
    for (number, then) in run.tables.iter().enumerate() {
        let Some(table) = tables.get_mut(number) else { break };
        if !table.is_of(then) {
            differences
                .push(format!("the run loads into {}, not into {}", then.target, table.name));
        }
        let asked = &job.tables[number];
        if asked.publish != then.publish {
            let (then, now) = (then.publish.name(), asked.publish.name());
            differences.push(format!("--publish was {then}, is {now}"));
        }
        if let Some(then) = &then.plan.asked {
            differences.extend(options(then, &asked.asked(), asked.create));
        }
        let mut order = Vec::new();
        for file in &then.plan.files {
            let place = table.files.iter().position(|now| file.is_at(&now.recorded));
            let Some(place) = place else {
                let mut copy = None;
                for now in &mut table.files {
                    if now.compare(file)? != Same::No {
                        copy = Some(now.recorded.path.clone());
                        break;
                    }
                }
                compared.shares_files |= copy.is_some();
                differences.push(match copy {
                    Some(copy) => format!("{} is now {copy}, with the same contents", file.path),
                    None => format!("{} is not among the files", file.path),
                });
                continue;
            };
            compared.shares_files = true;
            let difference = file.difference(&table.files[place].recorded);
            compared.has_changed_file |= difference.is_some();
            differences.extend(difference);
            order.push(place);
        }
        let is_new = |(place, _): &(usize, &File)| !order.contains(place);
        for (_, file) in table.files.iter().enumerate().filter(is_new).filter(|_| !named) {
            differences.push(format!("{} was not among the files", file.recorded.path));
        }
        compared.orders.push(order);
    }
    // Of tables that stand at other places.
    if !compared.shares_files {
        let files = || run.tables.iter().flat_map(|table| &table.plan.files);
        let mut now = tables.iter().flat_map(|table| &table.files);
        compared.shares_files = now.any(|now| files().any(|then| then.is_at(&now.recorded)));
    }
    Ok(compared)
}

/// How options differ that decide what is loaded.
fn options(
    then: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
    creates: bool,
) -> Vec<String> {
    let mut names: Vec<&String> = then.keys().chain(now.keys()).collect();
    names.sort();
    names.dedup();
    // What a table is made by means nothing once it is there.
    names.retain(|name| {
        creates || !["--schema", "--type", "--partition-by"].contains(&name.as_str())
    });
    let words = |value: Option<&String>| value.map_or("not given".to_owned(), String::clone);
    names
        .into_iter()
        .filter(|name| then.get(*name) != now.get(*name))
        .map(|name| format!("{name} was {}, is {}", words(then.get(name)), words(now.get(name))))
        .collect()
}

fn listed(differences: &[String]) -> String {
    let mut words = differences[..differences.len().min(LISTED_MAX)].join("; ");
    if differences.len() > LISTED_MAX {
        words.push_str(&format!("; and {} more", differences.len() - LISTED_MAX));
    }
    words
}

/// Whether a run's rows come to those that are there.
fn joins(run: &LedgerRun) -> bool {
    run.tables.iter().any(|table| table.publish != Publish::Replace)
}

fn targets_of(run: &LedgerRun) -> String {
    let targets: Vec<String> = run.tables.iter().map(|table| table.target.to_string()).collect();
    targets.join(", ")
}

fn is_loading(run: &LedgerRun) -> Error {
    let targets = targets_of(run);
    Error::usage_with_hint(
        format!("run {} is loading some of the same files into {targets}", run.run_id),
        "wait until it ends; --if-loaded again loads them a second time",
    )
}

/// The ways out of an unfinished run.
fn ways_out(run: &LedgerRun, compared: &Compared) -> String {
    let run = &run.run_id;
    if compared.has_changed_file {
        return format!("`fullbore runs abort {run}` closes it; then load the remaining files");
    }
    format!(
        "`fullbore runs resume {run}` resumes it with its original options, `fullbore runs abort \
         {run}` closes it; then load the remaining files"
    )
}

impl LedgerState {
    /// Finds the run that the job means, and leaves out of the job what is loaded already; refuses where
    /// rows could be loaded twice.
    pub fn settle(&mut self, job: &Job, server: Option<&Server>, ask: Ask<'_>) -> Result<Job> {
        let is_alone = job.part.is_none() && job.write.is_none();
        let is_known = self.continuity.is_resumable && is_alone;
        let Some(server) = server.filter(|_| is_known) else { return Ok(job.clone()) };
        let may_be_done = matches!(job.if_loaded, None | Some(IfLoaded::Skip));
        if ask.resume && may_be_done && self.is_done(job) {
            return Ok(job.clone());
        }
        let Some(mut tables) = Table::all(job, server)? else { return Ok(job.clone()) };
        let runs = self.unfinished(server, &tables, ask)?;
        if ask.resume
            && let Some(job) = self.take_up(job, server, &mut tables, &runs, ask)?
        {
            return Ok(job);
        }
        let mut settled = job.clone();
        let is_less = self.leave_out(&mut settled, &mut tables, server, ask.resume)?;
        self.note_unended(server, &runs)?;
        if self.done.is_some() {
            return Ok(settled);
        }
        if ask.resume
            && is_less
            && let Some(job) = self.take_up(&settled, server, &mut tables, &runs, ask)?
        {
            return Ok(job);
        }
        for run in &runs {
            let compared = compare(&settled, &mut tables, run, false)?;
            self.heed(&settled, server, run, &compared, ask.resume)?;
        }
        if ask.resume && settled.if_loaded != Some(IfLoaded::Again) {
            for (asked, table) in settled.tables.iter().zip(&tables) {
                let Some(target) = table.target.as_ref().filter(|_| asked.publish.joins_rows())
                else {
                    continue;
                };
                let files = table.files.iter().map(|file| &file.recorded);
                here::check(server, &self.schema, target.oid, &target.name.to_string(), files)?;
            }
        }
        Ok(settled)
    }

    /// The job's last run has loaded the very same files.
    fn is_done(&self, job: &Job) -> bool {
        let last = self.earlier.as_ref().filter(|run| run.state.is_shown());
        last.is_some_and(|run| {
            self.became == Now::Same && source_change(job, &run.recorded()).is_none()
        })
    }

    /// Runs that have something left to do in the job's tables, the latest first.
    fn unfinished(
        &self,
        server: &Server,
        tables: &[Table],
        ask: Ask<'_>,
    ) -> Result<Vec<LedgerRun>> {
        if ask.run.is_some() {
            return Ok(self
                .earlier
                .iter()
                .filter(|run| run.state.is_unfinished())
                .cloned()
                .collect());
        }
        let mut runs = server.ledger_runs(&self.schema, &Which::Unfinished)?;
        runs.retain(|run| {
            let is_ours = |then: &LedgerTable| tables.iter().any(|table| table.is_of(then));
            run.tables.iter().any(is_ours)
        });
        // One that has not begun to load has nothing to resume; it counts where somebody works on it.
        let mut begun = Vec::new();
        for run in runs {
            if run.state != State::Preparing || self.is_at_work(server, &run)? {
                begun.push(run);
            } else if ask.loads {
                server.clear_unbegun(&self.schema, &run)?;
            }
        }
        let mut runs = begun;
        // Parts of a load are found by their numbers.
        runs.retain(|run| !matches!(server.part_of(&self.schema, &run.run_id), Ok(Some(_))));
        Ok(runs)
    }

    /// Says which runs have loaded all their rows and still have something left to do.
    fn note_unended(&mut self, server: &Server, runs: &[LedgerRun]) -> Result<()> {
        for run in runs.iter().filter(|run| run.state == State::Published) {
            if run.job != self.job && !server.is_job_locked(&run.job)? {
                let id = &run.run_id;
                self.notes.push(format!(
                    "run {id} published its rows but did not finish: `fullbore runs resume {id}` \
                     finishes it"
                ));
            }
        }
        Ok(())
    }

    /// Another process works on a run.
    fn is_at_work(&self, server: &Server, run: &LedgerRun) -> Result<bool> {
        Ok(run.job != self.job && server.is_job_locked(&run.job)?)
    }

    /// Refuses to go on with a run some of whose files another process is loading.
    fn refuse_loading(
        &self,
        job: &Job,
        tables: &mut [Table],
        server: &Server,
        run: &LedgerRun,
    ) -> Result<()> {
        if !job.tables.iter().any(|table| table.publish.joins_rows()) {
            return Ok(());
        }
        let all = Ask { resume: true, run: None, loads: false };
        for other in self.unfinished(server, tables, all)? {
            if other.run_id == run.run_id || !self.is_at_work(server, &other)? {
                continue;
            }
            if joins(&other) && compare(job, tables, &other, false)?.shares_files {
                return Err(is_loading(&other));
            }
        }
        Ok(())
    }

    /// Takes up the run that the job means, if there is one; the job as that run has it.
    fn take_up(
        &mut self,
        job: &Job,
        server: &Server,
        tables: &mut [Table],
        runs: &[LedgerRun],
        ask: Ask<'_>,
    ) -> Result<Option<Job>> {
        let may_go_on = |run: &&LedgerRun| matches!(run.state, State::Loading | State::Published);
        for run in runs.iter().filter(may_go_on) {
            let compared = compare(job, tables, run, ask.run.is_some())?;
            if !compared.differences.is_empty() {
                continue;
            }
            server.check_own(run)?;
            self.adopt(run, server, ask.loads)?;
            if run.state == State::Loading && job.if_loaded != Some(IfLoaded::Again) {
                self.refuse_loading(job, tables, server, run)?;
                self.refuse_loaded_meanwhile(job, tables, server, run)?;
            }
            let mut job = job.clone();
            for (number, order) in compared.orders.iter().enumerate() {
                let files = &tables[number].files;
                if !order.iter().copied().eq(0..files.len()) {
                    let paths: Result<_> = order.iter().map(|place| files[*place].path()).collect();
                    job.tables[number].sources = paths?;
                    job.tables[number].name = Some(tables[number].name.clone());
                }
            }
            return Ok(Some(job));
        }
        Ok(None)
    }

    /// Makes a run that is known by another spelling of its job the one that is gone on with.
    pub fn adopt(&mut self, run: &LedgerRun, server: &Server, lock: bool) -> Result<()> {
        let mut found = Some(run.clone());
        if run.job != self.job && lock {
            server.lock_job(&run.job)?;
            // It may have ended before we had its lock.
            let now = server.ledger_runs(&self.schema, &Which::Run(&run.run_id))?;
            found = now.into_iter().next().filter(|now| now.state == run.state);
        }
        let Some(run) = found else {
            return Err(Error::usage_with_hint(
                format!("run {} has just ended or was closed", run.run_id),
                "run the command again",
            ));
        };
        if run.state == State::Published {
            self.became = server.became_of(&run)?;
        }
        self.job = run.job.clone();
        self.earlier = Some(run);
        Ok(())
    }

    /// Refuses to load beside an unfinished run what would be there twice, and warns of it otherwise.
    fn heed(
        &mut self,
        job: &Job,
        server: &Server,
        run: &LedgerRun,
        compared: &Compared,
        resume: bool,
    ) -> Result<()> {
        let id = &run.run_id;
        let is_same_job = run.job == self.job;
        let shares = compared.shares_files;
        let again = job.if_loaded == Some(IfLoaded::Again);
        let is_asked_for = resume && (shares || is_same_job) && !again;
        if run.state == State::Published {
            if is_asked_for {
                return Err(Error::usage_with_hint(
                    format!(
                        "run {id} published its rows but did not finish, and this command differs \
                         from it: {}",
                        listed(&compared.differences)
                    ),
                    format!("finish that run first: fullbore runs resume {id}"),
                ));
            }
            return Ok(());
        }
        let is_running = self.is_at_work(server, run)?;
        let targets = targets_of(run);
        let is_piecewise = run.tables.iter().any(LedgerTable::is_piecewise);
        let appends = job.tables.iter().any(|table| table.publish.joins_rows());
        if is_running {
            return match shares && appends && joins(run) && !again {
                true => Err(is_loading(run)),
                false => Ok(()),
            };
        }
        if is_asked_for {
            server.check_own(run)?;
            if run.state == State::Aborting {
                return Err(Error::usage_with_hint(
                    format!("run {id} into {targets} is being rolled back"),
                    format!("finish the rollback first: fullbore runs abort {id}"),
                ));
            }
            return Err(Error::usage_with_hint(
                format!(
                    "run {id} into {targets} has not finished, and this command differs from it: \
                     {}",
                    listed(&compared.differences)
                ),
                ways_out(run, compared),
            ));
        }
        let rows = run.rows_committed;
        if shares && appends && is_piecewise && rows > 0 && !again && server.check_own(run).is_ok()
        {
            return Err(Error::usage_with_hint(
                format!(
                    "run {id} ({}) has not finished, and {} of some of the same files are already \
                     in {targets}",
                    run.started.for_people(),
                    counted(rows, "row")
                ),
                format!(
                    "{}; --if-loaded again loads all files, and the existing rows stay",
                    match compared.differences.is_empty() {
                        true => format!(
                            "--resume loads the missing rows, `fullbore runs abort {id}` closes \
                             the run"
                        ),
                        false => ways_out(run, compared),
                    }
                ),
            ));
        }
        self.notes.push(format!(
            "run {id} into {targets} has not finished: {} with {} rows are committed; this is a \
             new run (`fullbore runs resume {id}` resumes the old one, `fullbore runs abort {id}` \
             closes it)",
            counted(run.pieces_committed, "piece"),
            grouped(rows)
        ));
        Ok(())
    }
}
