//! Only the owner can read unpublished rows. Default privileges
//! (`ALTER DEFAULT PRIVILEGES ... GRANT SELECT`) would let other roles read them, so these grants are
//! revoked in the transaction that creates the table, before its first row.

use fullbore_pgwire::{ConnectionError, Session, quote_literal};

/// One grant that a table has, as GRANT and REVOKE write it.
const GRANTEE: &str =
    "CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END";

fn block(body: &str) -> Result<String, ConnectionError> {
    Ok(format!("DO {}", quote_literal(body)?))
}

/// The statement that takes from everybody but its owner what a new table, by its quoted name, came with.
pub fn hide(table: &str) -> Result<String, ConnectionError> {
    let name = quote_literal(table)?;
    block(&format!(
        "DECLARE role text; BEGIN
             FOR role IN SELECT DISTINCT {GRANTEE}
                           FROM pg_class c, aclexplode(c.relacl) a
                          WHERE c.oid = {name}::regclass AND a.grantee <> c.relowner
             LOOP EXECUTE format('REVOKE ALL ON TABLE %s FROM %s', {name}, role); END LOOP;
         END"
    ))
}

/// Whether there are default privileges, of whomever for whatever schema, that [`reveal`] could give.
pub fn is_any_given(session: &mut Session) -> Result<bool, ConnectionError> {
    let given = "SELECT FROM pg_default_acl WHERE defaclobjtype = 'r' LIMIT 1";
    Ok(!session.query(given)?.is_empty())
}

/// The statement that gives a table which is published now what default privileges give of a table that is
/// made by hand.
pub fn reveal(table: &str) -> Result<String, ConnectionError> {
    let name = quote_literal(table)?;
    block(&format!(
        "DECLARE given record; BEGIN
             FOR given IN SELECT DISTINCT a.privilege_type AS what, {GRANTEE} AS role,
                                 CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS option
                            FROM pg_class c
                            JOIN pg_default_acl d ON d.defaclrole = c.relowner AND d.defaclobjtype = 'r'
                             AND d.defaclnamespace IN (0, c.relnamespace), aclexplode(d.defaclacl) a
                           WHERE c.oid = {name}::regclass AND a.grantee <> c.relowner
             LOOP EXECUTE format('GRANT %s ON TABLE %s TO %s%s', given.what, {name}, given.role,
                                 given.option); END LOOP;
         END"
    ))
}
