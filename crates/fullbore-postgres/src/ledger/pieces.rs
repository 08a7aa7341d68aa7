//! A piece's row: inserted first in its transaction, completed last.

use fullbore_load::sink::{Committed, Portion};
use fullbore_pgwire::{Session, quote_literal};
use fullbore_read::error::{Error, Result};

use super::Ledger;
use super::read::{LedgerRow, numbers, rows};
use crate::error::{failed, failed_while};
use crate::publish::unchanged::Planned;

/// The server's word for a key that is there already.
pub(super) const UNIQUE_VIOLATION: &str = "23505";

/// Which of the tables rows of pieces go to.
fn table(ledger: &Ledger, is_unlogged: bool) -> String {
    let name = if is_unlogged { "pieces_unlogged" } else { "pieces" };
    format!("{}.{name}", ledger.schema)
}

/// Begins a piece's transaction with its row. Of a piece that goes into its target itself, `planned` is
/// what that must be.
pub fn begin(
    session: &mut Session,
    ledger: &Ledger,
    begin: &str,
    piece: usize,
    target: usize,
    is_unlogged: bool,
    planned: Option<&Planned>,
) -> Result<()> {
    let run = quote_literal(&ledger.run_id).map_err(failed)?;
    let (schema, attempt) = (&ledger.schema, ledger.attempt());
    let table = table(ledger, is_unlogged);
    let and_planned = match planned {
        Some(planned) => format!(" AND {}", planned.condition()?),
        None => String::new(),
    };
    let inserted = session.execute(&format!(
        "{begin}; INSERT INTO {table} (run, piece, target, attempt, xid_from)
         SELECT run, {piece}, {target}, attempt, pg_current_xact_id() FROM {schema}.runs
          WHERE run = {run} AND attempt = {attempt} AND state = 'loading'{and_planned} FOR KEY SHARE"
    ));
    match inserted {
        Ok(0) => {
            if let Some(planned) = planned {
                planned.check(session)?;
            }
            Err(ledger.taken_over())
        }
        Ok(_) => Ok(()),
        Err(error) if error.sqlstate() == Some(UNIQUE_VIOLATION) => {
            Err(committed_by_another(&failed(error), piece))
        }
        Err(error) => Err(failed_while(error, "writing to the ledger")),
    }
}

/// The next round finds out by whom, and whether it is to be repeated.
fn committed_by_another(error: &Error, piece: usize) -> Error {
    Error::Destination {
        message: format!("piece {piece} is in the ledger already: {error}"),
        hint: None,
        kind: fullbore_read::error::DestinationFailure::Lost,
    }
}

/// The statement that completes a piece's row.
pub fn completion(
    ledger: &Ledger,
    piece: usize,
    is_unlogged: bool,
    rows: u64,
    portion: &Portion,
) -> Result<String> {
    let source = serde_json::to_string(&portion.ranges).expect("plain data becomes JSON");
    let checksum = match portion.checksum {
        Some(checksum) => format!("'{checksum:016x}'"),
        None => "NULL".into(),
    };
    let (bytes, rejected) = (portion.bytes, portion.rejected);
    Ok(format!(
        "UPDATE {} SET rows = {rows}, rejected = {rejected}, bytes = {bytes}, source = {},
                checksum = {checksum}, committed = clock_timestamp()
          WHERE run = {} AND piece = {piece}",
        table(ledger, is_unlogged),
        quote_literal(&source).map_err(failed)?,
        quote_literal(&ledger.run_id).map_err(failed)?,
    ))
}

/// Rows of pieces that are committed were taken out and rejected, by pieces so many.
pub fn refuse(session: &mut Session, ledger: &Ledger, by_piece: &[(usize, u64)]) -> Result<()> {
    let run = quote_literal(&ledger.run_id).map_err(failed)?;
    for (piece, rows) in by_piece {
        session
            .execute(&format!(
                "UPDATE {}.pieces SET rows = rows - {rows}, rejected = rejected + {rows}
                  WHERE run = {run} AND piece = {piece}",
                ledger.schema
            ))
            .map_err(|error| failed_while(error, "writing to the ledger"))?;
    }
    Ok(())
}

/// The pieces of a run that are committed.
pub fn committed(session: &mut Session, schema: &str, run_id: &str) -> Result<Vec<Committed>> {
    let sql = format!(
        "SELECT run, piece, target, rows, rejected, bytes, source, checksum FROM {schema}.pieces
          WHERE run = {} ORDER BY piece",
        quote_literal(run_id).map_err(failed)?
    );
    rows(session, &sql).map_err(failed)?.iter().map(read).collect()
}

fn read(row: &LedgerRow) -> Result<Committed> {
    Ok(Committed {
        piece: row.number("piece")?,
        table: row.number("target")?,
        rows: row.number("rows")?,
        portion: Portion {
            rejected: row.number("rejected")?,
            bytes: row.number("bytes")?,
            ranges: row.json("source")?,
            checksum: row.checksum("checksum")?,
            ..Portion::default()
        },
    })
}

/// The transactions that committed the pieces of a table that have rows.
pub fn transactions(
    session: &mut Session,
    schema: &str,
    run_id: &str,
    target: usize,
) -> Result<Vec<u64>> {
    let sql = format!(
        "SELECT run, xid_from FROM {schema}.pieces
          WHERE run = {} AND target = {target} AND rows > 0",
        quote_literal(run_id).map_err(failed)?
    );
    rows(session, &sql).map_err(failed)?.iter().map(|row| row.number("xid_from")).collect()
}

/// The pieces of a table are as if they had never been committed.
pub fn forget(session: &mut Session, schema: &str, run_id: &str, target: usize) -> Result<()> {
    let run = quote_literal(run_id).map_err(failed)?;
    session
        .execute(&format!("DELETE FROM {schema}.pieces WHERE run = {run} AND target = {target}"))
        .map_err(|error| failed_while(error, "writing to the ledger"))?;
    Ok(())
}

/// Pieces and rows that are committed.
pub fn count(session: &mut Session, schema: &str, run_id: &str) -> Result<(u64, u64)> {
    let sql = format!(
        "SELECT count(*) AS pieces, coalesce(sum(rows), 0) AS rows FROM {schema}.pieces
          WHERE run = {}",
        quote_literal(run_id).map_err(failed)?
    );
    let [pieces, rows] = numbers(session, &sql, ["pieces", "rows"])?;
    Ok((pieces, rows))
}
