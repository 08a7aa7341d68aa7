//! The parts in which rows of `upsert` are merged with those of their target: which are done, and what of it.
//!
//! A round is one ranking of all rows; a crash of the server, which empties unlogged tables, makes another
//! one necessary. Parts of earlier rounds stay, for what they did is done: a row that was inserted then is found
//! unchanged by the next round.

use fullbore_pgwire::{Session, quote_literal};
use fullbore_read::error::Result;

use super::Ledger;
use super::read::{LedgerRow, numbers, rows};
use super::schema::{self, Further};
use crate::error::{failed, failed_while};

/// The ledger's table, made by the first upsert.
const TABLE: Further = Further {
    name: "merges",
    statement: "
        CREATE TABLE IF NOT EXISTS {s}.merges (
            run text NOT NULL REFERENCES {s}.runs ON DELETE CASCADE,
            target integer NOT NULL,
            round integer NOT NULL,
            part integer NOT NULL,
            first_page bigint NOT NULL,
            end_page bigint NOT NULL,
            rows bigint,
            inserted bigint,
            updated bigint,
            deleted bigint,
            merged timestamptz,
            PRIMARY KEY (run, target, round, part)
        );
        COMMENT ON TABLE {s}.merges IS 'Fullbore: what each part of an upsert did; docs/guides/upsert.md';",
    first: "load once with --publish upsert as the owner of the ledger",
    instead: "merge in one transaction with --atomic",
};

/// A stretch of the ranked rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub number: u32,
    /// Pages of their table, from 0.
    pub first: u64,
    /// Exclusive.
    pub end: u64,
    pub is_done: bool,
}

/// The parts of one ranking.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Round {
    pub number: u32,
    pub parts: Vec<Part>,
}

/// What was done with rows that were merged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Rows, one for each key.
    pub rows: u64,
    pub inserted: u64,
    pub updated: u64,
    /// Rows of the target that were missing among them.
    pub deleted: u64,
}

/// Makes the table, where it is not there.
pub fn make(session: &mut Session, schema: &str) -> Result<()> {
    schema::make_further(session, schema, &TABLE)
}

fn of_run(ledger: &Ledger, target: usize) -> Result<String> {
    Ok(format!("run = {} AND target = {target}", quote_literal(&ledger.run_id).map_err(failed)?))
}

/// The last round of a target; one without number or parts where there was none.
pub fn last_round(session: &mut Session, ledger: &Ledger, target: usize) -> Result<Round> {
    let (schema, its) = (&ledger.schema, of_run(ledger, target)?);
    let sql = format!(
        "SELECT round, part, first_page, end_page, merged IS NOT NULL AS is_done FROM {schema}.merges
          WHERE {its} AND round = (SELECT max(round) FROM {schema}.merges WHERE {its}) ORDER BY part"
    );
    let mut round = Round::default();
    for row in &rows(session, &sql).map_err(failed)? {
        round.number = row.number("round")?;
        round.parts.push(part(row)?);
    }
    Ok(round)
}

fn part(row: &LedgerRow) -> Result<Part> {
    Ok(Part {
        number: row.number("part")?,
        first: row.number("first_page")?,
        end: row.number("end_page")?,
        is_done: row.flag("is_done"),
    })
}

/// Writes a round down, in the transaction that ranks the rows.
pub fn begin_round(
    session: &mut Session,
    ledger: &Ledger,
    target: usize,
    round: &Round,
) -> Result<()> {
    let run = quote_literal(&ledger.run_id).map_err(failed)?;
    let (schema, attempt, number) = (&ledger.schema, ledger.attempt(), round.number);
    let parts = round.parts.iter().map(|part| {
        let Part { number, first, end, .. } = part;
        format!("({number}, {first}, {end})")
    });
    let parts = parts.collect::<Vec<_>>().join(", ");
    let written = session
        .execute(&format!(
            "WITH held AS (SELECT run FROM {schema}.runs
                            WHERE run = {run} AND attempt = {attempt} AND state = 'loading' FOR KEY SHARE)
             INSERT INTO {schema}.merges (run, target, round, part, first_page, end_page)
             SELECT held.run, {target}, {number}, p.* FROM held, (VALUES {parts}) AS p"
        ))
        .map_err(|error| failed_while(error, "writing to the ledger"))?;
    if written == round.parts.len() as u64 { Ok(()) } else { Err(ledger.taken_over()) }
}

