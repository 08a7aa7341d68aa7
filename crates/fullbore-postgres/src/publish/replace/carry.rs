//! Properties that the swap moves to the new table, other than rows, constraints and grants.

use fullbore_pgwire::{ConnectionError, QualifiedName, Session};
use fullbore_read::error::Result;

use super::tools::{fill, literal, quote, texts};
use crate::catalog::{COLUMN_OPTIONS, Relation};
use crate::error::failed;

/// The storage parameters of the table `{oid}`, those of its TOAST table under `toast.`.
pub const OPTIONS: &str = "
    SELECT '' AS namespace, p.option_name, p.option_value
      FROM pg_class c, pg_options_to_table(c.reloptions) p WHERE c.oid = {oid}
    UNION ALL
    SELECT 'toast.', p.option_name, p.option_value
      FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid, pg_options_to_table(t.reloptions) p
     WHERE c.oid = {oid}";

/// How columns of the table `{old}` are sampled, as statements on `{name}`, with the column of each.
const SAMPLED: &str = "
    SELECT attname, format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS %s', {name}, attname, attstattarget) AS sql
      FROM pg_attribute
     WHERE attrelid = {old} AND attnum > 0 AND NOT attisdropped AND attstattarget >= 0
    UNION ALL
    SELECT a.attname, format('ALTER TABLE %s ALTER COLUMN %I SET (%s)', {name}, a.attname,
                             string_agg(format('%I=%L', p.option_name, p.option_value), ', '))
      FROM pg_attribute a, pg_options_to_table(a.attoptions) p
     WHERE a.attrelid = {old} AND a.attnum > 0 AND NOT a.attisdropped AND p.option_name IN {options}
     GROUP BY a.attname";

