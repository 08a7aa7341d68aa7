//! Tables that can become partitions.

use fullbore_pgwire::{QualifiedName, Session, quote_identifier, quote_literal};
use fullbore_read::error::Result;

use super::{CHECK, COLUMN, Table};
use crate::catalog::{self, IndexDefinition};
use crate::error::failed;
use crate::naming::suffixed;
use crate::publish::indexes;
use crate::publish::replace::carry;
use crate::publish::replace::tools::{fill, literal, texts};

/// The columns of the table `{oid}` but ours, its CHECKs and its tablespace, as CREATE TABLE has them.
const SHAPE: &str = "
    SELECT '(' || (SELECT string_agg(format('%I %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
                       CASE WHEN a.attcollation <> t.typcollation
                            THEN ' COLLATE ' || a.attcollation::regcollation ELSE '' END,
                       CASE WHEN a.attgenerated <> ''
                            THEN format(' GENERATED ALWAYS AS (%s) %s', pg_get_expr(d.adbin, d.adrelid),
                                        CASE a.attgenerated WHEN 's' THEN 'STORED' ELSE 'VIRTUAL' END)
                            WHEN d.adbin IS NOT NULL THEN ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid)
                            ELSE '' END,
                       CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END), ', ' ORDER BY a.attnum)
              FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
              LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
             WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> '{column}')
        || coalesce((SELECT string_agg(format(', CONSTRAINT %I %s', conname, pg_get_constraintdef(oid)), '')
                       FROM pg_constraint WHERE conrelid = {oid} AND contype = 'c'), '')
        || ')' || coalesce((SELECT format(' TABLESPACE %I', s.spcname)
                              FROM pg_class c JOIN pg_tablespace s ON s.oid = c.reltablespace
                             WHERE c.oid = {oid}), '') AS shape";

/// How columns of the table `{oid}` but ours are stored and sampled, as statements on `{name}`.
const TRAITS: &str = "
    SELECT sql
      FROM (SELECT a.attname, format('ALTER TABLE %s ALTER COLUMN %I SET STORAGE %s', {name}, a.attname,
                       CASE a.attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL'
                                         WHEN 'x' THEN 'EXTENDED' ELSE 'MAIN' END) AS sql
              FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
             WHERE a.attrelid = {oid} AND NOT a.attisdropped AND a.attnum > 0 AND a.attstorage <> t.typstorage
            UNION ALL
            SELECT attname, format('ALTER TABLE %s ALTER COLUMN %I SET COMPRESSION %s', {name}, attname,
                       CASE attcompression WHEN 'p' THEN 'pglz' ELSE 'lz4' END)
              FROM pg_attribute WHERE attrelid = {oid} AND NOT attisdropped AND attcompression <> ''
            UNION ALL {sampled}) AS traits
     WHERE attname <> {column}
     ORDER BY sql";

/// The storage parameters of the first partition of the table `{oid}`, which itself can't have any, as a statement on
/// `{name}`.
const PARAMETERS: &str = "
    SELECT format('ALTER TABLE %s SET (%s)', {name},
                  string_agg(format('%s%I=%L', namespace, option_name, option_value), ', ')) AS sql
      FROM ({parameters}) AS o HAVING count(*) > 0";

/// What makes `{name}` belong to whom the table `{oid}` belongs.
const BELONGS: &str = "
    SELECT format('ALTER TABLE %s OWNER TO %I', {name}, pg_get_userbyid(relowner)) AS sql
      FROM pg_class WHERE oid = {oid} AND pg_get_userbyid(relowner) <> current_user";

/// The oldest partition of the table `{oid}`.
const FIRST: &str =
    "(SELECT min(inhrelid::oid::bigint)::oid FROM pg_inherits WHERE inhparent = {oid})";

/// The columns but ours, quoted and in a row: all, and those that hold values of their own.
const COLUMNS: &str = "
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) AS all_columns,
           string_agg(quote_ident(attname), ', ' ORDER BY attnum) FILTER (WHERE attgenerated = '') AS columns
      FROM pg_attribute
     WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped AND attname <> '{column}'";

fn asked(session: &mut Session, sql: &str, table: &Table, name: &str) -> Result<String> {
    let sql = sql.replace("{oid}", &table.oid.to_string()).replace("{column}", COLUMN);
    let rows = session.query(&sql).map_err(failed)?;
    Ok(rows.first().map(|row| row.text(name)).unwrap_or_default())
}

/// The table of the batches from `first` to `last`.
pub fn leaf(table: &QualifiedName, first: u64, last: u64) -> Result<QualifiedName> {
    suffixed(table, &format!("_p{first}_{last}")).map_err(failed)
}

