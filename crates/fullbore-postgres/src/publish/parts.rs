//! Publishing a load of several hosts: each says when its part is loaded, and the host that finds all parts
//! loaded shows the rows of all in one transaction.

use std::time::Instant;

use fullbore_load::plan::{Part, Plan};
use fullbore_load::sink::Committed;
use fullbore_pgwire::{Session, quote_literal};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::Phase;
use fullbore_record::terms::{Publish, Stage};

use super::last::{BEGIN, commit};
use super::locking::{Frame, LockWait, insist};
use super::ours::ours;
use super::{append, indexes, partitions, ranges, replace};
use crate::error::{failed, failed_while, refuse};
use crate::ledger::parts::{self, KnownPart};
use crate::ledger::read::numbers;
use crate::ledger::{Ledger, locks, runs, shown};
use crate::postgres::Postgres;
use crate::target::PostgresTable;

/// Makes what all parts share, where an earlier part has not; and looks whether its ranges and those
/// of the others can be attached together.
pub fn prepare(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
    target: &PostgresTable,
    part: &Part,
) -> Result<()> {
    let Some(ledger) = postgres.ledger() else { return Ok(()) };
    let is_shared = target.stage() == Stage::Staging;
    if is_shared && !is_to_be_made(session, ledger, plan, target, part)? {
        return Ok(());
    }
    if target.stage() != Stage::Pieces {
        return super::prepare_alone(postgres, session, plan, table, target);
    }
    let plans = plans_of_others(session, ledger, plan, part)?;
    let all: Vec<&Plan> = std::iter::once(plan).chain(&plans).collect();
    ranges::try_ranges(postgres, session, &all, table)
}

/// Whether the table that all parts fill is still to be made. One that is there is theirs if another
/// part may have filled it. If none has, its rows are of nobody who is known, and would be shown with
/// ours: it goes. No other part begins meanwhile.
fn is_to_be_made(
    session: &mut Session,
    ledger: &Ledger,
    plan: &Plan,
    target: &PostgresTable,
    part: &Part,
) -> Result<bool> {
    let staging = target.staging(plan)?;
    if ours(session, &staging, &target.relation)?.is_none() {
        return Ok(true);
    }
    let known = parts::of_whole(session, &ledger.schema, &part.whole)?;
    if known.iter().any(|known| *known.run_id != plan.run_id && known.may_have_rows()) {
        return Ok(false);
    }
    tracing::warn!("{staging} is created again: no part of this load has filled it");
    session.execute(&format!("DROP TABLE {staging}")).map_err(|error| {
        failed_while(error, &format!("dropping {staging}, a leftover of an earlier load"))
    })?;
    Ok(true)
}

/// The other parts' pieces, as plans of their own.
fn plans_of_others(
    session: &mut Session,
    ledger: &Ledger,
    plan: &Plan,
    part: &Part,
) -> Result<Vec<Plan>> {
    let mut plans = Vec::new();
    for other in parts::of_whole(session, &ledger.schema, &part.whole)? {
        if *other.run_id == plan.run_id {
            continue;
        }
        let found = runs::find(session, &ledger.schema, &runs::Which::Run(&other.run_id))?;
        let Some(run) = found.into_iter().next() else { continue };
        plans.push(Plan {
            run_id: run.run_id.into(),
            // What is asked of it are its pieces and their tables' names.
            tables: Vec::new(),
            pieces: run.pieces,
            streams: plan.streams,
            parsers: plan.parsers,
            tuning: None,
            max_rate: None,
            max_rejects: plan.max_rejects,
            max_field_bytes: plan.max_field_bytes,
            verify: plan.verify,
            run_dir: plan.run_dir.clone(),
            reject_dir: plan.reject_dir.clone(),
            tables_at_once: plan.tables_at_once,
            continuity: plan.continuity.clone(),
            placement: plan.placement,
            is_polite: plan.is_polite,
            compress: plan.compress,
            statistics: plan.statistics,
            ceilings: None,
            destination: plan.destination.clone(),
        });
    }
    Ok(plans)
}

