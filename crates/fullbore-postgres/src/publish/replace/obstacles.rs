//! Finds objects that depend on a table and would be lost with it.
//!
//! Every recorded dependency on the table or its parts is an obstacle, unless the object moves to the new
//! table. Properties without a dependency, such as row security, are checked one by one.

use fullbore_pgwire::{ConnectionError, QualifiedName, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};

use super::tools::{fill, texts};
use crate::catalog::{PUBLISHES_SCHEMAS, Relation};
use crate::error::{failed, refuse, refused};

/// The parts of the table `{oid}` that come along: `ours`. A sequence that is owned by a serial
/// column is none: it is handed over as it is, and what depends on it stays.
const OURS: &str = "
    WITH RECURSIVE ours(classid, objid) AS (
        SELECT 'pg_class'::regclass::oid, {oid}::oid
        UNION
        SELECT d.classid, d.objid
          FROM ours o
          JOIN pg_depend d ON d.refclassid = o.classid AND d.refobjid = o.objid
          LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
         WHERE CASE d.classid
               WHEN 'pg_class'::regclass THEN
                    c.relkind = 't' AND d.deptype = 'i'
                    OR c.relkind = 'S' AND d.deptype = 'i'
                    OR c.relkind = 'i' AND EXISTS (
                       SELECT FROM pg_index i JOIN pg_class t ON t.oid = {oid}
                        WHERE i.indexrelid = c.oid AND i.indrelid IN (t.oid, t.reltoastrelid))
               WHEN 'pg_type'::regclass THEN d.deptype = 'i'
               WHEN 'pg_constraint'::regclass THEN
                    EXISTS (SELECT FROM pg_constraint x WHERE x.oid = d.objid AND x.conrelid = {oid})
               WHEN 'pg_attrdef'::regclass THEN
                    EXISTS (SELECT FROM pg_attrdef x WHERE x.oid = d.objid AND x.adrelid = {oid})
               WHEN 'pg_statistic_ext'::regclass THEN
                    EXISTS (SELECT FROM pg_statistic_ext x
                             WHERE x.oid = d.objid AND x.stxrelid = {oid})
               WHEN 'pg_trigger'::regclass THEN
                    EXISTS (SELECT FROM pg_trigger x WHERE x.oid = d.objid AND x.tgisinternal)
               ELSE false END
    )";

/// What is in the way, a name each.
const OBSTACLES: &str = "
    SELECT CASE WHEN r.rulename = '_RETURN'
                THEN pg_describe_object('pg_class'::regclass, r.ev_class, 0)
                ELSE pg_describe_object(d.classid, d.objid, d.objsubid) END AS sql
      FROM ours o
      JOIN pg_depend d ON d.refclassid = o.classid AND d.refobjid = o.objid
      LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
      LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
     WHERE NOT EXISTS (SELECT FROM ours k WHERE k.classid = d.classid AND k.objid = d.objid)
       AND NOT (d.deptype = 'a' AND c.oid IS NOT NULL AND c.relkind = 'S')
       -- Foreign keys of tables that are replaced with it are made again on the new ones.
       AND NOT EXISTS (SELECT FROM pg_constraint k
                        WHERE d.classid = 'pg_constraint'::regclass AND k.oid = d.objid
                          AND k.contype = 'f' AND k.conrelid IN ({company}))
    UNION
    SELECT pg_describe_object(d.refclassid, d.refobjid, 0) || ', to which '
           || pg_describe_object(d.classid, d.objid, 0) || ' belongs'
      FROM ours o JOIN pg_depend d ON d.classid = o.classid AND d.objid = o.objid
     WHERE d.deptype IN ('e', 'x')
    UNION
    SELECT 'security label of ' || pg_describe_object(l.classoid, l.objoid, l.objsubid)
      FROM ours o JOIN pg_seclabel l ON l.classoid = o.classid AND l.objoid = o.objid
    UNION
    SELECT 'row security' FROM pg_class
     WHERE oid = {oid} AND (relrowsecurity OR relforcerowsecurity)
    UNION
    SELECT 'its type ' || reloftype::regtype FROM pg_class WHERE oid = {oid} AND reloftype <> 0
    UNION
    SELECT 'its parent ' || pg_describe_object('pg_class'::regclass, inhparent, 0)
      FROM pg_inherits WHERE inhrelid = {oid}
    UNION
    SELECT 'subscription ' || quote_ident(s.subname)
      FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid
     WHERE r.srrelid = {oid}
    UNION
    SELECT pg_describe_object('pg_class'::regclass, indexrelid, 0) || ', which is not valid'
      FROM pg_index WHERE indrelid = {oid} AND NOT (indisvalid AND indisready AND indislive)
    UNION
    SELECT 'setting of the triggers of ' || pg_describe_object('pg_constraint'::regclass, tgconstraint, 0)
      FROM pg_trigger WHERE tgrelid = {oid} AND tgisinternal AND tgenabled <> 'O'
    UNION
    -- varattno 0 is the whole row, in an expression: the server can't put it on another table.
    SELECT pg_describe_object('pg_constraint'::regclass, oid, 0) || ', which takes the whole row'
      FROM pg_constraint WHERE conrelid = {oid} AND conbin::text LIKE '%:varattno 0 %'
    UNION
    SELECT pg_describe_object('pg_class'::regclass, indexrelid, 0) || ', which takes the whole row'
      FROM pg_index
     WHERE indrelid = {oid}
       AND coalesce(indexprs::text, '') || coalesce(indpred::text, '') LIKE '%:varattno 0 %'
    UNION
    SELECT 'privileges of ' || pg_describe_object('pg_type'::regclass, oid, 0)
      FROM pg_type WHERE typrelid = {oid} AND typacl IS NOT NULL
    UNION
    SELECT 'comment on ' || pg_describe_object(d.classoid, d.objoid, 0)
      FROM ours o JOIN pg_description d ON d.classoid = o.classid AND d.objoid = o.objid
     WHERE d.classoid = 'pg_type'::regclass";

