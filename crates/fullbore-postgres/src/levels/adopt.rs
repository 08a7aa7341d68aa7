//! Makes a plain table one of levels: it becomes the first partition of a table of its name.

use std::time::{Duration, Instant};

use fullbore_pgwire::{QualifiedName, Session, quote_identifier};
use fullbore_read::error::Result;

use super::keyed::Key;
use super::{CHECK, COLUMN, Table, insist, shape};
use crate::catalog::{self, Relation};
use crate::error::{failed, failed_while, refuse, refused};
use crate::publish::replace::tools::{fill, in_transaction, texts};
use crate::publish::replace::{grants, obstacles};

/// How long a moment is looked for in which nobody uses the table.
const IN_USE: Duration = Duration::from_secs(600);
/// Of so many attempts, one waits for longer.
const PATIENT: u32 = 10;

/// What keeps the table `{oid}` from being partitioned by a column that its rows do not have. Unique indexes over its key
/// alone, as `{is_over}` says, stay as they are, on the first partition.
const OBSTACLES: &str = "
    SELECT coalesce(pg_get_constraintdef(c.oid), 'unique index ' || i.indexrelid::regclass) AS sql
      FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.conrelid = i.indrelid
     WHERE i.indrelid = {oid} AND (i.indisunique OR i.indisexclusion) AND NOT {is_over}
    UNION ALL
    SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = {oid} AND contype = 'f'
    UNION ALL
    SELECT 'identity column ' || quote_ident(attname) FROM pg_attribute
     WHERE attrelid = {oid} AND attidentity <> '' AND NOT attisdropped
    UNION ALL
    SELECT 'trigger ' || quote_ident(tgname) FROM pg_trigger WHERE tgrelid = {oid} AND NOT tgisinternal
    UNION ALL
    SELECT 'child ' || inhrelid::regclass FROM pg_inherits WHERE inhparent = {oid}
    UNION ALL
    SELECT 'that it is not logged' FROM pg_class WHERE oid = {oid} AND relpersistence <> 'p'
    ORDER BY 1";

/// Refuses a table that can't be taken over; nothing is touched.
fn check(session: &mut Session, relation: &Relation, key: Option<&Key>) -> Result<()> {
    let name = &relation.name;
    if relation.kind != 'r' {
        return Err(refuse(
            format!("{name} is not a plain table, and can't be ingested into"),
            "name a table that fullbore ingest has made, a plain one with --adopt, or a new one with --create",
        ));
    }
    let is_known = |name: &&String| relation.columns.iter().any(|column| column.name == **name);
    if let Some(missing) = key.and_then(|key| key.names.iter().find(|name| !is_known(name))) {
        return Err(refuse(format!("{name} has no column {missing}"), "check --key"));
    }
    let is_over = key.map_or_else(|| Ok("false".to_owned()), Key::is_over)?;
    let sql = fill(OBSTACLES, &[("oid", &relation.oid.to_string()), ("is_over", &is_over)]);
    let what = texts(session, &sql).map_err(refused)?;
    if !what.is_empty() {
        return Err(refuse(
            format!(
                "{name} can't be ingested into: partitions of batches would not keep its {}",
                what.join("; ")
            ),
            "with --key, rows replace older ones of a key; otherwise drop that first, or use fullbore load",
        ));
    }
    let what = obstacles::found(session, relation.oid, &[]).map_err(refused)?;
    if what.is_empty() {
        return Ok(());
    }
    Err(refuse(
        format!(
            "{name} can't be ingested into: a partitioned table would not have its {}",
            what.join("; ")
        ),
        "drop that first, or use fullbore load",
    ))
}

