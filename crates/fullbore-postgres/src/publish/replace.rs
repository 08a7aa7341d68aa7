//! `replace`: a new table is filled beside the old one, indexed, and put in its place.
//!
//! What can't be carried over to the new table is refused by name before a row moves: everything
//! that hangs on the old table and is not known to come along. Nothing is ever dropped by CASCADE.

use fullbore_core::error::{Error, Result};
use fullbore_core::plan::Plan;

use super::indexes::{self, Job};
use crate::catalog::{self, Relation};
use crate::connection::{ConnectionError, QualifiedName, Row, Session, quote_identifier};
use crate::destination::{Postgres, Target};
use crate::error::{failed, failed_while, refuse, refused};
use crate::naming::derived;

/// Everything that hangs on a table, what comes along left out: its own indexes, constraints,
/// defaults, identity and owned sequences, toast table, types and statistics.
const DEPENDENTS: &str = "
    SELECT DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid) AS what
      FROM pg_depend d
      LEFT JOIN pg_constraint con ON d.classid = 'pg_constraint'::regclass AND con.oid = d.objid
      LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
     WHERE (d.refclassid = 'pg_class'::regclass AND d.refobjid = {oid}
            OR d.refclassid = 'pg_type'::regclass
               AND d.refobjid IN (SELECT reltype FROM pg_class WHERE oid = {oid}
                                  UNION SELECT typarray FROM pg_type WHERE typrelid = {oid}))
       AND d.deptype <> 'i'
       AND NOT (con.oid IS NOT NULL AND con.conrelid = {oid})
       AND NOT (c.oid IS NOT NULL AND c.relkind IN ('i', 'S', 't'))
       AND d.classid NOT IN ('pg_attrdef'::regclass, 'pg_statistic_ext'::regclass)
    UNION
    SELECT 'publication ' || quote_ident(p.pubname)
      FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE r.prrelid = {oid}
    UNION
    SELECT 'row security' FROM pg_class WHERE oid = {oid} AND relrowsecurity
    UNION
    SELECT 'trigger ' || quote_ident(tgname) FROM pg_trigger WHERE tgrelid = {oid} AND NOT tgisinternal
    UNION
    SELECT 'inheritance or partition ' || inhrelid::regclass || ' of ' || inhparent::regclass
      FROM pg_inherits WHERE {oid} IN (inhrelid, inhparent)
    UNION
    SELECT 'extended statistics ' || quote_ident(stxname) FROM pg_statistic_ext WHERE stxrelid = {oid}
    UNION
    SELECT 'security label' FROM pg_seclabel
     WHERE classoid = 'pg_class'::regclass AND objoid = {oid}
    UNION
    SELECT 'replica identity' FROM pg_class WHERE oid = {oid} AND relreplident <> 'd'
    ORDER BY 1";

fn dependents(session: &mut Session, oid: u32) -> Result<Vec<String>, ConnectionError> {
    let rows = session.query(&DEPENDENTS.replace("{oid}", &oid.to_string()))?;
    Ok(rows.iter().filter_map(|row| row.get("what").map(str::to_owned)).collect())
}

fn can_not_carry(name: &QualifiedName, what: &[String]) -> Error {
    refuse(
        format!("{name} can't be replaced: {} would be lost", what.join(", ")),
        "load with --publish append, or drop them first and make them again afterwards",
    )
}

/// Refuses a table on which something hangs that can't be carried over.
pub fn check(session: &mut Session, relation: &Relation) -> Result<()> {
    if relation.kind != 'r' {
        return Err(refuse(
            format!("{} is a partitioned table and can't be replaced", relation.name),
            "load with --publish partitions or append",
        ));
    }
    let what = dependents(session, relation.oid).map_err(refused)?;
    if what.is_empty() { Ok(()) } else { Err(can_not_carry(&relation.name, &what)) }
}

fn one(rows: &[Row], column: &str) -> String {
    rows.first().and_then(|row| row.get(column)).unwrap_or_default().to_owned()
}

fn texts(session: &mut Session, sql: &str) -> Result<Vec<String>> {
    let rows = session.query(sql).map_err(failed)?;
    Ok(rows.iter().filter_map(|row| row.get("sql").map(str::to_owned)).collect())
}

