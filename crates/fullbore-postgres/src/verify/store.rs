//! Where the sums of committed pieces are kept: a table of the ledger's schema, created by the first run
//! with `--verify full`.
//!
//! It is a table of its own, so that ledgers that were made before need no change. A piece's row is
//! written in the transaction of the piece; one without its piece, as a crash leaves it of pieces in
//! unlogged tables, means nothing and is written over.

use std::collections::BTreeMap;

use fullbore_load::sums::Sums;
use fullbore_pgwire::{ConnectionError, Session, quote_literal};
use fullbore_read::error::Result;

use super::state::PieceProof;
use crate::error::{failed, refuse};
use crate::ledger::Ledger;
use crate::ledger::read::{LedgerRow, rows};
use crate::ledger::schema::{self, Further};

pub const TABLE: Further = Further {
    name: "checksums",
    statement: "
        CREATE TABLE IF NOT EXISTS {s}.checksums (
            run text NOT NULL REFERENCES {s}.runs ON DELETE CASCADE,
            piece integer NOT NULL,
            proof text NOT NULL,
            PRIMARY KEY (run, piece)
        );
        COMMENT ON TABLE {s}.checksums IS
            'Fullbore: the sums of each committed piece; docs/guides/verify.md';",
    first: "load once with --verify full as the owner of the ledger",
    instead: "omit --verify full",
};

/// Makes the table, where it is not there.
pub fn make(session: &mut Session, schema: &str) -> Result<()> {
    schema::make_further(session, schema, &TABLE)
}

fn exists(session: &mut Session, schema: &str) -> Result<bool, ConnectionError> {
    schema::is_made(session, schema, &TABLE)
}

/// The statement that keeps a piece's proof.
pub fn statement(ledger: &Ledger, piece: usize, proof: &PieceProof) -> Result<String> {
    let text = serde_json::to_string(&proof).expect("plain data becomes JSON");
    Ok(format!(
        "INSERT INTO {}.checksums (run, piece, proof) VALUES ({}, {piece}, {})
             ON CONFLICT (run, piece) DO UPDATE SET proof = excluded.proof",
        ledger.schema,
        quote_literal(&ledger.run_id).map_err(failed)?,
        quote_literal(&ascii(&text)).map_err(failed)?
    ))
}

/// Keeps what was taken out of the table of a piece, in the transaction that takes it out.
pub fn add_removed(
    session: &mut Session,
    ledger: &Ledger,
    piece: usize,
    removed: &Sums,
) -> Result<()> {
    let Some(mut proof) = read(session, &ledger.schema, &ledger.run_id)?.remove(&piece) else {
        return Err(refuse(
            format!("the ledger has no checksums of piece {piece}"),
            "the ledger was changed outside Fullbore",
        ));
    };
    proof.removed.get_or_insert_default().merge(removed);
    session.execute(&statement(ledger, piece, &proof)?).map(drop).map_err(failed)
}

/// JSON in ASCII alone, which a database of any encoding can hold.
fn ascii(json: &str) -> String {
    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        match character.is_ascii() {
            true => ascii.push(character),
            false => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    ascii.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    ascii
}

/// The proofs of a run's committed pieces; empty where it was loaded without.
pub fn read(session: &mut Session, schema: &str, run: &str) -> Result<BTreeMap<usize, PieceProof>> {
    if !exists(session, schema).map_err(failed)? {
        return Ok(BTreeMap::new());
    }
    let sql = format!(
        "SELECT c.run, c.piece, c.proof FROM {schema}.checksums c
           JOIN {schema}.pieces p ON p.run = c.run AND p.piece = c.piece
          WHERE c.run = {}",
        quote_literal(run).map_err(failed)?
    );
    let read = |row: &LedgerRow| Ok((row.number("piece")?, row.json("proof")?));
    rows(session, &sql).map_err(failed)?.iter().map(read).collect()
}

/// The transaction that is open, as rows tell it. All rows of a piece that is summed are written by it
/// alone: savepoints would be transactions of their own, whose numbers nobody could ask for afterwards.
pub fn transaction(session: &mut Session) -> Result<u32, ConnectionError> {
    let rows = rows(session, "SELECT pg_current_xact_id()::xid AS xid")?;
    let xid = rows.first().and_then(|row| row.number("xid").ok());
    xid.ok_or_else(|| ConnectionError::protocol("the server did not tell its transaction"))
}
