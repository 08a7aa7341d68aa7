//! Undoes a finished run if this is exact: its partitions, and replaced tables kept by `--keep-old`, as
//! long as they contain the loaded rows and no others.

use std::collections::BTreeMap;

use fullbore_load::plan::KeyBounds;
use fullbore_pgwire::{QualifiedName, Session, quote_identifier, quote_literal};
use fullbore_read::error::{Error, Result};
use fullbore_record::terms::Publish;

use super::delete_rows::{self, is_appended};
use super::locks;
use super::read::{LedgerRow, numbers, rows};
use super::roles::acting_as;
use super::runs::{LedgerRun, LedgerTable, State};
use crate::catalog::{self, Relation, XID_BITS};
use crate::error::{failed, failed_while, refuse};
use crate::naming::derived;
use crate::postgres::Postgres;
use crate::publish::bounds::end_sql;
use crate::publish::locking::{Frame, LockWait, insist};
use crate::publish::{existing, made, replace};

impl Postgres {
    /// Takes a finished run back in one transaction, or refuses by name; the rows that went.
    /// `delete_rows`: those that were appended are deleted from among others.
    pub fn undo(&self, schema: &str, run: &LedgerRun, delete_rows: bool) -> Result<u64> {
        for table in &run.tables {
            if is_appended(table) && delete_rows {
                continue;
            }
            if let Some(why) = not_exact(table) {
                let hint = match is_appended(table) {
                    true => {
                        "nothing was removed; --delete-rows deletes the rows, if the transactions \
                         that wrote them identify them"
                    }
                    false => {
                        "nothing was removed; delete the rows manually by a condition that \
                         identifies them"
                    }
                };
                return Err(refuse(format!("run {} can't be undone: {why}", run.run_id), hint));
            }
        }
        acting_as(&mut self.control(), run, |session| undo_alone(self, session, schema, run))
    }
}

fn undo_alone(
    postgres: &Postgres,
    session: &mut Session,
    schema: &str,
    run: &LedgerRun,
) -> Result<u64> {
    locks::lock_job(session, &run.job)?;
    let (wait, frame) = (LockWait::of_command(), Frame::Transaction("BEGIN"));
    let what = format!("undoing run {}", run.run_id);
    let rows =
        insist(postgres, session, &wait, frame, &what, |session| undo(session, schema, run))?;
    for table in run.tables.iter().filter(|table| table.creates) {
        made::drop_if_empty(session, &table.target, table.oid)?;
    }
    Ok(rows)
}

/// Why what a run did to a table can't be told from what others did.
fn not_exact(table: &LedgerTable) -> Option<String> {
    let target = &table.target;
    match table.publish {
        Publish::Partitions => None,
        Publish::Append => Some(format!("rows were appended to {target}, among other rows")),
        Publish::Upsert => {
            Some(format!("rows of {target} were updated, and nobody has them as they were"))
        }
        Publish::Replace if table.kept.is_some() => None,
        Publish::Replace => {
            Some(format!("{target} was replaced, and the old table was not kept (see --keep-old)"))
        }
    }
}

/// A partition that the run showed.
struct Shown {
    piece: usize,
    name: QualifiedName,
    bounds: KeyBounds,
    rows: u64,
    xids: Xids,
}

/// The transactions that wrote the rows of a load.
struct Xids {
    /// Those of its pieces.
    pieces: Vec<u64>,
    /// Their subtransactions have numbers of their own, from the first of these to the last: where nobody
    /// else's transaction with such a number was still at work when the rows were shown, since only then
    /// they could be seen by others and changed.
    others: (u64, u64),
}

impl Xids {
    fn of(table: &LedgerTable, pieces: Vec<u64>, published: u64) -> Self {
        let from = pieces.iter().copied().min().unwrap_or(0);
        let ended_before = table.shown.map_or(0, |shown| shown.ended_before);
        Self { pieces, others: (from, published.min(ended_before.saturating_sub(1))) }
    }
}