/// Takes a plain table over; a step that was done by an earlier attempt is not done twice.
/// `key`: the columns by which rows replace older ones; `ledger`: the bare name of its schema.
pub fn adopt(
    session: &mut Session,
    relation: &Relation,
    key: &[String],
    ledger: &str,
) -> Result<Table> {
    let keyed = Key::new(&relation.name, key)?;
    check(session, relation, keyed.as_ref())?;
    let lacks_key = match &keyed {
        Some(keyed) => !keyed.check_rows(session, relation.oid)?,
        None => false,
    };
    let ledger = quote_identifier(ledger).map_err(failed)?;
    let (name, oid) = (&relation.name, relation.oid);
    let column = quote_identifier(COLUMN).map_err(failed)?;
    let what = format!("taking {name} over");
    if !relation.columns.iter().any(|column| column.name == COLUMN) {
        let add = format!(
            "ALTER TABLE {name} ADD COLUMN {column} bigint NOT NULL DEFAULT 0, \
             ADD CONSTRAINT {CHECK} CHECK ({column} >= 0 AND {column} < 1) NOT VALID"
        );
        in_transaction(session, |session| locked(session, name, &add))?;
    }
    // Others read and write meanwhile.
    session
        .execute(&format!("ALTER TABLE {name} VALIDATE CONSTRAINT {CHECK}"))
        .map_err(|error| failed_while(error, &what))?;
    let parent = keyed.as_ref().map_or_else(|| Ok(name.clone()), Key::table)?;
    let first = shape::leaf(&parent, 0, 0)?;
    let quoted = quote_identifier(first.name()).map_err(failed)?;
    in_transaction(session, |session| {
        let traits = shape::traits(session, oid, &parent)?;
        let place = match &relation.tablespace {
            Some(space) => format!("TABLESPACE {}", quote_identifier(space).map_err(failed)?),
            None => String::new(),
        };
        locked(session, name, &format!("LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE"))?;
        session
            .execute(&format!(
                "ALTER TABLE {name} RENAME TO {quoted}; \
                 CREATE TABLE {parent} (LIKE {first} INCLUDING DEFAULTS INCLUDING CONSTRAINTS \
                 INCLUDING GENERATED INCLUDING COMMENTS) \
                 PARTITION BY RANGE ({column}) {place}; ALTER TABLE {parent} DROP CONSTRAINT {CHECK}; {}",
                traits.join("; ")
            ))
            .map_err(|error| failed_while(error, &what))?;
        let oid_made = named(session, &parent)?.oid;
        let table = Table {
            name: parent.clone(),
            oid: oid_made,
            ledger: ledger.clone(),
            key: keyed.clone(),
        };
        let mut statements = shape::index_statements(session, oid, name, &parent)?;
        if let Some(keyed) = &keyed {
            // Its rows are none where it has no index over them.
            statements.extend(lacks_key.then(|| keyed.index(&first)));
            statements.extend(keyed.show(session, &table)?);
        }
        for statement in statements {
            session.execute(&statement).map_err(|error| failed_while(error, &what))?;
        }
        let shown = named(session, name)?.oid;
        for statement in grants::of_table(session, relation, shown)? {
            session.execute(&statement).map_err(|error| failed_while(error, &what))?;
        }
        // They are one where no view stands before the table.
        for made in [&parent, name] {
            for statement in shape::owned_alike(session, oid, made)? {
                session.execute(&statement).map_err(|error| failed_while(error, &what))?;
            }
        }
        let settle = format!(
            "{}; INSERT INTO {ledger}.batches (target, first, last, batches, state, rows, bytes)
             SELECT {}, 0, 0, 0, 'attached', greatest(reltuples, 0)::bigint, pg_total_relation_size(oid)
               FROM pg_class WHERE oid = {oid}",
            shape::attach(&table, &first, 0, 0),
            oid_made
        );
        session.execute(&settle).map_err(|error| failed_while(error, &what))?;
        Ok(table)
    })
}

/// Does something that needs the table alone, without having others wait behind it for long.
fn locked(session: &mut Session, name: &QualifiedName, sql: &str) -> Result<()> {
    let until = Instant::now() + IN_USE;
    let mut tries = 0;
    let done = insist(
        session,
        || Instant::now() > until,
        |session| {
            tries += 1;
            // Now and then long enough for the server to end an autovacuum that is in the way.
            let patience =
                if tries % PATIENT == 0 { "SET LOCAL lock_timeout = '3s'; " } else { "" };
            let what = format!("taking {name} over");
            let sql = format!("{patience}{sql}");
            session.execute(&sql).map(drop).map_err(|error| failed_while(error, &what))
        },
    )?;
    if done.is_some() {
        return session.execute("SET LOCAL lock_timeout = 0").map(drop).map_err(failed);
    }
    Err(refuse(
        format!("{name} can't be taken over: other sessions have used it all the time"),
        "try again when no long transaction reads it",
    ))
}

fn named(session: &mut Session, name: &QualifiedName) -> Result<Relation> {
    let found = catalog::relation(session, name).map_err(failed)?;
    found.ok_or_else(|| refuse(format!("{name} no longer exists"), "it was dropped meanwhile"))
}
