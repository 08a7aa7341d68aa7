//! Takes partitions away whose rows are all older than what is kept.

use fullbore_pgwire::{QualifiedName, Session};
use fullbore_read::error::Result;

use super::batches::partitions;
use super::policy::Part;
use super::{Table, detached, insist, shape};
use crate::error::{failed, failed_while, refuse};
use crate::publish::replace::tools::in_transaction;

/// Refuses retention where it would bring old values back: of a key, the row that was there before all batches is the
/// newest one again once those of the batches have gone.
pub fn check(session: &mut Session, table: &Table) -> Result<()> {
    if table.key.is_none() {
        return Ok(());
    }
    let parts = partitions(session, table)?.shown;
    let Some(before) = parts.iter().find(|part| part.newest_s == 0) else { return Ok(()) };
    check_rows(session, &shape::leaf(&table.name, before.first, before.last)?)
}

/// The same of a table that is to be taken over, with a key.
pub fn check_rows(session: &mut Session, name: &QualifiedName) -> Result<()> {
    let found = session.query(&format!("SELECT EXISTS (SELECT FROM {name}) AS has_rows"));
    match found.map_err(failed)?.first().is_some_and(|row| row.flag("has_rows")) {
        false => Ok(()),
        true => Err(refuse(
            format!(
                "--keep: {name} had rows before it was ingested into, which are never dropped: they would \
                 take the place of newer ones that are"
            ),
            format!("omit --keep, or delete the rows of {name} first"),
        )),
    }
}

/// Takes away what arrived longer ago than so many seconds; the last number of it, and how many rows went. Their tables
/// still have to be [dropped](detached::drop_all).
/// Partitions whose table is in use stay until the next time.
pub fn expire(session: &mut Session, table: &Table, keep_s: u64) -> Result<Option<(u64, u64)>> {
    let name = &table.name;
    let of = partitions(session, table)?;
    let parts = &of.shown;
    let now = session
        .query("SELECT extract(epoch FROM clock_timestamp())::bigint AS now")
        .map_err(failed)?;
    let now: i64 = now.first().and_then(|row| row.number("now")).unwrap_or_default();
    let before = now - i64::try_from(keep_s).unwrap_or(i64::MAX);
    let mut dropped = None;
    let is_old = |part: &&Part| part.newest_s > 0 && part.newest_s < before;
    let mut old: Vec<&Part> = parts.iter().filter(is_old).collect();
    if table.key.is_some() {
        // An older row of a key must not be there longer than a newer one.
        let loading = of.loading.iter().min();
        let is_next =
            |part: &&Part| is_old(part) && loading.is_none_or(|first| part.first < *first);
        old = parts.iter().filter(|part| part.newest_s > 0).take_while(is_next).collect();
    }
    for part in old {
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
