//! Removes and rejects loaded rows that violate a unique or a foreign key.
//!
//! These keys involve all rows, so they are checked after the last piece. Per key, one statement finds
//! rows without a referenced row ([`references`]), which are removed, or rows that share a key ([`keys`]). Which
//! of these will stay is decided by the order of the files alone, so at first all of them are only noted. The
//! sources are read again for the records of all these rows (`Reread` reads them, [`image`] selects them).
//! Records of rows that share a key enter a temporary table with the same unique indexes, in the order of
//! files and lines. Rows that the indexes refuse are removed and rejected ([`order`]). So the server's own
//! indexes decide, as if rows had been loaded in that order. If no statement finds a violation in any table,
//! every row is inserted in a transaction that is rolled back ([`trial`]).
//!
//! All of it is one transaction, which tells the ledger as well. Rows that were noted or removed but whose
//! records are not found again end it: nothing is lost unseen.

mod image;
mod keys;
mod order;
mod references;
mod trial;

use std::collections::BTreeMap;

use fullbore_load::plan::lineage::Says;
use fullbore_load::plan::{Plan, TablePlan};
use fullbore_load::sink::{Committed, Refusal, RejectsViolations, Reread, TextRows};
use fullbore_load::sums::Sums;
use fullbore_pgwire::{
    ConnectionError, QualifiedName, Row, Session, quote_identifier, quote_literal,
};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::terms::{Publish, Stage};

use crate::error::{failed, failed_while};
use crate::fallback::server_check::{self, JudgeTarget};
use crate::ledger::runs;
use crate::postgres::Postgres;
use crate::publish::partitions;
use crate::target::PostgresTable;
use crate::verify::statistics;

/// Rows that are taken out, each with why and of which heap; those that share a key also with where they still are.
const REMOVED: &str = "pg_temp.fullbore_removed";
/// Records that may be theirs, each with its place in the order of files and lines.
const CANDIDATES: &str = "pg_temp.fullbore_candidates";
/// The records that are theirs.
const MATCHED: &str = "pg_temp.fullbore_matched";

/// What stands for "it shares a key" where a reason has no number of its own.
const SHARED_KEY: i32 = -1;

/// A table of the run whose rows wait to be shown.
struct Waiting<'a> {
    number: usize,
    target: &'a PostgresTable,
    heaps: Vec<QualifiedName>,
    /// The quoted names of the columns that are sent.
    names: Vec<String>,
    /// Pieces that sums of its rows are kept with.
    pieces: Vec<usize>,
}

/// How rows are found that the target does not take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// By one statement for all rows, for each key.
    Together,
    /// By trying them one by one: where no statement found any, in no table.
    OneByOne,
}

/// What was taken out.
#[derive(Default)]
struct Taken {
    /// Sums of its rows, by a piece of the table that they were in.
    sums: BTreeMap<usize, Sums>,
    /// How many rows of which table.
    deleted: Vec<(QualifiedName, u64)>,
}

/// One table whose rows are checked.
struct Checked<'a> {
    plan: &'a Plan,
    number: usize,
    target: &'a PostgresTable,
    /// Where its rows are now.
    heaps: &'a [QualifiedName],
    /// The quoted names of the columns that are sent.
    names: &'a [String],
    /// Of these, the ones that are the same whenever a record is loaded.
    lasting: Vec<String>,
    /// All tables of the run whose rows wait.
    others: &'a [Waiting<'a>],
}

impl Checked<'_> {
    fn columns(&self) -> &TablePlan {
        &self.plan.tables[self.number]
    }

    /// The columns as a list, each after a prefix such as `r.`.
    fn list(&self, prefix: &str) -> String {
        let names: Vec<String> = self.names.iter().map(|name| format!("{prefix}{name}")).collect();
        names.join(", ")
    }

    /// The whole row as text: what two rows have in common that are the same in all columns.
    fn image(&self, prefix: &str) -> String {
        let names: Vec<String> =
            self.lasting.iter().map(|name| format!("{prefix}{name}")).collect();
        // It is compared with itself alone: whatever language the database speaks, by its bytes.
        format!("(ROW({})::text COLLATE \"C\")", names.join(", "))
    }

    /// New rows join those of the target, rather than standing alone.
    fn joins_target(&self) -> bool {
        self.target.publish == Publish::Append
    }

    /// Rows are not what they will be in the target: its triggers, or another server, may change them
    /// first, so that only the target itself can say which it takes.
    fn is_judged_by_target(&self) -> bool {
        let relation = &self.target.relation;
        self.joins_target() && (relation.kind == 'f' || relation.is_changed_before)
    }
}

/// Why rows are taken out, where it is known at once.
struct Reason {
    column: Option<String>,
    constraint: Option<String>,
    code: String,
    /// The columns whose values tell what is wrong with a row, as SQL on the row `m`; none where the
    /// words are all.
    key: Option<String>,
    words: String,
}