/// Publishes what can be published: indexes, all parts' rows, statistics.
pub fn phases(
    postgres: &Postgres,
    ledger: &Ledger,
    plan: &Plan,
    part: &Part,
    committed: &[Committed],
) -> Result<Vec<Phase>> {
    let mut phases = Vec::new();
    let mut timed = |name: &str, began: Instant| {
        phases.push(Phase { name: name.into(), seconds: began.elapsed().as_secs_f64() });
    };
    let mut shown = Shown::Yes;
    if !ledger.is_published() {
        let began = Instant::now();
        index(postgres, plan)?;
        timed("index", began);
        let began = Instant::now();
        let published = publish(postgres, ledger, plan, part, committed);
        if !published.as_ref().is_err_and(Error::is_lost) {
            ledger.set_published(matches!(published, Ok(Shown::Yes)));
        }
        shown = published?;
        timed("publish", began);
    }
    if let Shown::NotYet(missing) = shown {
        *postgres.waits_for.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = missing;
        return Ok(phases);
    }
    if postgres.settings.makes_statistics() {
        let began = Instant::now();
        let others = plans_of_others(&mut postgres.control(), ledger, plan, part)?;
        let mut jobs = super::analyze::jobs(postgres, plan)?;
        for other in &others {
            for job in super::analyze::jobs(postgres, other)? {
                // The targets themselves are looked at once.
                if !jobs.iter().any(|known| known.what == job.what) {
                    jobs.push(job);
                }
            }
        }
        indexes::build(postgres, plan, jobs)?;
        timed("analyze", began);
    }
    finished(postgres, ledger, part)?;
    Ok(phases)
}

/// Takes a part away that was given up before any of its pieces was committed. What it shares with
/// others goes only with the last.
pub fn take_away(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    part: &Part,
) -> Vec<String> {
    let taken = parts::alone(session, &part.whole, |session| {
        let Some(ledger) = postgres.ledger() else { return Ok(Vec::new()) };
        let known = parts::of_whole(session, &ledger.schema, &part.whole)?;
        let is_last = known.iter().all(|known| *known.run_id == plan.run_id);
        Ok(super::take_away(postgres, session, plan, is_last))
    });
    taken.unwrap_or_else(|error| {
        tracing::warn!("the part can't be rolled back: {error}");
        super::left_alone(postgres, plan)
    })
}

/// Whether the rows are shown now: by us, or by another host.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shown {
    Yes,
    /// The parts that are still to be loaded, in words.
    NotYet(Vec<String>),
}

/// The part's own indexes, where its pieces have tables of their own.
fn index(postgres: &Postgres, plan: &Plan) -> Result<()> {
    let mut jobs = Vec::new();
    for (table, target) in postgres.targets().iter().enumerate() {
        if target.publish == Publish::Partitions {
            jobs.extend(partitions::index_jobs(postgres, plan, table, target)?);
        }
    }
    indexes::build(postgres, plan, jobs)
}

/// Says that the part is loaded, and shows all parts if it was the last one.
fn publish(
    postgres: &Postgres,
    ledger: &Ledger,
    plan: &Plan,
    part: &Part,
    committed: &[Committed],
) -> Result<Shown> {
    let (schema, whole) = (&ledger.schema, &part.whole);
    {
        let mut session = postgres.control();
        // Its commit waits for the log of all of the part's pieces.
        in_transaction(&mut session, |session| {
            let rows = committed.iter().map(|piece| piece.rows).sum();
            runs::check(session, ledger, (committed.len() as u64, rows))?;
            parts::loaded(session, schema, &ledger.run_id, committed)
        })?;
    }
    let mut session = postgres.control();
    parts::alone(&mut session, whole, |session| {
        let known = parts::of_whole(session, schema, whole)?;
        if is_shown(&known, &plan.run_id) {
            return Ok(Shown::Yes);
        }
        let missing = missing(&known, part);
        if !missing.is_empty() {
            return Ok(Shown::NotYet(missing));
        }
        for other in known.iter().filter(|other| *other.run_id != plan.run_id) {
            // A host that began to publish and went away may have left an index half built.
            locks::end_sessions(session, &other.run_id);
        }
        build_shared_indexes(postgres, session, plan)?;
        let wait = LockWait::of(plan);
        let frame = Frame::Transaction(BEGIN);
        let tables: Vec<&str> = plan.tables.iter().map(|table| table.name.as_str()).collect();
        let what = format!("publishing {}", tables.join(", "));
        insist(postgres, session, &wait, frame, &what, |session| {
            show(session, postgres, ledger, plan, part)
        })?;
        Ok(Shown::Yes)
    })
}

fn is_shown(known: &[KnownPart], run_id: &str) -> bool {
    known.iter().any(|part| *part.run_id == *run_id && part.state.is_shown())
}