/// The statements that make a table of the same columns, but for ours, without indexes.
pub fn create(session: &mut Session, table: &Table, leaf: &QualifiedName) -> Result<String> {
    let shape = asked(session, SHAPE, table, "shape")?;
    let mut statements = vec![format!("CREATE TABLE {leaf} {shape}")];
    statements.extend(traits(session, table.oid, leaf)?);
    statements.extend(owned_alike(session, table.oid, leaf)?);
    let first = fill(FIRST, &[("oid", &table.oid.to_string())]);
    let parameters = fill(carry::OPTIONS, &[("oid", &first)]);
    let values = [("name", &*literal(leaf)?), ("parameters", &parameters)];
    statements.extend(texts(session, &fill(PARAMETERS, &values)).map_err(failed)?);
    Ok(statements.join("; "))
}

/// The statement, if any, that gives what this role makes to a table's owner, who can then change both together.
pub fn owned_alike(session: &mut Session, oid: u32, made: &QualifiedName) -> Result<Vec<String>> {
    let values = [("oid", &*oid.to_string()), ("name", &literal(made)?)];
    texts(session, &fill(BELONGS, &values)).map_err(failed)
}

/// The statements that have a table's columns stored and sampled as another one's, given by its number.
pub fn traits(session: &mut Session, oid: u32, other: &QualifiedName) -> Result<Vec<String>> {
    let values = [
        ("oid", &*oid.to_string()),
        ("name", &literal(other)?),
        ("column", &quote_literal(COLUMN).map_err(failed)?),
        ("sampled", &carry::sampled(oid, other)?),
    ];
    texts(session, &fill(TRAITS, &values)).map_err(failed)
}

/// All columns of a table but ours, as a list.
pub fn all_columns(session: &mut Session, table: &Table) -> Result<String> {
    asked(session, COLUMNS, table, "all_columns")
}

/// The columns that rows have, as a list.
pub fn columns(session: &mut Session, table: &Table) -> Result<String> {
    asked(session, COLUMNS, table, "columns")
}

/// The statements that build the indexes of a partition, but those that come late.
pub fn indexes(session: &mut Session, table: &Table, leaf: &QualifiedName) -> Result<Vec<String>> {
    let mut statements =
        some_indexes(session, table.oid, &table.name, leaf, |index| !is_late(index))?;
    statements.extend(table.key.as_ref().map(|key| key.index(leaf)));
    Ok(statements)
}

/// Whether an index is built once a partition has its rows and is [bound]: our column is in it, or it is a filter, which
/// the extension does not fill from rows as they pass.
pub fn is_late(index: &IndexDefinition) -> bool {
    index.tail.contains(COLUMN) || index.tail.starts_with("USING fullbore_filter ")
}

/// The statements that build the others.
pub fn late_indexes(
    session: &mut Session,
    table: &Table,
    leaf: &QualifiedName,
) -> Result<Vec<String>> {
    some_indexes(session, table.oid, &table.name, leaf, is_late)
}

/// The statements that build a table's indexes, given by its number, on another one; `name` is what errors call it. Unique
/// ones hold within a partition only, and are left out.
pub fn index_statements(
    session: &mut Session,
    oid: u32,
    name: &QualifiedName,
    other: &QualifiedName,
) -> Result<Vec<String>> {
    some_indexes(session, oid, name, other, |_| true)
}

/// Those of them that are wanted.
fn some_indexes(
    session: &mut Session,
    oid: u32,
    name: &QualifiedName,
    other: &QualifiedName,
    is_wanted: impl Fn(&IndexDefinition) -> bool,
) -> Result<Vec<String>> {
    let wanted = catalog::indexes(session, oid).map_err(failed)?;
    let jobs = wanted
        .iter()
        .filter(|index| !index.is_unique && is_wanted(index))
        .map(|index| indexes::job(index, other, name));
    Ok(jobs.collect::<Result<Vec<_>>>()?.into_iter().flat_map(|job| job.statements).collect())
}

/// The statement that gives a table our column, which costs its rows nothing, and a CHECK that ATTACH goes by.
pub fn bound(leaf: &QualifiedName, first: u64, last: u64) -> Result<String> {
    let column = quote_identifier(COLUMN).map_err(failed)?;
    Ok(format!(
        "ALTER TABLE {leaf} ADD COLUMN {column} bigint NOT NULL DEFAULT {first}, \
         ADD CONSTRAINT {CHECK} CHECK ({column} >= {first} AND {column} < {})",
        last + 1
    ))
}

/// The statements that attach a table that was bound.
pub fn attach(table: &Table, leaf: &QualifiedName, first: u64, last: u64) -> String {
    format!(
        "ALTER TABLE {} ATTACH PARTITION {leaf} FOR VALUES FROM ({first}) TO ({}); \
         ALTER TABLE {leaf} DROP CONSTRAINT {CHECK}",
        table.name,
        last + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_partitions_fit_and_differ() {
        let leaf = |name: &str, first, last| {
            let table = QualifiedName::new(Some("s"), name).expect("a name");
            leaf(&table, first, last).expect("a name")
        };
        assert_eq!(leaf("readings", 17, 20).to_string(), "\"s\".\"readings_p17_20\"");
        let long = |end: &str| leaf(&format!("{}{end}", "é".repeat(31)), 1, 1_000_000);
        assert!(long("a").name().len() <= 63);
        assert_ne!(long("a"), long("b"));
    }
}