impl RejectsViolations for Postgres {
    fn reject_violations(
        &self,
        plan: &Plan,
        committed: &[Committed],
        sources: &mut dyn Reread,
    ) -> Result<bool> {
        self.removed.store(true, std::sync::atomic::Ordering::Relaxed);
        let mut session = self.usable_control()?;
        session.execute("BEGIN").map_err(failed)?;
        let mut taken = Taken::default();
        let rejected = self.reject_in_all(&mut session, plan, committed, sources, &mut taken);
        // The first error is the one to tell.
        let has_removed = matches!(rejected, Ok(true));
        let ended = session.execute(if has_removed { "COMMIT" } else { "ROLLBACK" });
        let rejected = rejected?;
        ended.map_err(failed)?;
        for (piece, sums) in &taken.sums {
            self.verification.add_removed(*piece, sums);
        }
        for (heap, rows) in &taken.deleted {
            self.verification.add_deleted(heap, *rows);
        }
        if !taken.deleted.is_empty() {
            statistics::flush(&mut session).map_err(failed)?;
        }
        Ok(rejected)
    }
}

impl Postgres {
    fn reject_in_all(
        &self,
        session: &mut Session,
        plan: &Plan,
        committed: &[Committed],
        sources: &mut dyn Reread,
        taken: &mut Taken,
    ) -> Result<bool> {
        if let Some(ledger) = self.ledger() {
            let rows = committed.iter().map(|piece| piece.rows).sum();
            runs::check(session, ledger, (committed.len() as u64, rows))?;
        }
        // Sorting all keys is what this is about. And rows of another table that a policy hides from us
        // are there all the same: it is an error, not a reason to refuse what refers to them. Numbers that
        // differ must not look the same.
        session
            .execute(
                "SET LOCAL work_mem = '64MB'; SET LOCAL row_security = off; SET LOCAL extra_float_digits = 1",
            )
            .map_err(failed)?;
        let mut waiting = Vec::new();
        for (number, target) in self.targets().iter().enumerate() {
            let (pieces, heaps): (Vec<usize>, Vec<QualifiedName>) = match target.stage() {
                Stage::Target => continue,
                Stage::Staging => {
                    let filled = committed.iter().filter(|p| p.table == number && p.rows > 0);
                    (filled.map(|piece| piece.piece).take(1).collect(), vec![target.staging(plan)?])
                }
                Stage::Pieces => {
                    let loaded = partitions::loaded_pieces(session, plan, number, target)?;
                    loaded.into_iter().map(|its| (its.piece.number, its.name)).unzip()
                }
            };
            let columns = plan.tables[number].shape.columns.iter();
            let names = columns.map(|column| quote_identifier(&column.name).map_err(failed));
            let names = names.collect::<Result<_>>()?;
            waiting.push(Waiting { number, target, heaps, names, pieces });
        }
        forget_references(session, &waiting)?;
        for pass in [Pass::Together, Pass::OneByOne] {
            if self.reject_in_a_pass(session, plan, sources, taken, pass, &waiting)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks through each table in one way; whether any row was taken out.
    fn reject_in_a_pass(
        &self,
        session: &mut Session,
        plan: &Plan,
        sources: &mut dyn Reread,
        taken: &mut Taken,
        pass: Pass,
        waiting: &[Waiting<'_>],
    ) -> Result<bool> {
        let mut has_removed = false;
        for Waiting { number, target, heaps, names, pieces } in waiting {
            let number = *number;
            let found = &plan.tables[number];
            let columns = found.shape.columns.iter().zip(names);
            let lasting = columns
                .filter(|(column, _)| found.lineage_of(column) != Some(Says::LoadedAt))
                .map(|(_, name)| name.clone())
                .collect();
            let table = Checked { plan, number, target, heaps, names, lasting, others: waiting };
            let refused = reject(session, &table, sources, pass).map_err(|error| match error {
                Error::Destination { message, hint, kind } => Error::Destination {
                    message: format!(
                        "looking for rows of {} that violate constraints: {message}",
                        target.name()
                    ),
                    hint,
                    kind,
                },
                other => other,
            })?;
            let (Some(refused), Some(like)) = (refused, heaps.first()) else { continue };
            has_removed = true;
            let by_piece = sources.refuse(number, refused)?;
            if let Some(ledger) = self.ledger() {
                crate::ledger::pieces::refuse(session, ledger, &by_piece)?;
            }
            taken.sums.extend(self.keep_removed(session, plan, number, like, REMOVED, pieces)?);
            taken.deleted.extend(deleted(session, heaps)?);
            for name in [REMOVED, CANDIDATES, MATCHED] {
                session.execute(&format!("DROP TABLE {name}")).map_err(failed)?;
            }
        }
        Ok(has_removed)
    }
}

/// Drops foreign keys between the new tables, which an attempt to publish has added and the next one adds again: a row
/// that is taken out would take others with it, or could not go.
fn forget_references(session: &mut Session, waiting: &[Waiting<'_>]) -> Result<()> {
    let heaps = oids(session, waiting.iter().flat_map(|table| &table.heaps)).map_err(failed)?;
    let heaps: Vec<String> = heaps.iter().map(ToString::to_string).collect();
    let keys = session
        .query(&format!(
            "SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) AS sql
               FROM pg_constraint, (SELECT ARRAY[{}]::oid[] AS oids) AS heaps
              WHERE contype = 'f' AND conparentid = 0
                AND confrelid = ANY (oids) AND conrelid = ANY (oids)",
            heaps.join(", ")
        ))
        .map_err(failed)?;
    for key in &keys {
        session.execute(&key.text("sql")).map_err(failed)?;
    }
    Ok(())
}

/// The numbers of tables, 0 of one that is not there.
fn oids<'t>(
    session: &mut Session,
    tables: impl IntoIterator<Item = &'t QualifiedName>,
) -> std::result::Result<Vec<u32>, ConnectionError> {
    let names = tables.into_iter().map(|table| quote_literal(&table.to_string()));
    let rows = session.query(&format!(
        "SELECT to_regclass(name)::oid AS oid FROM unnest(ARRAY[{}]::text[])
           WITH ORDINALITY AS of (name, place) ORDER BY place",
        names.collect::<std::result::Result<Vec<_>, _>>()?.join(", ")
    ))?;
    Ok(rows.iter().map(|row| row.number("oid").unwrap_or_default()).collect())
}

/// Looks through one table; what is rejected by its number among the candidates, none where nothing was to be
/// taken out.
fn reject(
    session: &mut Session,
    table: &Checked<'_>,
    sources: &mut dyn Reread,
    pass: Pass,
) -> Result<Option<Vec<Refusal>>> {
    let Some(first) = table.heaps.first() else { return Ok(None) };
    if table.names.iter().any(|name| name.starts_with("\"fullbore_")) {
        // Our own columns go by such names.
        return Ok(None);
    }
    session
        .execute(&format!(
            "CREATE TEMP TABLE fullbore_removed ON COMMIT DROP AS
             SELECT {}, 0 AS fullbore_reason, 0 AS fullbore_heap, ctid AS fullbore_tid FROM {first} WITH NO DATA",
            table.list("")
        ))
        .map_err(failed)?;
    let mut reasons = Vec::new();
    let unique = keys::unique(session, table)?;
    let mut alone = 0;
    let removed = match pass {
        // Where it can't be asked, what its keys say is better than nothing.
        Pass::Together if table.is_judged_by_target() && trial::is_possible(session, table)? => 0,
        Pass::Together => {
            alone = references::take_out(session, table, &mut reasons)?;
            alone + keys::note(session, table, &unique)?
        }
        Pass::OneByOne if table.joins_target() => trial::take_out(session, table, &mut reasons)?,
        Pass::OneByOne => 0,
    };
    if removed == 0 {
        session.execute(&format!("DROP TABLE {REMOVED}")).map_err(failed)?;
        return Ok(None);
    }
    tracing::info!(table = %table.target.name(), rows = removed, "rows are looked for in the files");
    // What shares a key is known by it.
    let of_keys = pass == Pass::Together && alone == 0;
    let picker = image::Picker::of(session, table, if of_keys { &unique } else { &[] })?;
    make_candidates(session, table)?;
    let list = format!("fullbore_place, {}", table.list(""));
    let mut given = 0u64;
    let columns = picker.columns().to_vec();
    sources.rows(table.number, &columns, &|batch| picker.is_wanted(batch), &mut |rows| {
        copy_candidates(session, table, &list, rows, given)?;
        given += rows.rows;
        Ok(())
    })?;
    match_up(session, table, removed)?;
    // Where they are too many, all is rolled back: none but the first that is too many must be known.
    let most = sources.room().saturating_add(1);
    let mut refused = known_reasons(session, &reasons, most)?;
    refused.extend(order::decide(session, table, &unique, most)?);
    keys::settle(session, table, &unique)?;
    Ok(Some(refused))
}

/// How many rows are deleted from each heap by now.
fn deleted(session: &mut Session, heaps: &[QualifiedName]) -> Result<Vec<(QualifiedName, u64)>> {
    let counts = format!("SELECT fullbore_heap AS heap, count(*) AS n FROM {REMOVED} GROUP BY 1");
    let rows = session.query(&counts).map_err(failed)?;
    let of = |row: &Row| {
        let heap: usize = row.number("heap")?;
        Some((heaps.get(heap)?.clone(), row.number("n")?))
    };
    Ok(rows.iter().filter_map(of).collect())
}

fn make_candidates(session: &mut Session, table: &Checked<'_>) -> Result<()> {
    let made = format!(
        "CREATE TEMP TABLE fullbore_candidates ON COMMIT DROP AS
         SELECT 0::bigint AS fullbore_place, {} FROM {} WITH NO DATA",
        table.list(""),
        table.heaps[0]
    );
    session.execute(&made).map(drop).map_err(failed)
}

/// Takes candidates in, from number `first` on. What is no row of the table was rejected before.
fn copy_candidates(
    session: &mut Session,
    table: &Checked<'_>,
    list: &str,
    rows: TextRows<'_>,
    first: u64,
) -> Result<()> {
    let numbered = crate::fallback::row_by_row::numbered_from(rows, first);
    let target = JudgeTarget {
        table: CANDIDATES,
        bare_name: "fullbore_candidates",
        column_list: list,
        freeze: false,
        columns: table.columns(),
        is_numbered: true,
    };
    let parts = [numbered.as_slice()];
    let rows = TextRows { parts: &parts, rows: rows.rows };
    server_check::judge_at_any_price(session, &target, rows).map(drop).map_err(failed)
}

/// Finds the records of the rows that were noted or removed: those that are the same in every column. Where
/// only some of several same rows were removed, these are the last ones.
fn match_up(session: &mut Session, table: &Checked<'_>, removed: u64) -> Result<()> {
    session
        .execute(&format!(
            "ANALYZE {REMOVED} (fullbore_heap, fullbore_tid), {CANDIDATES} (fullbore_place);
             CREATE TEMP TABLE fullbore_matched ON COMMIT DROP AS
             SELECT fullbore_place, {columns}, fullbore_reason, fullbore_heap, fullbore_tid
               FROM (SELECT *, row_number() OVER (PARTITION BY fullbore_image ORDER BY fullbore_place DESC)
                            AS fullbore_nth
                       FROM (SELECT *, {image} AS fullbore_image FROM {CANDIDATES}) c) c
               JOIN (SELECT *, row_number() OVER (PARTITION BY fullbore_image ORDER BY fullbore_tid DESC)
                            AS fullbore_nth
                       FROM (SELECT fullbore_reason, fullbore_heap, fullbore_tid, {image} AS fullbore_image
                               FROM {REMOVED}) r) r
              USING (fullbore_image, fullbore_nth)",
            columns = table.list(""),
            image = table.image("")
        ))
        .map_err(failed)?;
    let found = session.query(&format!("SELECT count(*) AS n FROM {MATCHED}")).map_err(failed)?;
    let found: u64 = found.first().and_then(|row| row.get("n")?.parse().ok()).unwrap_or(0);
    if found == removed {
        return Ok(());
    }
    Err(Error::Destination {
        message: format!(
            "{removed} rows violate a key, but only {found} of them were found in the files"
        ),
        hint: Some(
            "a trigger or another session may have changed the rows; nothing was published".into(),
        ),
        kind: DestinationFailure::Other,
    })
}

/// The refusals of rows whose reason was known when they were taken out, `most` of them.
fn known_reasons(session: &mut Session, reasons: &[Reason], most: u64) -> Result<Vec<Refusal>> {
    let keys: Vec<String> = reasons
        .iter()
        .enumerate()
        .filter_map(|(number, reason)| {
            Some(format!(" WHEN {number} THEN ({})::text", reason.key.as_ref()?))
        })
        .collect();
    let key = match keys.is_empty() {
        true => "NULL".to_owned(),
        false => format!("CASE fullbore_reason{} END", keys.concat()),
    };
    let rows = session
        .query(&format!(
            "SELECT fullbore_place AS place, fullbore_reason AS reason, {key} AS key
               FROM {MATCHED} m WHERE fullbore_reason <> {SHARED_KEY} ORDER BY 1
              LIMIT {most}"
        ))
        .map_err(|error| failed_while(error, "telling why rows are rejected"))?;
    let refused = rows.iter().filter_map(|row| {
        let reason: usize = row.get("reason")?.parse().ok()?;
        refusal(row, reasons.get(reason)?)
    });
    Ok(refused.collect())
}

/// The refusal that a row of `place` and `key` tells.
fn refusal(row: &Row, reason: &Reason) -> Option<Refusal> {
    let key = row.get("key").map(str::to_owned);
    Some(Refusal {
        row: row.get("place")?.parse().ok()?,
        column: reason.column.clone(),
        value: key.clone(),
        constraint: reason.constraint.clone(),
        code: reason.code.clone(),
        reason: match key {
            Some(key) => reason.words.replace("{key}", &key),
            None => reason.words.clone(),
        },
    })
}
