//! How large a table and its partitions are.

use fullbore_pgwire::{ConnectionError, QualifiedName, Row, Session, quote_literal};
use fullbore_read::error::Result;
use serde::{Deserialize, Serialize};

use super::statistics;
use crate::error::failed;

/// Partitions whose sizes are noted as a run begins.
const LEAVES_MAX: usize = 1000;

/// How large a table's file was as the run began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    pub oid: u32,
    pub file: u32,
    pub blocks: u64,
    /// Rows that were deleted or updated since the server's statistics began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<u64>,
}

/// A table with rows of its own: the target, or a partition of it.
pub struct Leaf {
    pub name: QualifiedName,
    pub now: Extent,
    pub is_plain: bool,
    pub may_read: bool,
    pub is_filtered: bool,
}

/// Pages of a table; `None` where there is none of that name.
pub fn pages(session: &mut Session, table: &QualifiedName) -> Result<Option<u64>> {
    let name = quote_literal(&table.to_string()).map_err(failed)?;
    let rows = session
        .query(&format!(
            "SELECT pg_relation_size(to_regclass({name}))
                    / current_setting('block_size')::bigint AS pages"
        ))
        .map_err(failed)?;
    Ok(rows.first().and_then(|row| row.number("pages")))
}

const LEAVES: &str = "
    SELECT l.oid, n.nspname, l.relname, l.relkind IN ('r', 't', 'm') AS is_plain,
           coalesce(pg_relation_filenode(l.oid), 0) AS file,
           CASE WHEN l.relkind = 'r'
                THEN pg_relation_size(l.oid) / current_setting('block_size')::bigint
                ELSE 0 END AS blocks,
           {changes} AS changes,
           has_table_privilege(l.oid, 'SELECT') AS may_read,
           row_security_active(l.oid) AS is_filtered
      FROM pg_class l JOIN pg_namespace n ON n.oid = l.relnamespace
     WHERE l.oid = {oid} AND l.relkind <> 'p'
        OR l.oid IN (SELECT relid FROM pg_partition_tree({oid}) WHERE isleaf AND relid <> {oid})";

/// The tables with rows of a table: itself, or its partitions.
pub fn leaves(session: &mut Session, oid: u32) -> Result<Vec<Leaf>, ConnectionError> {
    let sql = LEAVES.replace("{changes}", &statistics::changes("l.oid"));
    let rows = session.query(&sql.replace("{oid}", &oid.to_string()))?;
    let read = |row: &Row| {
        let text = |name: &str| row.get(name).unwrap_or_default();
        let is = |name: &str| row.flag(name);
        let number = |name: &str| text(name).parse::<u64>().unwrap_or(0);
        Ok(Leaf {
            name: QualifiedName::new(Some(text("nspname")), text("relname"))?,
            now: Extent {
                oid: number("oid") as u32,
                file: number("file") as u32,
                blocks: number("blocks"),
                changes: row.get("changes").and_then(|n| n.parse().ok()),
            },
            is_plain: is("is_plain"),
            may_read: is("may_read"),
            is_filtered: is("is_filtered"),
        })
    };
    rows.iter().map(read).collect()
}

/// How large a table and its partitions are now; `None` where they are too many.
pub fn extents(session: &mut Session, oid: u32) -> Result<Option<Vec<Extent>>> {
    let leaves = leaves(session, oid).map_err(failed)?;
    let is_few = leaves.len() <= LEAVES_MAX;
    Ok(is_few.then(|| leaves.into_iter().map(|leaf| leaf.now).collect()))
}
