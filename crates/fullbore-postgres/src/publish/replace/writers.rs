//! Rows that others write to a table while its replacement is loaded: found before the swap, or kept out.
//!
//! A row contains the id of the transaction that wrote it (`xmin`, even if frozen). So the run records,
//! when it begins ([`Baseline`]), the next transaction id and the ids of active transactions, including
//! subtransactions, which a snapshot omits. All other transactions had ended by then. Under a lock that
//! excludes writers, one scan finds every row committed since. Updated rows count as new. Deleted rows
//! cannot be found, except after TRUNCATE, which gives the table another file.
//!
//! Numbers in rows have 32 bits. Between baseline and swap fewer than 2^31 are given out; a row that is
//! older by 2^32 than one of these looks like it. That takes a server that has counted past 2^32.

use std::collections::BTreeMap;

use fullbore_load::plan::Plan;
use fullbore_pgwire::{QualifiedName, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};

use super::kept::Baseline;
use crate::catalog::XID_BITS;
use crate::error::failed_while;
use crate::ledger::{parts, runs};
use crate::postgres::Postgres;

/// So many numbers are looked at for those that are at work: a few seconds' work (0.2 s a million).
const LOOKED_AT_MAX: u64 = 20_000_000;

impl Baseline {
    /// The baseline as of now.
    pub fn take(session: &mut Session, table: &QualifiedName, oid: u32) -> Result<Self> {
        // One after the other: whoever has ended when it is asked about has committed all that it wrote.
        let rows = session
            .query(&format!(
                "WITH taken AS MATERIALIZED (
                    SELECT pg_snapshot_xmin(s)::text::bigint AS oldest,
                           pg_snapshot_xmax(s)::text::bigint AS next
                      FROM (SELECT pg_current_snapshot() AS s) AS now)
                 SELECT oldest, next, pg_relation_filenode({oid}) AS file,
                        NOT EXISTS (SELECT FROM ONLY {table}) AS is_empty,
                        (SELECT string_agg(x::text, ' ')
                           FROM generate_series(greatest(oldest, next - {LOOKED_AT_MAX}), next - 1) AS x
                          WHERE pg_xact_status(x::text::xid8) = 'in progress') AS running
                   FROM taken"
            ))
            .map_err(|error| failed_while(error, &format!("looking at {table}")))?;
        let row = rows.first().ok_or_else(|| odd(table))?;
        let number = |name: &str| row.get(name).and_then(|n| n.parse::<u64>().ok());
        let running = row.get("running").unwrap_or_default().split_whitespace();
        let next = number("next").ok_or_else(|| odd(table))?;
        let oldest = number("oldest").ok_or_else(|| odd(table))?;
        let looked_from = next.saturating_sub(LOOKED_AT_MAX);
        Ok(Self {
            next,
            unknown: (oldest < looked_from).then_some((oldest, looked_from)),
            running: running.filter_map(|xid| xid.parse().ok()).collect(),
            file: number("file").unwrap_or(0) as u32,
            is_empty: row.flag("is_empty"),
        })
    }

    /// Refuses the swap of a table that others have written to since, in the transaction that has locked
    /// their writers out.
    pub fn check(
        &self,
        session: &mut Session,
        table: &QualifiedName,
        oid: u32,
        run: &str,
    ) -> Result<()> {
        let age = |xid: u64| format!("age('{}'::xid)", xid & XID_BITS);
        // By their ages, the oldest first: from the baseline's next number to the one that is next now.
        let mut is_new = format!("age(t.xmin) BETWEEN a.next AND {}", age(self.next));
        if let Some((from, before)) = self.unknown {
            is_new += &format!(" OR age(t.xmin) BETWEEN {} AND {}", age(before - 1), age(from));
        }
        if !self.running.is_empty() {
            let running: Vec<String> =
                self.running.iter().map(|xid| (xid & XID_BITS).to_string()).collect();
            is_new += &format!(" OR t.xmin = ANY ('{{{}}}'::xid[])", running.join(","));
        }
        let rows = session
            .query(&format!(
                "SELECT count(t.xmin) AS rows, count(*) FILTER (WHERE {is_new}) AS new,
                        pg_relation_filenode({oid}) AS file
                   FROM (SELECT age((pg_snapshot_xmax(pg_current_snapshot())::text::bigint
                                     & {XID_BITS})::text::xid) AS next) AS a
                   LEFT JOIN ONLY {table} AS t ON true"
            ))
            .map_err(|error| failed_while(error, &format!("looking at {table}")))?;
        let row = rows.first().ok_or_else(|| odd(table))?;
        let number = |name: &str| row.get(name).and_then(|n| n.parse::<u64>().ok());
        let (Some(rows), Some(new), file) = (number("rows"), number("new"), number("file")) else {
            return Err(odd(table));
        };
        let has_other_file = file.is_some_and(|file| file != u64::from(self.file));
        if has_other_file && new > 0 && new == rows {
            // ALTER TABLE that writes all rows anew makes them its own.
            let (rows, it) = match new {
                1 => ("row", "it"),
                _ => ("rows", "them"),
            };
            return Err(written(
                run,
                &format!(
                    "{new} {rows} of {table} may be new, since the table was truncated or \
                     rewritten (TRUNCATE or ALTER TABLE) after this run began: replacing the table \
                     may lose {it}"
                ),
            ));
        }
        if new > 0 {
            let (rows, lost) = match new {
                1 => (
                    "row",
                    "was inserted or updated by others since this run began, and replacing the \
                              table would lose it",
                ),
                _ => (
                    "rows",
                    "were inserted or updated by others since this run began, and replacing the \
                               table would lose them",
                ),
            };
            return Err(written(run, &format!("{new} {rows} of {table} {lost}")));
        }
        if has_other_file && rows == 0 && !self.is_empty {
            return Err(written(
                run,
                &format!(
                    "{table} was emptied by another session since this run began, and replacing it \
                     would fill it again"
                ),
            ));
        }
        Ok(())
    }
}

/// The baselines of a run's tables, by number; of a load in parts those of the part that began first.
pub fn baselines(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
) -> Result<BTreeMap<usize, Baseline>> {
    let Some(ledger) = postgres.ledger() else { return Ok(postgres.baselines().clone()) };
    let mut ids = vec![plan.run_id.clone()];
    if let Some(part) = &plan.continuity.part {
        let parts = parts::of_whole(session, &ledger.schema, &part.whole)?;
        ids = parts.into_iter().map(|part| part.run_id.to_string()).collect();
    }
    let mut baselines: BTreeMap<usize, Baseline> = BTreeMap::new();
    for id in ids {
        let runs = runs::find(session, &ledger.schema, &runs::Which::Run(&id))?;
        for (number, table) in runs.iter().flat_map(|run| run.tables.iter().enumerate()) {
            let Some(found) = &table.baseline else { continue };
            if baselines.get(&number).is_none_or(|known| found.next < known.next) {
                baselines.insert(number, found.clone());
            }
        }
    }
    Ok(baselines)
}

fn written(run: &str, message: &str) -> Error {
    Error::Destination {
        message: message.to_owned(),
        hint: Some(format!(
            "the loaded rows are kept: `fullbore runs resume {run} --replace-anyway` replaces the \
             table anyway; --lock-writers blocks writers from the beginning"
        )),
        kind: DestinationFailure::Changed,
    }
}

fn odd(table: &QualifiedName) -> Error {
    Error::Destination {
        message: format!("the server does not say who wrote to {table}"),
        hint: None,
        kind: DestinationFailure::Other,
    }
}
