//! Locks a target as an INSERT will.

use fullbore_pgwire::{QualifiedName, Session, quote_literal};
use fullbore_read::error::Result;

use crate::error::{failed, failed_while};

/// Whether the partitions of a table are locked with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partitions {
    Too,
    Not,
}

/// Locks a table as an INSERT will, where the role may: of a table whose columns alone it was granted,
/// and of a foreign one, the INSERT itself is the first to lock it.
pub fn lock(session: &mut Session, name: &QualifiedName, partitions: Partitions) -> Result<()> {
    let literal = quote_literal(&name.to_string()).map_err(failed)?;
    let may = format!(
        "SELECT relkind IN ('r', 'p') AND has_table_privilege(oid, 'INSERT') AS may
           FROM pg_class WHERE oid = to_regclass({literal})"
    );
    let rows = session.query(&may).map_err(failed)?;
    if rows.first().is_some_and(|row| row.flag("may")) {
        let only = if partitions == Partitions::Too { "" } else { "ONLY " };
        session
            .execute(&format!("LOCK TABLE {only}{name} IN ROW EXCLUSIVE MODE"))
            .map_err(|error| failed_while(error, &format!("appending to {name}")))?;
    }
    Ok(())
}