/// A publication can cover a schema, and the staging table with it.
const PUBLICATIONS_OF_SCHEMAS: &str = "
    UNION
    SELECT 'publication ' || quote_ident(p.pubname) || ' of all tables in its schema'
      FROM pg_publication_namespace n
      JOIN pg_publication p ON p.oid = n.pnpubid
      JOIN pg_class c ON c.relnamespace = n.pnnspid
     WHERE c.oid = {oid}";

/// The right to take on a role; up to 15 every member had it.
pub fn right_to_become(session: &Session) -> &'static str {
    const MEMBERS_MAY_NOT_SET: u32 = 160_000;
    if session.server_version_num() >= MEMBERS_MAY_NOT_SET { "SET" } else { "MEMBER" }
}

/// What this role may not do although the swap needs it.
const PERMISSIONS: &str = "
    WITH me AS (SELECT oid, rolsuper FROM pg_roles WHERE rolname = current_user)
    SELECT format('create in the schema %I', n.nspname) AS sql
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = {oid} AND NOT has_schema_privilege(n.oid, 'CREATE')
    UNION
    SELECT format('give a new table to its owner %s (SET ROLE, and CREATE on the schema %I for it)',
                  c.relowner::regrole, n.nspname)
      FROM me, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = {oid} AND c.relowner <> me.oid AND NOT me.rolsuper
       AND NOT (pg_has_role(c.relowner, '{become}')
                AND has_schema_privilege(c.relowner, n.oid, 'CREATE'))
    UNION
    SELECT format('create statistics %I.%I for %s again', n.nspname, s.stxname, s.stxowner::regrole)
      FROM me, pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace
     WHERE s.stxrelid = {oid} AND NOT me.rolsuper
       AND NOT (has_schema_privilege(n.oid, 'CREATE')
                AND (s.stxowner = me.oid
                     OR pg_has_role(s.stxowner, '{become}')
                        AND has_schema_privilege(s.stxowner, n.oid, 'CREATE')))
    ORDER BY 1";

/// What hangs on a table, but for what tables of its company have of it.
pub(crate) fn found(
    session: &mut Session,
    oid: u32,
    company: &[u32],
) -> Result<Vec<String>, ConnectionError> {
    let of_schemas = if session.server_version_num() >= PUBLISHES_SCHEMAS {
        PUBLICATIONS_OF_SCHEMAS
    } else {
        ""
    };
    let query = format!("{OURS}{OBSTACLES}{of_schemas} ORDER BY 1");
    let company: Vec<String> = company.iter().chain([&0]).map(u32::to_string).collect();
    let values = [("oid", &*oid.to_string()), ("company", &company.join(", "))];
    texts(session, &fill(&query, &values))
}

fn sentence(name: &QualifiedName, what: &[String]) -> String {
    format!("{name} can't be replaced, the new table would lose: {}", what.join("; "))
}

/// What to do about them. A constraint that is another table's, and not its own in the way, refers to this one.
fn hint(what: &[String]) -> String {
    let refers = |it: &String| it.starts_with("constraint ") && !it.contains(", which ");
    let together = match what.iter().any(refers) {
        true => ", together with the tables that refer to it",
        false => "",
    };
    format!(
        "load with --publish append{together}, or drop them first and create them again afterwards"
    )
}

/// Refuses a table on which something hangs that can't be carried over. Nothing is touched.
pub fn check(session: &mut Session, relation: &Relation, company: &[u32]) -> Result<()> {
    let name = &relation.name;
    if relation.kind != 'r' {
        return Err(refuse(
            format!("{name} is not a plain table and can't be replaced"),
            "load with --publish partitions or append",
        ));
    }
    let what = found(session, relation.oid, company).map_err(refused)?;
    if !what.is_empty() {
        return Err(refuse(sentence(name, &what), hint(&what)));
    }
    let values = [("oid", &*relation.oid.to_string()), ("become", right_to_become(session))];
    let permissions = fill(PERMISSIONS, &values);
    let missing = texts(session, &permissions).map_err(refused)?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(refuse(
        format!("permission denied: replacing {name} needs privileges to {}", missing.join("; ")),
        "load as the table's owner, with CREATE on its schema, or with --publish append",
    ))
}

/// As [`check`], for a run that has begun: somebody may have added something since.
pub fn none(session: &mut Session, relation: &Relation, company: &[u32]) -> Result<()> {
    let what = found(session, relation.oid, company).map_err(failed)?;
    if what.is_empty() {
        return Ok(());
    }
    Err(Error::Destination {
        message: sentence(&relation.name, &what),
        hint: Some(hint(&what)),
        kind: DestinationFailure::Other,
    })
}
