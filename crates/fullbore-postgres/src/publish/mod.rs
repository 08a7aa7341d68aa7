//! Publish: makes loaded rows visible; one module per mode.
//!
//! All tables of a run are published in one transaction; indexes are built before it, side by side.

mod adopt;
pub mod analyze;
pub mod append;
pub mod bounds;
pub mod exclusion;
pub mod existing;
pub mod filled;
pub(crate) mod hidden;
pub mod indexes;
mod last;
pub mod locking;
pub mod made;
pub mod ours;
pub mod partitions;
pub mod parts;
pub(crate) mod passed_by;
mod ranges;
pub mod replace;
pub mod target_lock;
pub mod unchanged;
pub mod upsert;

use std::cell::Cell;
use std::time::Instant;

use fullbore_load::plan::Plan;
use fullbore_load::sink::{Committed, LoadState};
use fullbore_pgwire::{QualifiedName, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::Phase;
use fullbore_record::terms::{Publish, Stage, Verify};

use crate::catalog::Relation;
use crate::error::{failed, refuse, refused};
use crate::ledger::runs::{self, State};
use crate::ledger::{Begun, Ledger, writes};
use crate::postgres::Postgres;
use crate::target::PostgresTable;
use crate::verify::{control, counted, staged};
use last::{BEGIN, LOG, commit};
use locking::{Frame, LockWait};
use ours::ours;
use replace::kept::Guard;

/// Refuses, by name, what can't be published the way that is asked. Nothing is touched. `company` are the tables
/// that are replaced together with this one.
pub fn check(
    session: &mut Session,
    relation: &Relation,
    publish: Publish,
    company: &[u32],
    allow_publication: bool,
) -> Result<()> {
    let owner =
        "SELECT pg_has_role(current_user, relowner, 'USAGE') AS may FROM pg_class WHERE oid = ";
    let may = match publish {
        Publish::Append => format!(
            "SELECT has_table_privilege({oid}, 'INSERT')
                    OR has_any_column_privilege({oid}, 'INSERT') AS may",
            oid = relation.oid
        ),
        Publish::Upsert => format!(
            "SELECT bool_and(has_table_privilege({oid}, p) OR has_any_column_privilege({oid}, p)) AS may
               FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS p",
            oid = relation.oid
        ),
        Publish::Replace | Publish::Partitions => format!("{owner}{}", relation.oid),
    };
    let allowed = session.query(&may).map_err(refused)?;
    if !allowed.first().is_some_and(|row| row.flag("may")) {
        let (what, hint) = match publish {
            Publish::Append => {
                ("lacks INSERT privilege on", "grant INSERT on the table to the role")
            }
            Publish::Upsert => (
                "lacks SELECT, INSERT or UPDATE privilege on",
                "grant all three on the table to the role",
            ),
            Publish::Replace | Publish::Partitions => {
                ("is not the owner of", "load as the table's owner, or with --publish append")
            }
        };
        return Err(refuse(format!("permission denied: this role {what} {}", relation.name), hint));
    }
    match publish {
        Publish::Append | Publish::Upsert => Ok(()),
        Publish::Replace => replace::check(session, relation, company),
        Publish::Partitions => {
            partitions::check(relation)?;
            passed_by::check(session, relation, allow_publication)
        }
    }
}

/// Makes what the pieces of a table need.
pub fn prepare(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
    target: &PostgresTable,
) -> Result<()> {
    match &plan.continuity.part {
        Some(part) => parts::prepare(postgres, session, plan, table, target, part),
        None => prepare_alone(postgres, session, plan, table, target),
    }
}

fn prepare_alone(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
    target: &PostgresTable,
) -> Result<()> {
    match target.publish {
        Publish::Append if target.atomic => append::prepare(session, plan, table, target),
        Publish::Append => Ok(()),
        Publish::Upsert => upsert::prepare(postgres, session, plan, table, target),
        Publish::Replace => replace::prepare(postgres, session, plan, table, target),
        Publish::Partitions => ranges::prepare(postgres, session, plan, table),
    }
}

/// Refuses to go on where a table that a committed piece filled is gone.
pub fn check_staged(
    session: &mut Session,
    plan: &Plan,
    targets: &[PostgresTable],
    state: &LoadState,
) -> Result<()> {
    if state.is_published {
        return Ok(());
    }
    for piece in &state.committed {
        let target = targets.get(piece.table).ok_or_else(|| not_of_this_plan(piece))?;
        let name = match target.stage() {
            Stage::Target => continue,
            Stage::Staging => target.staging(plan)?,
            Stage::Pieces => target.piece(plan, piece.piece)?,
        };
        if ours(session, &name, &target.relation)?.is_none() {
            return Err(Error::Destination {
                message: format!("{name} no longer exists; it held rows of piece {}", piece.piece),
                hint: Some(format!(
                    "close the run with `fullbore runs abort {}`, then load again",
                    plan.run_id
                )),
                kind: DestinationFailure::Gone,
            });
        }
    }
    Ok(())
}

fn not_of_this_plan(piece: &Committed) -> Error {
    refuse(
        format!("the ledger's piece {} is of a table that the job does not have", piece.piece),
        "the ledger was changed outside Fullbore",
    )
}

/// What lies behind an error that the server gave: that somebody else has the run now, or that a target is
/// no longer the table that it was.
pub fn explained(postgres: &Postgres, error: Error) -> Error {
    let Error::Destination { kind, .. } = &error else { return error };
    if error.is_lost() || *kind == DestinationFailure::TakenOver {
        return error;
    }
    // Whoever took the run over has ended our sessions.
    let Ok(mut session) = postgres.session_now() else { return error };
    if let Some(ledger) = postgres.ledger() {
        if ledger.was_taken_over(&mut session) {
            return ledger.taken_over();
        }
        if ledger.is_published() {
            return error;
        }
    }
    if !may_be_of_a_changed_target(*kind) {
        return error;
    }
    let changed = (0..postgres.targets().len())
        .filter_map(|table| postgres.planned(table).check(&mut session).err())
        .find(|error| {
            use DestinationFailure::{Changed, Gone};
            matches!(error, Error::Destination { kind: Changed | Gone, .. })
        });
    changed.unwrap_or(error)
}

/// An error of the server's own may come of a table that is gone.
fn may_be_of_a_changed_target(kind: DestinationFailure) -> bool {
    matches!(kind, DestinationFailure::Other | DestinationFailure::Data)
}

/// What lies behind an error that the server gave as the run began: that a target is no longer the table
/// that was planned for.
pub fn not_begun(postgres: &Postgres, error: Error) -> Error {
    match &error {
        Error::Destination { kind, .. } if may_be_of_a_changed_target(*kind) => {}
        _ => return error,
    }
    let Ok(mut session) = postgres.session_now() else { return error };
    match postgres.check_targets(&mut session) {
        Err(changed @ Error::Destination { kind: DestinationFailure::Refused, .. }) => changed,
        _ => error,
    }
}

/// Builds indexes, gathers statistics, checks foreign keys, and shows the rows of all tables in one transaction.
/// What an earlier attempt has done of it is not done again.
pub fn publish(postgres: &Postgres, plan: &Plan, committed: &[Committed]) -> Result<Vec<Phase>> {
    if let (Some(part), Some(ledger)) = (&plan.continuity.part, postgres.ledger()) {
        return parts::phases(postgres, ledger, plan, part, committed);
    }
    let is_published = postgres.ledger().is_some_and(|ledger| ledger.is_published());
    let mut phases = Vec::new();
    let mut timed = |name: &str, work: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let began = Instant::now();
        work()?;
        phases.push(Phase { name: name.into(), seconds: began.elapsed().as_secs_f64() });
        Ok(())
    };
    if !is_published {
        counted::note_files(postgres)?;
    }
    if plan.verify == Verify::Full && !is_published {
        // Before indexes are built in vain.
        timed("verify", &mut || staged::verify(postgres, plan, committed))?;
    }
    if plan.verify != Verify::Full && !is_published {
        timed("verify", &mut || counted::count(postgres, plan, committed))?;
    }
    if plan.tables.iter().any(|table| !table.controls.is_empty()) && !is_published {
        timed("control totals", &mut || control::check(postgres, plan, committed))?;
    }
    if plan.continuity.write.is_some() && !is_published {
        timed("insert", &mut || {
            for (table, target) in postgres.targets().iter().enumerate() {
                if target.publish == Publish::Replace {
                    adopt::fill(postgres, plan, table, target)?;
                }
            }
            Ok(())
        })?;
    }
    timed("index", &mut || {
        if is_published {
            return Ok(());
        }
        let mut jobs = Vec::new();
        for (table, target) in postgres.targets().iter().enumerate() {
            match target.publish {
                Publish::Append | Publish::Upsert => {}
                Publish::Replace => jobs.extend(replace::index_jobs(postgres, plan, table)?),
                Publish::Partitions => {
                    jobs.extend(partitions::index_jobs(postgres, plan, table, target)?);
                }
            }
        }
        indexes::build(postgres, plan, jobs)
    })?;
    if postgres.settings.makes_statistics() && !is_published {
        timed("analyze", &mut || analyze::early(postgres, plan, committed))?;
    }
    // With statistics: they are looked up by joins.
    timed("constraints", &mut || match is_published {
        true => Ok(()),
        false => {
            let jobs = replace::key_jobs(postgres, &mut postgres.control(), plan)?;
            jobs.work(postgres, plan)
        }
    })?;
    if postgres.targets().iter().any(|target| target.merging.is_some()) && !is_published {
        timed("merge", &mut || upsert::merge(postgres, plan))?;
    }
    timed("publish", &mut || {
        if is_published {
            return Ok(());
        }
        let shown = show_patiently(postgres, plan, committed);
        upsert::end_turns(postgres);
        if let Some(ledger) = postgres.ledger()
            && !shown.as_ref().is_err_and(Error::is_lost)
        {
            ledger.set_published(shown.is_ok());
        }
        postgres.verification.add_kept_out(shown?);
        Ok(())
    })?;
    upsert::remember(postgres, committed)?;
    if postgres.settings.makes_statistics() {
        timed("analyze", &mut || analyze::late(postgres, plan, committed))?;
    }
    if let Some(ledger) = postgres.ledger() {
        runs::finished(&mut postgres.control(), ledger)?;
    }
    Ok(phases)
}

