//! The new table, as like the old one as an empty table can be.

use fullbore_pgwire::{QualifiedName, Session, quote_literal};
use fullbore_read::error::Result;

use super::tools::{fill, known, literal, texts};
use super::{carry, definition, obstacles};
use crate::catalog::Relation;
use crate::error::{failed, failed_while};

/// The statement that makes `{new}` like `{old}`. Tablespace and access method are named: the
/// session's defaults may be others. Comments and extended statistics come with the swap, as they
/// are then. Autovacuum would only get in the way of the load.
const CREATE: &str = "
    SELECT format('CREATE %sTABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS '
                  'INCLUDING GENERATED INCLUDING IDENTITY INCLUDING STORAGE INCLUDING COMPRESSION) '
                  'USING %I WITH (%s)%s',
                  CASE c.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END,
                  {new}, {old}, am.amname,
                  (SELECT string_agg(item, ', ') FROM (
                      SELECT format('%s%I=%L', o.namespace, o.option_name, o.option_value) AS item
                        FROM ({options}) o WHERE o.option_name <> 'autovacuum_enabled'
                      UNION ALL VALUES ('autovacuum_enabled=false'),
                                       ('toast.autovacuum_enabled=false')) AS items),
                  CASE {tablespace}::text WHEN '' THEN format(' TABLESPACE %I', s.spcname)
                                    ELSE {tablespace}::text END) AS sql
      FROM pg_class c
      JOIN pg_am am ON am.oid = c.relam
      JOIN pg_database d ON d.datname = current_database()
      JOIN pg_tablespace s ON s.oid = coalesce(nullif(c.reltablespace, 0), d.dattablespace)
     WHERE c.oid = {oid}";

/// The new table belongs to whom the old one belongs, from the start: index expressions and
/// constraints then run with nobody else's rights. Nobody else sees it before it is shown,
/// whatever default privileges say.
const BELONGS: &str = "
    SELECT sql FROM (
        SELECT 1 AS place, format('ALTER TABLE %s OWNER TO %I', {new}, pg_get_userbyid(o.relowner)) AS sql
          FROM pg_class o, pg_class n
         WHERE o.oid = {oid} AND n.oid = {new_oid} AND o.relowner <> n.relowner
        UNION ALL
        SELECT DISTINCT 2, format('REVOKE ALL ON TABLE %s FROM %s', {new},
                         CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END)
          FROM pg_class n, aclexplode(n.relacl) g
         WHERE n.oid = {new_oid} AND g.grantee <> n.relowner
    ) AS belongs ORDER BY place";

/// Makes the new table in the transaction that is open, and looks whether it came out alike.
pub fn make(
    session: &mut Session,
    old: &Relation,
    staging: &QualifiedName,
    tablespace: &str,
    company: &[u32],
) -> Result<()> {
    // Also for a table that this run made: a publication may cover its schema.
    obstacles::none(session, old, company)?;
    let (old_name, new_name) = (literal(&old.name)?, literal(staging)?);
    let oid = old.oid.to_string();
    let values = [
        ("options", &*fill(carry::OPTIONS, &[("oid", &oid)])),
        ("oid", &oid),
        ("old", &old_name),
        ("new", &new_name),
        ("tablespace", &quote_literal(tablespace).map_err(failed)?),
    ];
    for statement in texts(session, &fill(CREATE, &values)).map_err(failed)? {
        session
            .execute(&statement)
            .map_err(|error| failed_while(error, &format!("making {staging}")))?;
    }
    let new = known(session, staging)?;
    let mut statements = texts(
        session,
        &fill(BELONGS, &[("oid", &oid), ("new_oid", &new.oid.to_string()), ("new", &new_name)]),
    )
    .map_err(failed)?;
    statements.extend(carry::identities_set(session, old.oid, new.oid)?);
    for statement in statements {
        session.execute(&statement).map_err(failed)?;
    }
    // Something of the new table that refers to the old one would go unseen otherwise, as
    // would a property that LIKE does not know.
    obstacles::none(session, old, company)?;
    definition::equal(session, old, new.oid, definition::With::ChecksOnly)
}