/// The parts that are not loaded, those never begun among them.
pub fn missing(known: &[KnownPart], part: &Part) -> Vec<String> {
    (1..=part.spec.of)
        .filter_map(|number| match known.iter().find(|known| known.number == number) {
            Some(known) if known.is_ready() => None,
            Some(known) => Some(known.words()),
            None => Some(format!("part {number}/{}: not begun", part.spec.of)),
        })
        .collect()
}

/// Indexes of a table that all parts filled: what a host that went away had built of them is found.
fn build_shared_indexes(postgres: &Postgres, session: &mut Session, plan: &Plan) -> Result<()> {
    let mut jobs = Vec::new();
    for (table, target) in postgres.targets().iter().enumerate() {
        if target.publish == Publish::Replace {
            jobs.extend(replace::index_jobs_by(postgres, session, plan, table)?);
        }
    }
    indexes::build(postgres, plan, jobs)?;
    if postgres.settings.makes_statistics() {
        super::analyze::early(postgres, plan, &[])?;
    }
    replace::key_jobs(postgres, session, plan)?.work(postgres, plan)
}

/// Shows all rows, in the transaction that is open.
fn show(
    session: &mut Session,
    postgres: &Postgres,
    ledger: &Ledger,
    plan: &Plan,
    part: &Part,
) -> Result<()> {
    let (schema, whole) = (&ledger.schema, &part.whole);
    parts::lock_rows(session, schema, whole)?;
    // What was read before the lock may have changed with a new attempt.
    let known = parts::of_whole(session, schema, whole)?;
    parts::check_roles(session, &known)?;
    let missing = missing(&known, part);
    if !missing.is_empty() {
        return Err(Error::Destination {
            message: format!("the load's parts changed meanwhile: {}", missing.join("; ")),
            hint: Some("`fullbore runs publish` publishes them once all are loaded".into()),
            kind: DestinationFailure::Lost,
        });
    }
    let others = plans_of_others(session, ledger, plan, part)?;
    let targets = || postgres.targets().iter().enumerate();
    for (table, _) in targets().filter(|(_, target)| target.is_inserted_at_once()) {
        let mut staged = 0;
        for plan in std::iter::once(plan).chain(&others) {
            staged += pieces_of(session, schema, &plan.run_id, table)?.1;
        }
        append::show(postgres, session, plan, table, staged)?;
    }
    replace::locks::take(postgres, session, plan, &mut false)?;
    replace::show(postgres, session, plan)?;
    for (table, target) in targets().filter(|(_, target)| target.publish == Publish::Partitions) {
        let all: Vec<&Plan> = std::iter::once(plan).chain(&others).collect();
        ranges::lock_if_replaced(session, &all, table, target)?;
        for plan in all {
            let (count, _) = pieces_of(session, schema, &plan.run_id, table)?;
            partitions::show(postgres, session, plan, table, Some(count))?;
        }
    }
    for part in &known {
        shown::note(session, schema, &part.run_id)?;
    }
    let change = "state = 'published', xid_published = pg_current_xact_id()";
    match parts::move_all(session, schema, whole, change, "loading")? {
        moved if moved == u64::from(part.spec.of) => {
            // The commit is next, and its answer may be lost.
            ledger.set_may_be_published();
            Ok(())
        }
        _ => Err(refuse(
            "a part of the load is being rolled back",
            "see `fullbore runs list` with the same --to",
        )),
    }
}

/// Pieces of a table that a run has committed, and their rows.
fn pieces_of(
    session: &mut Session,
    schema: &str,
    run_id: &str,
    table: usize,
) -> Result<(usize, u64)> {
    let run = quote_literal(run_id).map_err(failed)?;
    let sql = format!(
        "SELECT count(*) AS n, coalesce(sum(rows), 0) AS rows FROM {schema}.pieces
          WHERE run = {run} AND target = {table}"
    );
    let [count, rows] = numbers(session, &sql, ["n", "rows"])?;
    Ok((count as usize, rows))
}

/// Nothing is left to do for any part.
fn finished(postgres: &Postgres, ledger: &Ledger, part: &Part) -> Result<()> {
    let mut session = postgres.control();
    parts::move_all(&mut session, &ledger.schema, &part.whole, "state = 'finished'", "published")
        .map(drop)
}

fn in_transaction(
    session: &mut Session,
    work: impl FnOnce(&mut Session) -> Result<()>,
) -> Result<()> {
    session.execute(BEGIN).map_err(failed)?;
    match work(session) {
        Ok(()) => commit(session),
        Err(error) => {
            // The first error is the one to tell.
            let _ = session.execute("ROLLBACK");
            Err(error)
        }
    }
}
