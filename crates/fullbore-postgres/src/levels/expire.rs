//! Takes partitions away whose rows are all older than what is kept.

use fullbore_pgwire::Session;
use fullbore_read::error::Result;

use super::batches::partitions;
use super::{Table, detached, insist, shape};
use crate::error::{failed, failed_while};
use crate::publish::replace::tools::in_transaction;

/// Takes away what arrived longer ago than so many seconds; the last number of it, and how many rows went. Their tables
/// still have to be [dropped](detached::drop_all).
/// Partitions whose table is in use stay until the next time.
pub fn expire(session: &mut Session, table: &Table, keep_s: u64) -> Result<Option<(u64, u64)>> {
    let name = &table.name;
    let parts = partitions(session, table)?.shown;
    let now = session
        .query("SELECT extract(epoch FROM clock_timestamp())::bigint AS now")
        .map_err(failed)?;
    let now: i64 = now.first().and_then(|row| row.number("now")).unwrap_or_default();
    let before = now - i64::try_from(keep_s).unwrap_or(i64::MAX);
    let mut dropped = None;
    for part in parts.iter().filter(|part| part.newest_s > 0 && part.newest_s < before) {
        let leaf = shape::leaf(name, part.first, part.last)?;
        let what = format!("dropping {leaf}, which is older than what is kept");
        let lock = format!("LOCK TABLE ONLY {name}, {leaf} IN ACCESS EXCLUSIVE MODE");
        let detach = detached::detach(table, &[(part.first, part.last)])?;
        let statements = format!("{}; {detach}", detached::UNHURRIED);
        let gone = in_transaction(session, |session| {
            let mut tries = 0;
            let gives_up = || {
                tries += 1;
                tries > 20
            };
            insist(session, gives_up, |session| {
                session.execute(&lock).map_err(failed)?;
                session.execute(&statements).map(drop).map_err(|error| failed_while(error, &what))
            })
        })?;
        if gone.is_none() {
            break;
        }
        let (_, rows) = dropped.unwrap_or_default();
        dropped = Some((part.last, rows + part.rows));
    }
    Ok(dropped)
}