fn undo(session: &mut Session, schema: &str, run: &LedgerRun) -> Result<u64> {
    let moved = session
        .execute(&format!(
            "UPDATE {schema}.runs SET state = 'undone', attempt = attempt + 1,
                    changed = clock_timestamp()
              WHERE run = {} AND state IN ('published', 'finished')",
            quote_literal(&run.run_id).map_err(failed)?
        ))
        .map_err(failed)?;
    if moved == 0 {
        let hint = format!("roll a stopped run back with `fullbore runs abort {}`", run.run_id);
        let what = if run.state == State::Undone { "already undone" } else { "not finished" };
        return Err(refuse(format!("run {} is {what}", run.run_id), hint));
    }
    let mut rows = 0;
    for (number, table) in run.tables.iter().enumerate() {
        let target = &table.target;
        if is_appended(table) {
            rows += delete_rows::delete(session, schema, run, number)?;
            continue;
        }
        // The parent first, as everybody else locks them.
        session
            .execute(&format!("LOCK TABLE ONLY {target} IN ACCESS EXCLUSIVE MODE"))
            .map_err(|error| failed_while(error, &format!("locking {target}")))?;
        if let Some(kept) = table.kept_in(&run.run_id)? {
            rows += put_back(session, schema, run, number, target, &kept)?;
            continue;
        }
        let parent = catalog::relation(session, target).map_err(failed)?;
        let parent = parent.ok_or_else(|| changed(&format!("{target} is gone")))?;
        for shown in shown(session, schema, run, number)? {
            take_away(session, &parent, &shown)?;
            rows += shown.rows;
        }
    }
    Ok(rows)
}

/// Puts the table back that the run replaced; the rows that went.
fn put_back(
    session: &mut Session,
    schema: &str,
    run: &LedgerRun,
    number: usize,
    target: &QualifiedName,
    kept: &QualifiedName,
) -> Result<u64> {
    let pieces = pieces(session, schema, run, number)?;
    let rows = pieces.iter().map(|piece| piece.rows).sum();
    let published = pieces.first().map_or(0, |piece| piece.published);
    let writers = pieces.iter().map(|piece| piece.xid).collect();
    let xids = Xids::of(&run.tables[number], writers, published);
    if catalog::relation(session, kept).map_err(failed)?.is_none() {
        return Err(refuse(
            format!("the run can't be undone: the replaced table {kept} no longer exists"),
            "another session dropped it",
        ));
    }
    session.execute(&format!("LOCK TABLE {kept} IN ACCESS EXCLUSIVE MODE")).map_err(|error| {
        failed_while(error, &format!("locking {kept}, the table that was replaced"))
    })?;
    check_content(session, target, rows, &xids)?;
    replace::undo::put_back(session, target, kept)?;
    replace::undo::drop_schema(session, kept)?;
    Ok(rows)
}

/// A committed piece of a table.
struct Piece {
    number: usize,
    rows: u64,
    /// Its transaction, and the one that showed the rows.
    xid: u64,
    published: u64,
}

fn pieces(
    session: &mut Session,
    schema: &str,
    run: &LedgerRun,
    number: usize,
) -> Result<Vec<Piece>> {
    let sql = format!(
        "SELECT run, p.piece, p.rows, p.xid_from, r.xid_published
           FROM {schema}.pieces p JOIN {schema}.runs r USING (run)
          WHERE run = {} AND p.target = {number} ORDER BY p.piece",
        quote_literal(&run.run_id).map_err(failed)?
    );
    let read = |row: &LedgerRow| {
        Ok(Piece {
            number: row.number("piece")?,
            rows: row.number("rows")?,
            xid: row.number("xid_from")?,
            published: row.number("xid_published")?,
        })
    };
    rows(session, &sql).map_err(failed)?.iter().map(read).collect()
}

/// The partitions of a table that the run showed, by the names that they have had since.
fn shown(
    session: &mut Session,
    schema: &str,
    run: &LedgerRun,
    number: usize,
) -> Result<Vec<Shown>> {
    let target = &run.tables[number].target;
    let mut partitions = Vec::new();
    for Piece { number: piece, rows, xid, published } in pieces(session, schema, run, number)? {
        let planned = run.pieces.iter().find(|planned| planned.number == piece);
        let bounds = planned.and_then(|planned| planned.bounds.as_ref()).ok_or_else(|| {
            refuse(
                format!("piece {piece} of run {} has no key range in the ledger", run.run_id),
                "somebody changed the ledger",
            )
        })?;
        let name = match &bounds.replaces {
            Some(partition) => QualifiedName::parse(partition),
            None => derived(target, &run.run_id, &format!("{piece:05}")),
        };
        partitions.push(Shown {
            piece,
            name: name.map_err(failed)?,
            bounds: bounds.clone(),
            rows,
            xids: Xids::of(&run.tables[number], vec![xid], published),
        });
    }
    Ok(partitions)
}