/// Makes the new table, empty and committed, for all sessions to fill.
pub fn prepare(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
    target: &Target,
) -> Result<()> {
    let oid = oid_of(session, target)?;
    let about = session
        .query(&format!(
            "SELECT CASE relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END AS persistence,
                    quote_ident(am.amname) AS method, array_to_string(reloptions, ', ') AS options,
                    coalesce((SELECT ' TABLESPACE ' || quote_ident(spcname) FROM pg_tablespace t
                               WHERE t.oid = c.reltablespace), '') AS tablespace
               FROM pg_class c JOIN pg_am am ON am.oid = c.relam WHERE c.oid = {oid}"
        ))
        .map_err(failed)?;
    let options = match one(&about, "options") {
        options if options.is_empty() => String::new(),
        options => format!(" WITH ({options})"),
    };
    let tablespace = match postgres.tablespace(table)? {
        clause if clause.is_empty() => one(&about, "tablespace"),
        clause => clause,
    };
    let staging = target.staging(plan)?;
    session
        .execute(&format!(
            "CREATE {}TABLE {staging} (LIKE {} INCLUDING DEFAULTS INCLUDING CONSTRAINTS \
             INCLUDING GENERATED INCLUDING IDENTITY INCLUDING STORAGE INCLUDING COMPRESSION \
             INCLUDING COMMENTS) USING {}{options}{tablespace}",
            one(&about, "persistence"),
            target.name(),
            one(&about, "method"),
        ))
        .map_err(failed)?;
    Ok(())
}

/// A table's object id now: one made by this run was described before it was made.
fn oid_of(session: &mut Session, target: &Target) -> Result<u32> {
    let relation = catalog::relation(session, target.name()).map_err(failed)?;
    relation.map(|relation| relation.oid).ok_or_else(|| {
        refuse(format!("{} is gone", target.name()), "somebody dropped it during the load")
    })
}

/// A name for the n-th index of the new table until it gets the old one's.
fn index_name(plan: &Plan, target: &Target, number: usize) -> Result<QualifiedName> {
    derived(target.name(), &plan.run_id, &format!("i{number}")).map_err(failed)
}

/// The old table's indexes and foreign keys on the new one.
pub fn index_jobs(postgres: &Postgres, plan: &Plan, target: &Target) -> Result<Vec<Job>> {
    let mut session = postgres.control();
    let oid = oid_of(&mut session, target)?;
    let staging = target.staging(plan)?;
    let mut jobs = Vec::new();
    for (number, index) in catalog::indexes(&mut session, oid).map_err(failed)?.iter().enumerate() {
        let name = index_name(plan, target, number)?;
        jobs.push(indexes::job(index, &staging, Some(name.name()), target.name())?);
    }
    // One job: each takes a lock on the new table that the others would wait for.
    let foreign_keys = texts(
        &mut session,
        &format!(
            "SELECT 'ALTER TABLE {} ADD CONSTRAINT ' || quote_ident(conname) || ' '
                    || pg_get_constraintdef(oid) AS sql
               FROM pg_constraint WHERE conrelid = {oid} AND contype = 'f' ORDER BY conname",
            staging.to_string().replace('\'', "''")
        ),
    )?;
    if !foreign_keys.is_empty() {
        let what = format!("checking the foreign keys of {}", target.name());
        jobs.push(Job { what, statements: foreign_keys });
    }
    Ok(jobs)
}