/// Begins a part in the transaction that is open; whether it is still to be done.
pub fn claim(
    session: &mut Session,
    ledger: &Ledger,
    target: usize,
    round: u32,
    part: u32,
) -> Result<bool> {
    let run = quote_literal(&ledger.run_id).map_err(failed)?;
    let (schema, attempt) = (&ledger.schema, ledger.attempt());
    let found = rows(
        session,
        &format!(
            "SELECT m.merged IS NULL AS is_open FROM {schema}.runs r
               JOIN {schema}.merges m ON m.run = r.run AND m.target = {target}
                                     AND m.round = {round} AND m.part = {part}
              WHERE r.run = {run} AND r.attempt = {attempt} AND r.state = 'loading'
                FOR KEY SHARE OF r FOR UPDATE OF m"
        ),
    )
    .map_err(|error| failed_while(error, "reading the ledger"))?;
    match found.first() {
        Some(row) => Ok(row.flag("is_open")),
        None => Err(ledger.taken_over()),
    }
}

/// Completes a part, in the transaction that is open.
pub fn complete(
    session: &mut Session,
    ledger: &Ledger,
    target: usize,
    (round, part): (u32, u32),
    done: Done,
) -> Result<()> {
    let Done { rows, inserted, updated, .. } = done;
    let sql = format!(
        "UPDATE {}.merges SET rows = {rows}, inserted = {inserted}, updated = {updated},
                merged = clock_timestamp()
          WHERE {} AND round = {round} AND part = {part}",
        ledger.schema,
        of_run(ledger, target)?
    );
    session.execute(&sql).map(drop).map_err(|error| failed_while(error, "writing to the ledger"))
}

/// What all parts of a target did, and how many of the last round are left.
pub fn totals(session: &mut Session, ledger: &Ledger, target: usize) -> Result<(Done, u64)> {
    let (schema, its) = (&ledger.schema, of_run(ledger, target)?);
    let [rows, inserted, updated, deleted, left] = numbers(
        session,
        &format!(
            "SELECT coalesce(sum(rows) FILTER (WHERE round = last_round), 0) AS rows,
                    coalesce(sum(inserted), 0) AS inserted, coalesce(sum(updated), 0) AS updated,
                    coalesce(sum(deleted), 0) AS deleted,
                    count(*) FILTER (WHERE round = last_round AND merged IS NULL) AS left
               FROM (SELECT *, max(round) OVER () AS last_round FROM {schema}.merges WHERE {its}) m"
        ),
        ["rows", "inserted", "updated", "deleted", "left"],
    )?;
    Ok((Done { rows, inserted, updated, deleted }, left))
}

/// Says that so many rows of the target were deleted, with the last part of its last round.
pub fn note_deleted(
    session: &mut Session,
    ledger: &Ledger,
    target: usize,
    deleted: u64,
) -> Result<()> {
    let (schema, its) = (&ledger.schema, of_run(ledger, target)?);
    let sql = format!(
        "UPDATE {schema}.merges SET deleted = {deleted} WHERE {its} AND (round, part) =
             (SELECT round, part FROM {schema}.merges WHERE {its} ORDER BY round DESC, part DESC LIMIT 1)"
    );
    session.execute(&sql).map(drop).map_err(|error| failed_while(error, "writing to the ledger"))
}

/// How many rows a run has inserted or updated; none where it never merged any.
pub fn done(session: &mut Session, schema: &str, run_id: &str) -> Result<u64> {
    if !schema::is_made(session, schema, &TABLE).map_err(failed)? {
        return Ok(0);
    }
    let run = quote_literal(run_id).map_err(failed)?;
    let sql = format!(
        "SELECT coalesce(sum(inserted + updated), 0) AS done FROM {schema}.merges WHERE run = {run}"
    );
    let [done] = numbers(session, &sql, ["done"])?;
    Ok(done)
}