/// Shows the rows of all tables in one transaction, which waits for others' locks as long as it was told
/// to; how many rows the targets' own triggers kept out.
fn show_patiently(postgres: &Postgres, plan: &Plan, committed: &[Committed]) -> Result<u64> {
    let wait = LockWait::of(plan);
    let tables: Vec<&str> = plan.tables.iter().map(|table| table.name.as_str()).collect();
    let what = &format!("publishing {}", tables.join(", "));
    let taken = Cell::new(0);
    if let Some(mut guard) = postgres.live_guard() {
        let Guard { session, is_sure } = guard.as_mut().expect("it is there");
        session.execute(LOG).map_err(failed)?;
        let shown = locking::insist(postgres, session, &wait, Frame::Savepoint, what, |session| {
            show(postgres, session, plan, committed, is_sure, &taken)
        })?;
        // Its locks ended with the transaction.
        *guard = None;
        return Ok(shown);
    }
    let mut session = postgres.control();
    let frame = Frame::Transaction(BEGIN);
    locking::insist(postgres, &mut session, &wait, frame, what, |session| {
        show(postgres, session, plan, committed, &mut false, &taken)
    })
}

/// Shows the rows of all tables, in the transaction that is open, and says so in the ledger; how many
/// rows the targets' own triggers kept out. Where writers are kept out already, `is_sure` says whether
/// they were from the beginning on.
fn show(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    committed: &[Committed],
    is_sure: &mut bool,
    taken: &Cell<u32>,
) -> Result<u64> {
    let mut kept_out = 0;
    if let Some(ledger) = postgres.ledger() {
        // An attempt before this one may have waited for a lock in vain.
        ledger.set_published(false);
        let rows = committed.iter().map(|piece| piece.rows).sum();
        runs::check(session, ledger, (committed.len() as u64, rows))?;
    }
    let targets = || postgres.targets().iter().enumerate();
    // First what takes long and keeps no reader waiting.
    for (table, _) in targets().filter(|(_, target)| target.is_inserted_at_once()) {
        let its = committed.iter().filter(|piece| piece.table == table);
        let staged = its.map(|piece| piece.rows).sum();
        kept_out += append::show(postgres, session, plan, table, staged)?;
        staged::verify_shown(postgres, session, plan, table, committed)?;
    }
    for (table, _) in targets().filter(|(_, target)| target.publish == Publish::Upsert) {
        let its: Vec<_> = committed.iter().filter(|piece| piece.table == table).collect();
        upsert::show(postgres, session, plan, table, &its, taken)?;
    }
    for (table, _) in targets().filter(|(_, target)| target.is_piecewise()) {
        counted::hold(postgres, session, plan, table, committed)?;
    }
    replace::locks::take(postgres, session, plan, is_sure)?;
    replace::show(postgres, session, plan)?;
    for (table, _) in targets().filter(|(_, target)| target.publish == Publish::Partitions) {
        let its = committed.iter().filter(|piece| piece.table == table).count();
        let its = postgres.ledger().map(|_| its);
        partitions::show(postgres, session, plan, table, its)?;
    }
    if let Some(ledger) = postgres.ledger() {
        writes::note(session, ledger, plan)?;
        runs::published(session, ledger)?;
        // The commit is next, and its answer may be lost.
        ledger.set_may_be_published();
    }
    Ok(kept_out)
}