/// Puts the new table in the old one's place, in the transaction that is open.
pub fn show(session: &mut Session, plan: &Plan, target: &Target) -> Result<()> {
    let name = target.name();
    let staging = target.staging(plan)?;
    session.execute(&format!("LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")).map_err(failed)?;
    let oid = oid_of(session, target)?;
    if target.create.is_none() && oid != target.relation.oid {
        return Err(refuse(
            format!("{name} was made anew by somebody during the load"),
            "load again",
        ));
    }
    let what = dependents(session, oid).map_err(failed)?;
    if !what.is_empty() {
        return Err(can_not_carry(name, &what));
    }
    let wanted = catalog::indexes(session, oid).map_err(failed)?;
    let mut statements = carried(session, oid, &staging)?;
    statements.push(format!("DROP TABLE {name}"));
    statements.push(format!("ALTER TABLE {staging} RENAME TO {}", quote(name.name())?));
    for (number, index) in wanted.iter().enumerate() {
        let made = index_name(plan, target, number)?;
        statements.push(match &index.constraint {
            Some((constraint, _)) => format!(
                "ALTER TABLE {name} RENAME CONSTRAINT {} TO {}",
                quote(made.name())?,
                quote(constraint)?
            ),
            None => format!("ALTER INDEX {made} RENAME TO {}", quote(&index.name)?),
        });
        if index.is_clustered {
            statements.push(format!("ALTER TABLE {name} CLUSTER ON {}", quote(&index.name)?));
        }
        if let Some(comment) = &index.comment {
            let comment = crate::connection::quote_literal(comment).map_err(failed)?;
            statements.push(match &index.constraint {
                Some((constraint, _)) => {
                    format!("COMMENT ON CONSTRAINT {} ON {name} IS {comment}", quote(constraint)?)
                }
                None => {
                    let index = QualifiedName::new(name.schema(), &index.name).map_err(failed)?;
                    format!("COMMENT ON INDEX {index} IS {comment}")
                }
            });
        }
    }
    for statement in statements {
        session.execute(&statement).map_err(|error| failed_while(error, &statement))?;
    }
    Ok(())
}

fn quote(name: &str) -> Result<String> {
    quote_identifier(name).map_err(failed)
}

/// The statements that give the new table what the old one has beside its columns: owner, grants,
/// comment, column settings, owned sequences, the state of identity sequences.
fn carried(session: &mut Session, oid: u32, staging: &QualifiedName) -> Result<Vec<String>> {
    let new = crate::connection::quote_literal(&staging.to_string()).map_err(failed)?;
    texts(
        session,
        &format!(
            "SELECT sql FROM (
               SELECT 1 AS place, format('ALTER TABLE %s OWNER TO %I', {new}, pg_get_userbyid(relowner)) AS sql
                 FROM pg_class WHERE oid = {oid}
               UNION ALL
               SELECT 2, format('REVOKE ALL ON %s FROM %s', {new},
                                CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END)
                 FROM pg_class n, aclexplode(n.relacl) g WHERE n.oid = to_regclass({new})
               UNION ALL
               SELECT 3, format('GRANT %s ON %s TO %s%s', g.privilege_type, {new},
                                CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END,
                                CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
                 FROM pg_class c, aclexplode(c.relacl) g WHERE c.oid = {oid}
               UNION ALL
               SELECT 3, format('GRANT %s (%I) ON %s TO %s%s', g.privilege_type, a.attname, {new},
                                CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END,
                                CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
                 FROM pg_attribute a, aclexplode(a.attacl) g WHERE a.attrelid = {oid} AND NOT a.attisdropped
               UNION ALL
               SELECT 4, format('COMMENT ON TABLE %s IS %L', {new}, obj_description({oid}, 'pg_class'))
                WHERE obj_description({oid}, 'pg_class') IS NOT NULL
               UNION ALL
               SELECT 4, format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS %s', {new}, attname, attstattarget)
                 FROM pg_attribute WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped AND attstattarget >= 0
               UNION ALL
               SELECT 4, format('ALTER TABLE %s ALTER COLUMN %I SET (%s)', {new}, attname, array_to_string(attoptions, ', '))
                 FROM pg_attribute WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped AND attoptions IS NOT NULL
               UNION ALL
               -- Sequences of serial columns: the default names them already.
               SELECT 5, format('ALTER SEQUENCE %s OWNED BY %s.%I', d.objid::regclass, {new}, a.attname)
                 FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
                 JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
                WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = {oid} AND d.deptype = 'a'
               UNION ALL
               -- Identity columns got sequences of their own: they go on where the old ones were.
               SELECT 5, format('SELECT setval(pg_get_serial_sequence(%L, %L), last_value, is_called) FROM %s',
                                {new}, a.attname, d.objid::regclass)
                 FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
                 JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
                WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = {oid} AND d.deptype = 'i'
             ) AS carried ORDER BY place"
        ),
    )
}
