//! Loads rows sent as text a second time, into a temporary table, to get their sums: the server stores the
//! same values there as in the target.

use fullbore_load::plan::Plan;
use fullbore_load::sink::{Refusal, TextRows};
use fullbore_load::sums::Sums;
use fullbore_pgwire::{ConnectionError, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};

use super::sql::Detail;
use super::sql::Formula;
use crate::error::{failed, failed_while};
use crate::fallback::server_check::{self, JudgeTarget};
use crate::postgres::Postgres;

/// The server's word for a right that is missing.
const NOT_ALLOWED: &str = "42501";

/// A temporary table beside a piece's own, as long as the piece's transaction.
pub struct Beside {
    name: String,
    formula: Formula,
    sums: Sums,
}

impl Beside {
    /// Makes it, in the transaction of the piece that fills `table`.
    pub fn make(
        postgres: &Postgres,
        session: &mut Session,
        plan: &Plan,
        table: usize,
        filled: &str,
        column_list: &str,
    ) -> Result<Self> {
        let name = format!("fullbore_{}_{table}", plan.run_id);
        session
            .execute(&format!(
                "CREATE TEMPORARY TABLE {name} ON COMMIT DROP AS
                     SELECT {column_list} FROM {filled} WITH NO DATA"
            ))
            .map_err(not_made)?;
        let columns = postgres.summed_columns(plan, table)?;
        let formula =
            Formula::of(session, postgres.hash_kind(), &format!("pg_temp.{name}"), &columns)?;
        Ok(Self { name, formula, sums: Sums::of_columns(columns.len()) })
    }

    /// Takes rows; those that the server refused come back, the others are in the sums.
    pub fn judge(
        &mut self,
        session: &mut Session,
        plan: &Plan,
        table: usize,
        column_list: &str,
        rows: TextRows<'_>,
    ) -> Result<Vec<Refusal>, ConnectionError> {
        let qualified = format!("pg_temp.{}", self.name);
        let target = JudgeTarget {
            table: &qualified,
            bare_name: &self.name,
            column_list,
            freeze: false,
            columns: &plan.tables[table],
            is_numbered: false,
        };
        let (_, refusals) = server_check::judge(session, &target, rows)?;
        self.sums.merge(&self.formula.total(session, &qualified, Detail::Everything)?);
        session.execute(&format!("TRUNCATE {qualified}"))?;
        Ok(refusals)
    }

    pub fn sums(&self) -> &Sums {
        &self.sums
    }
}

fn not_made(error: ConnectionError) -> Error {
    let message = "making a temporary table for the sums of rows that go as text";
    match error.sqlstate() {
        Some(NOT_ALLOWED) => Error::Destination {
            message: format!("{message}: {error}"),
            hint: Some("GRANT TEMPORARY ON DATABASE to the role, or omit --verify full".into()),
            kind: DestinationFailure::Other,
        },
        _ => failed_while(error, message),
    }
}

/// The lines of `rows` that were not refused. The refusals are in the order of the rows.
pub fn accepted(rows: TextRows<'_>, refusals: &[Refusal]) -> Vec<u8> {
    let mut refused = refusals.iter().map(|refusal| refusal.row).peekable();
    let lines = rows.parts.iter().flat_map(|part| part.split_inclusive(|byte| *byte == b'\n'));
    let mut accepted = Vec::new();
    for (row, line) in lines.enumerate() {
        match refused.next_if_eq(&(row as u64)) {
            Some(_) => {}
            None => accepted.extend_from_slice(line),
        }
    }
    accepted
}

/// The rows that the server took beside the target, but not into it.
pub fn changed_its_mind(refusal: &Refusal) -> Error {
    failed(ConnectionError::protocol(format!(
        "the server took a row into a temporary table and refused it in the target: {}",
        refusal.reason
    )))
}