/// Takes away what the run made and did not show; what could not be taken away.
pub fn abort(postgres: &Postgres, plan: &Plan) -> Vec<String> {
    // Its locks would be in our own way.
    *postgres.guard() = None;
    // The control session may be what was lost, or the only one that is to be had.
    let session = match postgres.ledger() {
        Some(ledger) => postgres.locked_control(ledger),
        None => postgres.usable_control(),
    };
    let mut session = match session {
        Ok(session) => session,
        Err(Error::Destination { kind: DestinationFailure::TakenOver, .. }) => return Vec::new(),
        Err(_) => return left_alone(postgres, plan),
    };
    if let Some(ledger) = postgres.ledger() {
        match is_ours(&mut session, ledger) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(error) => {
                tracing::warn!("the run can't be rolled back: {error}");
                return left_alone(postgres, plan);
            }
        }
    }
    match &plan.continuity.part {
        None => take_away(postgres, &mut session, plan, true),
        Some(part) => parts::take_away(postgres, &mut session, plan, part),
    }
}

/// Takes away what the run made; `all` of it, or what no other part of the load shares.
fn take_away(postgres: &Postgres, session: &mut Session, plan: &Plan, all: bool) -> Vec<String> {
    // Pieces of a plain append stay.
    let _ = session.execute(BEGIN).map_err(failed).and_then(|_| commit(session));
    let left = made::drop_tables(session, leftovers(postgres, plan, all));
    let left: Vec<String> = left.into_iter().map(|(name, _)| name.to_string()).collect();
    // A table made for this run, with nothing in it, goes too.
    if let Err(error) = made::take_away(postgres, session) {
        tracing::warn!("what the run made of its targets stays: {error}");
    }
    if let Some(ledger) = postgres.ledger().filter(|_| left.is_empty()) {
        match runs::remove(session, &ledger.schema, &ledger.run_id) {
            Ok(()) => ledger.set_begun(Begun::No),
            Err(error) => tracing::warn!("the ledger still has the run: {error}"),
        }
    }
    left
}

