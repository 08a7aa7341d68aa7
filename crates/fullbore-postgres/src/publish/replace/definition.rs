//! Whether two tables are alike in what their rows must be.

use std::collections::BTreeMap;

use fullbore_pgwire::{ConnectionError, Session};
use fullbore_read::error::Result;

use super::company::Company;
use super::rebuild;
use super::tools::{changed, fill};
use crate::catalog::Relation;
use crate::error::failed;

/// Which constraints are compared.
#[derive(Clone, Copy)]
pub enum With<'a> {
    /// CHECK and NOT NULL.
    ChecksOnly,
    /// Outgoing foreign keys too; those to another one of the company are alike where they refer to the same member.
    ForeignKeys(&'a Company),
}

/// Everything about the table `{oid}` that LIKE has carried over, a definition each. A CHECK that
/// is not valid on the old table is on the new one, which had no rows when it got it.
const DEFINITION: &str = "
    SELECT 'column ' || quote_ident(a.attname) AS what,
           concat_ws(' ', row_number() OVER (ORDER BY a.attnum),
                     format_type(a.atttypid, a.atttypmod), a.attcollation::regcollation,
                     a.attnotnull, 'identity', a.attidentity, 'generated', a.attgenerated,
                     a.attstorage, a.attcompression, pg_get_expr(d.adbin, d.adrelid)) AS definition
      FROM pg_attribute a
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT 'constraint ' || quote_ident(conname),
           regexp_replace(pg_get_constraintdef(oid), ' NOT VALID$', '')
      FROM pg_constraint WHERE conrelid = {oid} AND contype IN ('c', 'n')
    UNION ALL
    SELECT 'sequence of column ' || quote_ident(a.attname),
           concat_ws(' ', s.seqtypid, s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache,
                     s.seqcycle, c.relpersistence)
      FROM pg_depend d
      JOIN pg_sequence s ON s.seqrelid = d.objid
      JOIN pg_class c ON c.oid = s.seqrelid
      JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
     WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
       AND d.refobjid = {oid} AND d.deptype = 'i'
    UNION ALL
    SELECT 'persistence and access method', concat_ws(' ', relpersistence, relam)
      FROM pg_class WHERE oid = {oid}";

fn definition(
    session: &mut Session,
    oid: u32,
    with: With<'_>,
) -> Result<BTreeMap<String, String>, ConnectionError> {
    let rows = session.query(&fill(DEFINITION, &[("oid", &oid.to_string())]))?;
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    let mut definition: BTreeMap<String, String> =
        rows.iter().map(|row| (text(row.get("what")), text(row.get("definition")))).collect();
    if let With::ForeignKeys(company) = with {
        for key in rebuild::foreign_keys(session, oid)? {
            let other = match company.name_of(key.other) {
                Some(name) => name.to_string(),
                None if key.is_to_itself() => "itself".to_owned(),
                None => key.other_name.clone(),
            };
            definition.insert(format!("foreign key {}", key.name), key.definition(&other));
        }
    }
    Ok(definition)
}

/// What of two tables' definitions differs.
pub fn differences(
    session: &mut Session,
    old: u32,
    new: u32,
    with: With<'_>,
) -> Result<Vec<String>, ConnectionError> {
    let wanted = definition(session, old, with)?;
    let made = definition(session, new, with)?;
    let names = wanted.keys().chain(made.keys());
    let mut differ: Vec<String> =
        names.filter(|name| wanted.get(*name) != made.get(*name)).cloned().collect();
    differ.sort_unstable();
    differ.dedup();
    Ok(differ)
}

/// Refuses to go on where the old table's definition is not the new one's.
pub fn equal(session: &mut Session, old: &Relation, new: u32, with: With<'_>) -> Result<()> {
    let differ = differences(session, old.oid, new, with).map_err(failed)?;
    if differ.is_empty() {
        return Ok(());
    }
    Err(changed(&old.name, &format!("{} differ from the new table's", differ.join(", "))))
}