/// All that is told by the old table, as statements on `{name}`; `{old}` and `{new}` are the tables.
const CARRIED: &str = "
    SELECT sql FROM (
        -- What the new table has only for the load goes, what the old one has comes.
        SELECT 1 AS place, format('ALTER TABLE %s RESET (%s)', {name}, string_agg(item, ', ')) AS sql
          FROM (SELECT format('%s%I', namespace, option_name) AS item FROM ({new_options}) n
                EXCEPT SELECT format('%s%I', namespace, option_name) FROM ({old_options}) o) AS gone
        HAVING count(*) > 0
        UNION ALL
        SELECT 1, format('ALTER TABLE %s SET (%s)', {name},
                         string_agg(format('%s%I=%L', namespace, option_name, option_value), ', '))
          FROM ({old_options}) o HAVING count(*) > 0
        UNION ALL
        SELECT 2, sql FROM ({sampled}) AS sampled
        UNION ALL
        SELECT 2, format('ALTER INDEX %I.%I ALTER COLUMN %s SET STATISTICS %s', n.nspname, c.relname,
                         a.attnum, a.attstattarget)
          FROM pg_index i
          JOIN pg_class c ON c.oid = i.indexrelid
          JOIN pg_namespace n ON n.oid = c.relnamespace
          JOIN pg_attribute a ON a.attrelid = c.oid
         WHERE i.indrelid = {old} AND a.attnum > 0 AND a.attstattarget >= 0
        UNION ALL
        SELECT 2, format('ALTER TABLE %s CLUSTER ON %I', {name}, c.relname)
          FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
         WHERE i.indrelid = {old} AND i.indisclustered
        UNION ALL
        SELECT 2, format('ALTER TABLE %s REPLICA IDENTITY %s', {name},
                         CASE relreplident WHEN 'f' THEN 'FULL' ELSE 'NOTHING' END)
          FROM pg_class WHERE oid = {old} AND relreplident IN ('f', 'n')
        UNION ALL
        SELECT 2, format('ALTER TABLE %s REPLICA IDENTITY USING INDEX %I', {name}, c.relname)
          FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
         WHERE i.indrelid = {old} AND i.indisreplident
        UNION ALL
        -- Extended statistics are recreated: they are empty before the next ANALYZE anyway.
        SELECT 3, pg_get_statisticsobjdef(oid) FROM pg_statistic_ext WHERE stxrelid = {old}
        UNION ALL
        SELECT 4, format('ALTER STATISTICS %I.%I SET STATISTICS %s', n.nspname, s.stxname, s.stxstattarget)
          FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace
         WHERE s.stxrelid = {old} AND s.stxstattarget >= 0
        UNION ALL
        SELECT 4, format('COMMENT ON STATISTICS %I.%I IS %L', n.nspname, s.stxname, d.description)
          FROM pg_statistic_ext s
          JOIN pg_namespace n ON n.oid = s.stxnamespace
          JOIN pg_description d ON d.classoid = 'pg_statistic_ext'::regclass AND d.objoid = s.oid
         WHERE s.stxrelid = {old}
        UNION ALL
        SELECT 5, format('ALTER STATISTICS %I.%I OWNER TO %I', n.nspname, s.stxname, pg_get_userbyid(s.stxowner))
          FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace
         WHERE s.stxrelid = {old} AND pg_get_userbyid(s.stxowner) <> current_user
        UNION ALL
        SELECT 6, CASE d.objsubid WHEN 0 THEN format('COMMENT ON TABLE %s IS %L', {name}, d.description)
                  ELSE format('COMMENT ON COLUMN %s.%I IS %L', {name}, a.attname, d.description) END
          FROM pg_description d
          LEFT JOIN pg_attribute a ON a.attrelid = d.objoid AND a.attnum = nullif(d.objsubid, 0)
         WHERE d.classoid = 'pg_class'::regclass AND d.objoid = {old}
        UNION ALL
        SELECT 6, format('COMMENT ON CONSTRAINT %I ON %s IS %L', c.conname, {name}, d.description)
          FROM pg_constraint c
          JOIN pg_description d ON d.classoid = 'pg_constraint'::regclass AND d.objoid = c.oid
         WHERE c.conrelid = {old}
        UNION ALL
        SELECT 6, format('COMMENT ON INDEX %I.%I IS %L', n.nspname, c.relname, d.description)
          FROM pg_index i
          JOIN pg_class c ON c.oid = i.indexrelid
          JOIN pg_namespace n ON n.oid = c.relnamespace
          JOIN pg_description d ON d.classoid = 'pg_class'::regclass AND d.objoid = c.oid
         WHERE i.indrelid = {old}
        UNION ALL
        SELECT 6, format('COMMENT ON SEQUENCE %I.%I IS %L', n.nspname, c.relname, d.description)
          FROM pg_depend p
          JOIN pg_class c ON c.oid = p.objid AND c.relkind = 'S'
          JOIN pg_namespace n ON n.oid = c.relnamespace
          JOIN pg_description d ON d.classoid = 'pg_class'::regclass AND d.objoid = c.oid
         WHERE p.classid = 'pg_class'::regclass AND p.refclassid = 'pg_class'::regclass
           AND p.refobjid = {old} AND p.deptype = 'i'
    ) AS carried ORDER BY place, sql";

/// [`SAMPLED`] of a table, on another one.
pub fn sampled(old: u32, name: &QualifiedName) -> Result<String> {
    let values =
        [("old", &*old.to_string()), ("name", &literal(name)?), ("options", COLUMN_OPTIONS)];
    Ok(fill(SAMPLED, &values))
}

/// The statements that give the new table all else, once it has its name.
pub fn everything_else(session: &mut Session, old: &Relation, new: u32) -> Result<Vec<String>> {
    let (old_oid, new_oid) = (old.oid.to_string(), new.to_string());
    let values = [
        ("old_options", &*fill(OPTIONS, &[("oid", &old_oid)])),
        ("new_options", &fill(OPTIONS, &[("oid", &new_oid)])),
        ("sampled", &sampled(old.oid, &old.name)?),
        ("old", &old_oid),
        ("name", &literal(&old.name)?),
    ];
    let sql = fill(CARRIED, &values);
    texts(session, &sql).map_err(failed)
}

/// An identity column's sequence: it belongs to its column for good, so the new table has its own.
pub struct Identity {
    pub old: u32,
    pub old_name: QualifiedName,
    pub new: u32,
    pub new_name: QualifiedName,
    is_descending: bool,
    /// `AS integer MINVALUE 1 MAXVALUE 2147483647`, of the old one.
    range: String,
}