/// All that a run may have made, where the server can't be asked.
fn left_alone(postgres: &Postgres, plan: &Plan) -> Vec<String> {
    let names = leftovers(postgres, plan, plan.continuity.part.is_none());
    let mut left: Vec<String> = names.iter().map(QualifiedName::to_string).collect();
    let row = postgres.ledger().map(|ledger| format!("run {} in the ledger", ledger.run_id));
    left.extend(row);
    left
}

/// Whether the run may be rolled back by us: nobody else has gone on with it, and its rows are not
/// shown.
fn is_ours(session: &mut Session, ledger: &Ledger) -> Result<bool> {
    let (schema, run_id) = (&ledger.schema, &ledger.run_id);
    if ledger.begun() == Begun::No {
        return Ok(false);
    }
    let known = runs::find(session, schema, &runs::Which::Run(run_id))?;
    if ledger.begun() == Begun::Unsure && !known.is_empty() {
        if !runs::has_our_row(session, ledger)? {
            return Ok(false);
        }
        ledger.set_begun(Begun::Yes);
    }
    let before = runs::begin_abort(session, schema, run_id, Some(ledger.attempt()))?;
    Ok(match before {
        Some(state) => !state.is_shown() && state != State::Undone,
        // Not begun, as far as we know; else it is another attempt's, or was rolled back by somebody.
        None => known.is_empty() && ledger.begun() == Begun::Unsure,
    })
}

/// The names of all tables that the run may have made beside its targets, with or without those that
/// parts of a load share.
fn leftovers(postgres: &Postgres, plan: &Plan, all: bool) -> Vec<QualifiedName> {
    let mut names: Vec<Result<QualifiedName>> = Vec::new();
    for (table, target) in postgres.targets().iter().enumerate() {
        match target.stage() {
            Stage::Target => {}
            Stage::Staging if !all => {}
            Stage::Staging => {
                names.push(target.staging(plan));
                names.extend(target.merging.as_ref().map(|_| target.ranked(plan)));
            }
            Stage::Pieces => {
                let pieces = plan.pieces.iter().filter(|piece| piece.table == table);
                names.extend(pieces.map(|piece| target.piece(plan, piece.number)));
            }
        }
    }
    names.into_iter().flatten().collect()
}
