//! Loads the partitions of a table directly, all of them by one session in one transaction.
//!
//! The transaction truncates them, which gives them storage that nobody else sees. So the table must be empty, and its
//! readers wait until all is loaded: it is done where it is requested, not by itself.

use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{ConnectionError, QualifiedName, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};

use super::check::{self, Leaf};
use super::known::Probe;
use super::{filled, probe};
use crate::error::{failed, refused};
use crate::target::PostgresTable;

const BY_COPY: &str = "load by COPY, with --method copy";

/// What would be done, or seen, by truncating a table and filling its partitions that COPY into it would not do; or
/// what the role may not do.
const OBSTACLES: &str = "
    WITH tree AS (SELECT c.*, t.isleaf FROM pg_partition_tree({oid}) t JOIN pg_class c ON c.oid = t.relid)
    SELECT reason FROM (
        SELECT 1 AS place, format('the role lacks SELECT or TRUNCATE privilege on it') AS reason
         WHERE NOT (has_table_privilege({oid}, 'SELECT') AND has_table_privilege({oid}, 'TRUNCATE'))
        UNION ALL
        SELECT 2, format('the role does not own its partition %s', relname) FROM tree
         WHERE isleaf AND relkind = 'r' AND NOT pg_has_role(relowner, 'USAGE')
        UNION ALL
        SELECT 3, 'the role lacks TEMPORARY privilege on the database'
         WHERE NOT has_database_privilege(current_database(), 'TEMPORARY')
        UNION ALL
        SELECT 4, format('its partition %s is not a plain table', relname) FROM tree
         WHERE isleaf AND relkind <> 'r'
        UNION ALL
        SELECT 5, format('%s has trigger %s for TRUNCATE', tree.relname, g.tgname)
          FROM tree JOIN pg_trigger g ON g.tgrelid = tree.oid
         WHERE g.tgtype & 32 <> 0 AND g.tgenabled <> 'D'
        UNION ALL
        SELECT 6, format('%s has rule %s for INSERT', tree.relname, r.rulename)
          FROM tree JOIN pg_rewrite r ON r.ev_class = tree.oid
         WHERE r.ev_type = '3' AND r.ev_enabled <> 'D'
    ) AS obstacles ORDER BY place, reason LIMIT 1";

/// Asks whether they can be; nothing is touched. That there are no rows is left to the run where it is gone on with: a
/// table may have been loaded.
pub fn probe(session: &mut Session, target: &PostgresTable, is_resumed: bool) -> Result<Probe> {
    let no = |reason: String| Ok(Probe::Impossible { reason, hint: Some(BY_COPY.into()) });
    if target.atomic {
        return no("its rows are staged (--atomic, --max-rejects)".into());
    }
    let oid = target.relation.oid;
    if let Some(why) = obstacle(session, oid).map_err(refused)? {
        return no(why);
    }
    if !is_resumed && !is_empty(session, target.name()).map_err(refused)? {
        return no("it has rows".into());
    }
    let leaves = check::described_leaves(session, oid).map_err(refused)?;
    let Some(first) = leaves.first() else {
        return no("it has no partitions with bounds".into());
    };
    let refused_one = leaves.iter().find(|leaf| leaf.descriptor.refusal.is_some());
    let hash = &first.descriptor.hash;
    if let (Some(other), None) =
        (leaves.iter().find(|leaf| leaf.descriptor.hash != *hash), refused_one)
    {
        return no(format!(
            "the columns of its partitions {} and {} differ in their order or definition",
            first.name, other.name
        ));
    }
    let shown = refused_one.unwrap_or(first);
    if let Some(why) = lacks_memory(session, &leaves).map_err(refused)? {
        return no(why);
    }
    let indexes = filled::of_table(session, shown.oid).map_err(refused)?;
    if let Some((index, Some(why))) = indexes.iter().find(|(_, why)| why.is_some()) {
        return no(format!("index {} can't be filled ({why})", index.known()));
    }
    Ok(probe::usable(shown.descriptor.clone(), indexes))
}

fn obstacle(session: &mut Session, oid: u32) -> Result<Option<String>, ConnectionError> {
    let rows = session.query(&OBSTACLES.replace("{oid}", &oid.to_string()))?;
    Ok(rows.first().map(|row| row.text("reason")))
}

fn is_empty(session: &mut Session, table: &QualifiedName) -> Result<bool, ConnectionError> {
    let sql = format!("{OF_ROLE}SELECT NOT EXISTS (SELECT FROM {table}) AS is_empty");
    let rows = session.query(&sql)?;
    Ok(rows.first().is_some_and(|row| row.flag("is_empty")))
}

/// The memory in which keys are sorted is shared by all partitions, and each has a megabyte at least.
const MEMORY_LEAST_KB: usize = 1024;

fn lacks_memory(session: &mut Session, leaves: &[Leaf]) -> Result<Option<String>, ConnectionError> {
    let least = leaves.iter().filter(|leaf| leaf.has_indexes).count() * MEMORY_LEAST_KB;
    let rows = session.query(&format!(
        "SELECT setting::bigint < {least} AS is_less FROM pg_settings WHERE name = 'maintenance_work_mem'"
    ))?;
    let is_less = rows.first().is_some_and(|row| row.flag("is_less"));
    Ok(is_less.then(|| {
        let megabytes = least / MEMORY_LEAST_KB;
        format!("the indexes of its partitions need maintenance_work_mem of {megabytes} MB")
    }))
}

/// Locks the table in the transaction that is open, and makes the storage of its partitions new; refuses where there
/// are rows by now.
pub fn renew(session: &mut Session, target: &PostgresTable, oid: u32) -> Result<()> {
    let table = target.name();
    session.execute(&format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")).map_err(failed)?;
    let why = match is_empty(session, table).map_err(failed)? {
        true => obstacle(session, oid).map_err(failed)?,
        false => Some("it has rows by now".into()),
    };
    if let Some(why) = why {
        return Err(Error::Destination {
            message: format!("the partitions of {table} can't be loaded directly: {why}"),
            hint: Some("nothing of it was loaded; load it by COPY, with --method copy".into()),
            kind: DestinationFailure::Changed,
        });
    }
    session.execute(&format!("{OF_ROLE}TRUNCATE {table}")).map(drop).map_err(failed)
}

/// What the extension says of them now; their indexes share the memory that those of one would have.
pub fn described(session: &mut Session, oid: u32) -> Result<Vec<Leaf>> {
    let leaves = check::described_leaves(session, oid).map_err(failed)?;
    let indexed = leaves.iter().filter(|leaf| leaf.has_indexes).count();
    if indexed > 0 {
        let shared = session.execute(&format!(
            "SELECT set_config(name, greatest({MEMORY_LEAST_KB}, setting::bigint / {indexed})::text, true)
               FROM pg_settings WHERE name = 'maintenance_work_mem'"
        ));
        shared.map_err(failed)?;
    }
    Ok(leaves)
}
