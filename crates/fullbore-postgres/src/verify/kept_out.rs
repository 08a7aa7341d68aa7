//! Compares the server's row count with ours. A table can silently skip copied rows (by a trigger, for
//! example): then the server counts fewer rows than were sent, which is not an error.

use fullbore_pgwire::{ConnectionError, Session, quote_literal};
use fullbore_read::error::{DestinationFailure, Error, Result};

use crate::error::failed;

/// A trigger that is called for each row before it is inserted, may return nothing; so may the server
/// behind a foreign table. Bits of `tgtype`: 1 for each row, 2 before, 4 insert.
const MAY: &str = "
    SELECT EXISTS (
        SELECT FROM (SELECT {table}::regclass AS oid
                     UNION SELECT relid FROM pg_partition_tree({table}::regclass)) AS tree
          JOIN pg_class c ON c.oid = tree.oid
         WHERE c.relkind = 'f'
            OR EXISTS (SELECT FROM pg_trigger t
                        WHERE t.tgrelid = c.oid AND t.tgtype & 7 = 7 AND t.tgenabled <> 'D')) AS may";

/// Refuses a count that is not that of the rows which were sent; how many the table kept out.
pub fn check_count(session: &mut Session, table: &str, sent: u64, counted: u64) -> Result<u64> {
    if counted == sent {
        return Ok(0);
    }
    if counted < sent && may_keep_rows_out(session, table).map_err(failed)? {
        return Ok(sent - counted);
    }
    Err(Error::Destination {
        message: format!("{sent} rows were sent to {table}, but the server counted {counted}"),
        hint: Some("none of them is kept; report this as a bug".into()),
        kind: DestinationFailure::Differs,
    })
}

/// Asked only where a count is short.
pub fn may_keep_rows_out(session: &mut Session, table: &str) -> Result<bool, ConnectionError> {
    let rows = session.query(&MAY.replace("{table}", &quote_literal(table)?))?;
    Ok(rows.first().is_some_and(|row| row.flag("may")))
}