impl Identity {
    /// The statement that lets the new one go on after the furthest of both: each may have given out
    /// values since the new one was made.
    pub fn goes_on(&self) -> Result<String> {
        let order = if self.is_descending { "ASC" } else { "DESC" };
        Ok(format!(
            "SELECT setval({new}, last_value, is_called) FROM (
                 SELECT last_value, is_called FROM {old} UNION ALL
                 SELECT last_value, is_called FROM {} ORDER BY 1 {order}, 2 DESC LIMIT 1) AS furthest",
            self.new_name,
            new = literal(&self.new_name)?,
            old = self.old_name,
        ))
    }
}

/// The identity columns' sequences of both tables, column by column.
pub fn identities(
    session: &mut Session,
    old: u32,
    new: u32,
) -> Result<Vec<Identity>, ConnectionError> {
    let of = |oid: u32| {
        format!(
            "SELECT a.attname, c.oid, n.nspname, c.relname, s.seqincrement < 0 AS is_descending,
                    format('AS %s MINVALUE %s MAXVALUE %s', s.seqtypid::regtype, s.seqmin, s.seqmax)
                        AS range
               FROM pg_depend d
               JOIN pg_class c ON c.oid = d.objid AND c.relkind = 'S'
               JOIN pg_sequence s ON s.seqrelid = c.oid
               JOIN pg_namespace n ON n.oid = c.relnamespace
               JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
              WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                AND d.refobjid = {oid} AND d.deptype = 'i'"
        )
    };
    let rows = session.query(&format!(
        "SELECT o.oid AS old, o.nspname AS old_schema, o.relname AS old_name, o.is_descending, o.range,
                n.oid AS new, n.nspname AS new_schema, n.relname AS new_name
           FROM ({}) o JOIN ({}) n USING (attname) ORDER BY attname",
        of(old),
        of(new)
    ))?;
    rows.iter()
        .map(|row| {
            let text = |name: &str| row.get(name).unwrap_or_default();
            Ok(Identity {
                old: text("old").parse().unwrap_or(0),
                old_name: QualifiedName::new(row.get("old_schema"), text("old_name"))?,
                new: text("new").parse().unwrap_or(0),
                new_name: QualifiedName::new(row.get("new_schema"), text("new_name"))?,
                is_descending: row.flag("is_descending"),
                range: text("range").to_owned(),
            })
        })
        .collect()
}

/// The statements with which the new table's identity columns go on where the old ones are, for
/// rows that don't bring a value.
pub fn identities_set(session: &mut Session, old: u32, new: u32) -> Result<Vec<String>> {
    let mut statements = Vec::new();
    for identity in identities(session, old, new).map_err(failed)? {
        // LIKE makes every one of them bigint.
        statements.push(format!("ALTER SEQUENCE {} {}", identity.new_name, identity.range));
        statements.push(format!(
            "SELECT setval({}, last_value, is_called) FROM {}",
            literal(&identity.new_name)?,
            identity.old_name
        ));
    }
    Ok(statements)
}

/// The statements that hand sequences over: those to run before the old table is dropped, and
/// those after the rename.
pub fn sequences(
    session: &mut Session,
    old: u32,
    new: &Relation,
) -> Result<(Vec<String>, Vec<String>)> {
    // Those of serial columns; their defaults name them already.
    let mut before = texts(
        session,
        &format!(
            "SELECT format('ALTER SEQUENCE %I.%I OWNED BY %s.%I', n.nspname, s.relname, {}, a.attname) AS sql
               FROM pg_depend d
               JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
               JOIN pg_namespace n ON n.oid = s.relnamespace
               JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
              WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                AND d.refobjid = {old} AND d.deptype = 'a' ORDER BY 1",
            literal(&new.name)?
        ),
    )
    .map_err(failed)?;
    let mut after = Vec::new();
    for identity in identities(session, old, new.oid).map_err(failed)? {
        before.push(identity.goes_on()?);
        after.push(format!(
            "ALTER SEQUENCE {} RENAME TO {}",
            identity.new_name,
            quote(identity.old_name.name())?
        ));
    }
    Ok((before, after))
}
