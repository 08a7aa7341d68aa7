//! Ends of partitions' ranges, in SQL.

use fullbore_load::plan::{KeyBounds, KeyEnd, PlannedPiece};
use fullbore_read::error::Result;

use crate::catalog::Relation;
use crate::error::refuse;

/// The name of the CHECK that holds a piece to its key range.
pub const RANGE_CHECK: &str = "fullbore_key_range";

/// One end of a range as SQL: a literal of the type that the key has now.
pub fn end_sql(relation: &Relation, end: &KeyEnd) -> Result<String> {
    match end.value() {
        None => Ok(end.to_string()),
        Some(value) => relation.literal(key(relation)?, value),
    }
}

pub fn bounds(piece: &PlannedPiece) -> &KeyBounds {
    piece.bounds.as_ref().expect("a piece that becomes a partition has its key range planned")
}

/// The column that a table is partitioned by.
pub fn key(relation: &Relation) -> Result<&str> {
    let columns = relation.partition_key.as_ref().map(|(_, columns)| columns.as_slice());
    match columns {
        Some([column]) => Ok(column),
        _ => Err(refuse(
            format!("{} has no single partition key", relation.name),
            "name the key with --partition-by COLUMN",
        )),
    }
}