/// The partitions that a run showed of a table, by their pieces.
pub fn shown_names(
    session: &mut Session,
    schema: &str,
    run: &LedgerRun,
    number: usize,
) -> Result<BTreeMap<usize, QualifiedName>> {
    let shown = shown(session, schema, run, number)?;
    Ok(shown.into_iter().map(|shown| (shown.piece, shown.name)).collect())
}

/// What is asked of a table before it goes. Rows that are frozen when written keep the number of
/// their transaction, or have the one that stands for all frozen ones.
const CONTENT: &str = "
    SELECT count(*) AS rows,
           count(*) FILTER (WHERE xmin::text::bigint <> ALL ('{pieces}'::bigint[])
                              AND xmin::text::bigint NOT BETWEEN {from} AND {to}
                              AND xmin::text <> '2') AS others
      FROM {table}";

fn take_away(session: &mut Session, parent: &Relation, shown: &Shown) -> Result<()> {
    let Shown { name, bounds, .. } = shown;
    let target = &parent.name;
    if !existing::is_there(session, parent, name, bounds)? {
        return Err(changed(&format!(
            "{name} is no longer a partition of {target} from {} to {}",
            bounds.lower, bounds.upper
        )));
    }
    session.execute(&format!("LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")).map_err(failed)?;
    check_content(session, name, shown.rows, &shown.xids)?;
    let indexes = existing::index_names(session, name).map_err(failed)?;
    session
        .execute(&format!("ALTER TABLE {target} DETACH PARTITION {name}; DROP TABLE {name}"))
        .map_err(|error| failed_while(error, &format!("dropping {name}")))?;
    if bounds.replaces.is_none() {
        return Ok(());
    }
    let (lower, upper) = (end_sql(parent, &bounds.lower)?, end_sql(parent, &bounds.upper)?);
    session
        .execute(&format!(
            "CREATE TABLE {name} PARTITION OF {target} FOR VALUES FROM ({lower}) TO ({upper})"
        ))
        .map_err(|error| failed_while(error, &format!("creating the empty {name} again")))?;
    for (parent, made) in existing::index_names(session, name).map_err(failed)? {
        let before = indexes.iter().find(|(known, _)| *known == parent).map(|(_, name)| name);
        if let Some(before) = before.filter(|before| **before != made) {
            let index = QualifiedName::new(name.schema(), &made).map_err(failed)?;
            let to = quote_identifier(before).map_err(failed)?;
            session.execute(&format!("ALTER INDEX {index} RENAME TO {to}")).map_err(failed)?;
        }
    }
    Ok(())
}

/// Refuses where a table holds something else than the rows that were loaded into it.
fn check_content(
    session: &mut Session,
    name: &QualifiedName,
    rows: u64,
    xids: &Xids,
) -> Result<()> {
    let (from, to) = match xids.others {
        // None but the pieces' own.
        (from, to) if from > to => (1, 0),
        (from, to) if from & XID_BITS > to & XID_BITS => {
            return Err(changed("transaction numbers wrapped around during the load"));
        }
        (from, to) => (from & XID_BITS, to & XID_BITS),
    };
    let pieces: Vec<String> = xids.pieces.iter().map(|xid| (xid & XID_BITS).to_string()).collect();
    let sql = CONTENT
        .replace("{pieces}", &format!("{{{}}}", pieces.join(",")))
        .replace("{from}", &from.to_string())
        .replace("{to}", &to.to_string())
        .replace("{table}", &name.to_string());
    let [found, others] = numbers(session, &sql, ["rows", "others"])?;
    if found != rows || others != 0 {
        return Err(changed(&format!(
            "the rows of {name} were changed since ({found} now, {others} of them written by others or \
             not distinguishable from theirs; {rows} were loaded)"
        )));
    }
    Ok(())
}

fn changed(what: &str) -> Error {
    refuse(
        format!("the run can't be undone exactly: {what}"),
        "nothing was removed; detach and drop manually the tables to remove",
    )
}
