//! Partitions that the target has already: their bounds, and whether a loaded one can take the
//! place of an empty one.
//!
//! Rows can be published all at once only by ATTACH, and a range that is taken cannot be attached. So
//! the loaded partition replaces an empty one, under its name, in the transaction that publishes the
//! rows; one that holds rows, or has properties of its own that the new one would lack, is refused by
//! name before the load.

use fullbore_load::plan::{KeyBounds, KeyEnd, PlannedPiece};
use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_identifier, quote_literal};
use fullbore_read::error::{DestinationFailure, Error, Result};

use super::bounds::end_sql;
use crate::catalog::{self, Relation};
use crate::error::{failed, failed_while, refuse, refused};
use crate::target::PostgresTable;

/// A partition of the target, its bounds as the server writes them.
#[derive(Debug, Clone)]
pub struct Existing {
    pub name: QualifiedName,
    pub lower: KeyEnd,
    /// Exclusive.
    pub upper: KeyEnd,
}

/// The target's partitions, a DEFAULT one left out.
pub fn partitions(session: &mut Session, oid: u32) -> Result<Vec<Existing>> {
    partitions_where(session, oid, "true")
}

/// Those for which a condition on `n` (the schema) and `c` (the table) holds.
fn partitions_where(session: &mut Session, oid: u32, condition: &str) -> Result<Vec<Existing>> {
    let rows = session
        .query(&format!(
            "SELECT n.nspname, c.relname, pg_get_expr(c.relpartbound, c.oid) AS bound
               FROM pg_inherits i
               JOIN pg_class c ON c.oid = i.inhrelid
               JOIN pg_namespace n ON n.oid = c.relnamespace
              WHERE i.inhparent = {oid} AND NOT i.inhdetachpending AND {condition}"
        ))
        .map_err(refused)?;
    let mut found = Vec::new();
    for row in &rows {
        let bound = row.get("bound").and_then(|bound| bound.strip_prefix("FOR VALUES FROM ("));
        let Some(ends) = bound.and_then(|bound| bound.strip_suffix(')')?.split_once(") TO ("))
        else {
            continue;
        };
        let name = QualifiedName::new(row.get("nspname"), row.get("relname").unwrap_or_default());
        let name = name.map_err(refused)?;
        let (lower, upper) = KeyEnd::parse(ends.0).zip(KeyEnd::parse(ends.1)).ok_or_else(|| {
            refuse(
                format!("could not read the bounds of partition {name}: {} to {}", ends.0, ends.1),
                "load with --publish append, which adds to existing partitions",
            )
        })?;
        found.push(Existing { name, lower, upper });
    }
    Ok(found)
}

/// The partition with the name and the range of the one whose place a piece takes, if the target has it
/// now. The name may come from the ledger, where others can write: nothing of it is believed.
pub fn in_place_of(
    session: &mut Session,
    parent: &Relation,
    bounds: &KeyBounds,
) -> Result<Option<QualifiedName>> {
    let Some(wanted) = &bounds.replaces else { return Ok(None) };
    let wanted = QualifiedName::parse(wanted).map_err(refused)?;
    Ok(is_there(session, parent, &wanted, bounds)?.then_some(wanted))
}

