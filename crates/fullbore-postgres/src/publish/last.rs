//! The last transaction of a run.

use fullbore_pgwire::Session;
use fullbore_pgwire::session::path;
use fullbore_read::error::Result;

use crate::error::failed;

/// Begins a transaction whose commit writes to the log, whatever it does: so the commit waits, in
/// the way that the session's `synchronous_commit` asks for, for its own record and for those of all
/// pieces, which did not wait for theirs. (A transaction that wrote no record doesn't wait, whether it
/// has a number or not: `RecordTransactionCommit` in PostgreSQL's xact.c.)
pub const BEGIN: &str =
    "BEGIN; SELECT pg_logical_emit_message(true, 'fullbore', 'the end of a run')";

/// The same for a transaction that is open.
pub const LOG: &str = "SELECT pg_logical_emit_message(true, 'fullbore', 'the end of a run')";

pub fn commit(session: &mut Session) -> Result<()> {
    session.execute(path::COMMIT).map_err(failed)?;
    Ok(())
}