/// Whether the target has a partition of a name and of a range now.
pub fn is_there(
    session: &mut Session,
    parent: &Relation,
    name: &QualifiedName,
    bounds: &KeyBounds,
) -> Result<bool> {
    let literal = |text: &str| quote_literal(text).map_err(refused);
    let condition = format!(
        "n.nspname = {} AND c.relname = {}",
        literal(name.schema().unwrap_or_default())?,
        literal(name.name())?
    );
    for partition in partitions_where(session, parent.oid, &condition)? {
        if partition.name == *name
            && is_same(session, parent, &partition.lower, &bounds.lower)?
            && is_same(session, parent, &partition.upper, &bounds.upper)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether two ends are the same value, perhaps of another time zone.
fn is_same(session: &mut Session, parent: &Relation, one: &KeyEnd, other: &KeyEnd) -> Result<bool> {
    if one == other || one.value().is_none() || other.value().is_none() {
        return Ok(one == other);
    }
    let (one, other) = (end_sql(parent, one)?, end_sql(parent, other)?);
    let rows = session.query(&format!("SELECT {one} = {other} AS same")).map_err(refused)?;
    Ok(rows.first().is_some_and(|row| row.flag("same")))
}

/// The partition whose place a piece takes, if it takes one; refused where the target has it no more.
pub fn replaced(
    session: &mut Session,
    parent: &Relation,
    piece: &PlannedPiece,
) -> Result<Option<QualifiedName>> {
    let Some(bounds) = piece.bounds.as_ref() else { return Ok(None) };
    let Some(wanted) = &bounds.replaces else { return Ok(None) };
    let found = in_place_of(session, parent, bounds)?.ok_or_else(|| Error::Destination {
        message: format!(
            "{wanted}, which piece {} would replace, is not a partition of {} with the range {} to \
             {}",
            piece.number, parent.name, bounds.lower, bounds.upper
        ),
        hint: Some(
            "it was dropped, detached or renamed, or the ledger was changed; nothing was published"
                .into(),
        ),
        kind: DestinationFailure::Constraint,
    })?;
    Ok(Some(found))
}

/// What a partition has of its own, so that another table can't take its place unnoticed.
const OWN_PROPERTIES: &str = "
    WITH part AS (SELECT * FROM pg_class WHERE oid = {part}),
         parent AS (SELECT * FROM pg_class WHERE oid = {parent}),
         own AS (
           SELECT g.* FROM part, aclexplode(coalesce(relacl, acldefault('r', relowner))) g),
         -- What default privileges give every new table of the role in addition.
         given AS (
           SELECT g.* FROM part,
                  aclexplode(coalesce((SELECT defaclacl FROM pg_default_acl
                                        WHERE defaclrole = relowner AND defaclnamespace = 0
                                          AND defaclobjtype = 'r'), acldefault('r', relowner))) g
            UNION
           SELECT g.* FROM part, parent, pg_default_acl, aclexplode(defaclacl) g
            WHERE defaclrole = part.relowner AND defaclnamespace = parent.relnamespace
              AND defaclobjtype = 'r')
    SELECT 'partitions of its own' AS what FROM part WHERE relkind = 'p'
    UNION ALL SELECT 'its rows in a foreign table' FROM part WHERE relkind = 'f'
    UNION ALL SELECT 'another owner, ' || pg_get_userbyid(relowner) FROM part
     WHERE relowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
    UNION ALL SELECT 'grants' FROM part
     WHERE EXISTS (SELECT * FROM own EXCEPT SELECT * FROM given)
        OR EXISTS (SELECT * FROM given EXCEPT SELECT * FROM own)
    UNION ALL SELECT 'storage options' FROM part
     WHERE reloptions IS NOT NULL OR (SELECT t.reloptions IS NOT NULL FROM pg_class t WHERE t.oid = reltoastrelid)
    UNION ALL SELECT 'the tablespace ' || coalesce(spcname, 'of the database')
      FROM part JOIN parent ON part.reltablespace <> parent.reltablespace
      LEFT JOIN pg_tablespace t ON t.oid = part.reltablespace
    UNION ALL SELECT 'no WAL (UNLOGGED)' FROM part WHERE relpersistence <> 'p'
    UNION ALL SELECT 'the access method ' || amname FROM part JOIN pg_am a ON a.oid = relam
     WHERE amname <> current_setting('default_table_access_method')
    UNION ALL SELECT 'a replica identity' FROM part WHERE relreplident <> 'd'
    UNION ALL SELECT 'row security' FROM part WHERE relrowsecurity
    UNION ALL SELECT 'the policy ' || polname FROM pg_policy WHERE polrelid = {part}
    UNION ALL SELECT 'the rule ' || rulename FROM pg_rewrite WHERE ev_class = {part}
    UNION ALL SELECT 'the trigger ' || tgname FROM pg_trigger
     WHERE tgrelid = {part} AND NOT tgisinternal AND tgparentid = 0
    UNION ALL SELECT 'the index ' || indexrelid::regclass FROM pg_index
     WHERE indrelid = {part} AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = indexrelid)
    UNION ALL SELECT 'settings of the index ' || c.relname
      FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
      JOIN pg_inherits h ON h.inhrelid = c.oid JOIN pg_class p ON p.oid = h.inhparent
     WHERE i.indrelid = {part} AND (c.reltablespace <> p.reltablespace OR i.indisclustered
                                    OR c.reloptions IS DISTINCT FROM p.reloptions
                                    OR obj_description(c.oid, 'pg_class') IS NOT NULL
                                    OR EXISTS (SELECT FROM pg_attribute
                                                WHERE attrelid = c.oid AND attstattarget >= 0))
    UNION ALL SELECT 'the comment of the constraint ' || conname FROM pg_constraint
     WHERE conrelid = {part} AND obj_description(oid, 'pg_constraint') IS NOT NULL
    UNION ALL SELECT 'the constraint ' || conname FROM pg_constraint
     WHERE conrelid = {part} AND coninhcount = 0 AND conparentid = 0 AND contype NOT IN ('p', 'u', 'x', 't')
    UNION ALL SELECT 'the foreign key ' || conname || ' of ' || conrelid::regclass FROM pg_constraint
     WHERE confrelid = {part} AND conparentid = 0
    UNION ALL SELECT 'the publication ' || pubname FROM pg_publication_rel r
      JOIN pg_publication p ON p.oid = r.prpubid WHERE prrelid = {part}
    UNION ALL SELECT 'the extended statistics ' || stxname FROM pg_statistic_ext WHERE stxrelid = {part}
    UNION ALL SELECT 'a comment' FROM part WHERE obj_description({part}, 'pg_class') IS NOT NULL
    UNION ALL SELECT 'a security label' FROM pg_seclabel
     WHERE classoid = 'pg_class'::regclass AND objoid = {part}
    UNION ALL SELECT 'settings of the column ' || p.attname
      FROM pg_attribute p
      JOIN pg_attribute q ON q.attrelid = {parent} AND q.attname = p.attname
      LEFT JOIN pg_attrdef pd ON pd.adrelid = p.attrelid AND pd.adnum = p.attnum
      LEFT JOIN pg_attrdef qd ON qd.adrelid = q.attrelid AND qd.adnum = q.attnum
     WHERE p.attrelid = {part} AND p.attnum > 0 AND NOT p.attisdropped
       AND (p.attacl IS NOT NULL OR p.attstattarget >= 0
            OR EXISTS (SELECT FROM pg_options_to_table(p.attoptions) WHERE option_name IN {options})
            OR p.attnotnull <> q.attnotnull
            OR p.attstorage <> q.attstorage OR p.attcompression <> q.attcompression
            OR col_description({part}, p.attnum) IS DISTINCT FROM col_description({parent}, q.attnum)
            OR pg_get_expr(pd.adbin, pd.adrelid) IS DISTINCT FROM pg_get_expr(qd.adbin, qd.adrelid))
    ORDER BY 1";

/// Refuses a partition that the loaded one can't take the place of.
pub fn check_replaceable(
    session: &mut Session,
    parent: u32,
    partition: &QualifiedName,
) -> Result<()> {
    let append = "load with --publish append, which adds to existing partitions";
    let own = own_properties(session, parent, partition).map_err(refused)?;
    if !own.is_empty() {
        return Err(refuse(
            format!(
                "the partition {partition} is to be replaced by a loaded one, but has {} that \
                 would be lost",
                own.join(", ")
            ),
            append,
        ));
    }
    if !is_empty(session, partition).map_err(refused)? {
        return Err(refuse(
            format!(
                "the partition {partition}, whose range overlaps the files' keys, already has rows"
            ),
            append,
        ));
    }
    Ok(())
}

/// What a partition has that its parent would not give to another one.
fn own_properties(
    session: &mut Session,
    parent: u32,
    partition: &QualifiedName,
) -> Result<Vec<String>, ConnectionError> {
    let part = format!("{}::regclass", quote_literal(&partition.to_string())?);
    let sql = OWN_PROPERTIES
        .replace("{options}", catalog::COLUMN_OPTIONS)
        .replace("{parent}", &parent.to_string())
        .replace("{part}", &part);
    let rows = session.query(&sql)?;
    Ok(rows.iter().filter_map(|row| row.get("what")).map(str::to_owned).collect())
}

fn is_empty(session: &mut Session, partition: &QualifiedName) -> Result<bool, ConnectionError> {
    let rows = session.query(&format!("SELECT EXISTS (SELECT FROM {partition}) AS filled"))?;
    Ok(rows.first().and_then(|row| row.get("filled")) == Some("f"))
}

/// The indexes of a partition by the parent's that they belong to: parent, name.
pub fn index_names(
    session: &mut Session,
    partition: &QualifiedName,
) -> Result<Vec<(String, String)>, ConnectionError> {
    let rows = session.query(&format!(
        "SELECT h.inhparent AS parent, c.relname AS name
           FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
           JOIN pg_inherits h ON h.inhrelid = i.indexrelid
          WHERE i.indrelid = {}::regclass ORDER BY 1",
        quote_literal(&partition.to_string())?
    ))?;
    let text = |row: &fullbore_pgwire::Row, name| row.get(name).unwrap_or_default().to_owned();
    Ok(rows.iter().map(|row| (text(row, "parent"), text(row, "name"))).collect())
}

/// What a partition that went left to the one that takes its place.
pub struct Vacated {
    name: QualifiedName,
    indexes: Vec<(String, String)>,
}

/// Locks the target for whoever takes partitions away: before these, as everybody else locks them.
pub fn lock_parent(session: &mut Session, target: &PostgresTable) -> Result<()> {
    session
        .execute(&format!("LOCK TABLE ONLY {} IN ACCESS EXCLUSIVE MODE", target.name()))
        .map(drop)
        .map_err(failed)
}

/// Takes an empty partition away, in the transaction that is open and has locked its parent. It is
/// locked and detached before it is looked at: then nobody can add a row any more, or give it something
/// of its own.
pub fn vacate(
    session: &mut Session,
    target: &PostgresTable,
    partition: QualifiedName,
) -> Result<Vacated> {
    let partition = &partition;
    let parent = target.name();
    session
        .execute(&format!("LOCK TABLE {partition} IN ACCESS EXCLUSIVE MODE"))
        .map_err(|error| failed_while(error, &format!("locking the empty {partition}")))?;
    let own = own_properties(session, target.relation.oid, partition).map_err(failed)?;
    if !own.is_empty() {
        return Err(Error::Destination {
            message: format!(
                "the partition {partition} gained {} during the load, which would be lost",
                own.join(", ")
            ),
            hint: Some(
                "nothing was published; add it to the parent, or load with --publish append".into(),
            ),
            kind: DestinationFailure::Constraint,
        });
    }
    let indexes = index_names(session, partition).map_err(failed)?;
    session
        .execute(&format!("ALTER TABLE {parent} DETACH PARTITION {partition}"))
        .map_err(|error| failed_while(error, &format!("detaching the empty {partition}")))?;
    if !is_empty(session, partition).map_err(failed)? {
        return Err(Error::Destination {
            message: format!("rows were inserted into the partition {partition} during the load"),
            hint: Some("nothing was published; load with --publish append".into()),
            kind: DestinationFailure::Constraint,
        });
    }
    session
        .execute(&format!("DROP TABLE {partition}"))
        .map_err(|error| failed_while(error, &format!("dropping the empty {partition}")))?;
    Ok(Vacated { name: partition.clone(), indexes })
}

/// Gives an attached partition the names of the one whose place it took.
pub fn take_names(session: &mut Session, made: &QualifiedName, vacated: &Vacated) -> Result<()> {
    let run = |session: &mut Session, sql: String| -> Result<()> {
        session.execute(&sql).map(|_| ()).map_err(|error| failed_while(error, &sql))
    };
    let quote = |name: &str| quote_identifier(name).map_err(failed);
    let schema = vacated.name.schema();
    let mut made = made.clone();
    if let Some(to) = schema.filter(|to| made.schema() != Some(to)) {
        run(session, format!("ALTER TABLE {made} SET SCHEMA {}", quote(to)?))?;
        made = QualifiedName::new(schema, made.name()).map_err(failed)?;
    }
    for (parent, name) in index_names(session, &made).map_err(failed)? {
        let old = vacated.indexes.iter().find(|(known, _)| *known == parent);
        if let Some((_, old)) = old {
            let index = QualifiedName::new(schema, &name).map_err(failed)?;
            run(session, format!("ALTER INDEX {index} RENAME TO {}", quote(old)?))?;
        }
    }
    run(session, format!("ALTER TABLE {made} RENAME TO {}", quote(vacated.name.name())?))
}
