//! What a server lacks for direct loads.

use super::probe;
use crate::connection::{ConnectionError, QualifiedName, Session, quote_identifier};

/// Something that is missing, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Missing {
    pub what: String,
    pub remedy: String,
    /// What takes the remedy back.
    pub undo: String,
}

const STATE: &str = "
    SELECT (SELECT default_version FROM pg_available_extensions WHERE name = 'fullbore') AS available,
           (SELECT extversion FROM pg_extension WHERE extname = 'fullbore') AS installed,
           has_schema_privilege(n.oid, 'USAGE') AS may_use,
           has_function_privilege(p.oid, 'EXECUTE') AS may_call,
           current_user AS role, current_database() AS database
      FROM (SELECT) AS one
      LEFT JOIN pg_namespace n ON n.nspname = 'fullbore'
      LEFT JOIN pg_proc p ON p.pronamespace = n.oid AND p.proname = 'descriptor'";

/// What this database lacks before this role can load directly, in the order of repair.
pub fn missing(session: &mut Session) -> Result<Vec<Missing>, ConnectionError> {
    let rows = session.query(STATE)?;
    let Some(row) = rows.first() else { return Ok(Vec::new()) };
    let text = |name: &str| row.get(name).unwrap_or_default();
    let mut missing = Vec::new();
    if row.get("available").is_none() && row.get("installed").is_none() {
        missing.push(Missing {
            what: "the extension is not installed on the server's machine".into(),
            remedy: "run there, as who may write to PostgreSQL's folders: fullbore extension \
                     install --pg-config PATH"
                .into(),
            undo: "remove its files: fullbore.so, fullbore.control and fullbore--*.sql".into(),
        });
    }
    if row.get("installed").is_none() {
        missing.push(Missing {
            what: format!("database {} does not have the extension", text("database")),
            remedy: "as a superuser: CREATE EXTENSION fullbore".into(),
            undo: "DROP EXTENSION fullbore".into(),
        });
        // What may be done with it is said when it is there.
        return Ok(missing);
    }
    let role = quote_identifier(text("role"))?;
    if row.get("may_use") != Some("t") {
        missing.push(Missing {
            what: format!("role {} may not use the schema fullbore", text("role")),
            remedy: format!("as a superuser: GRANT USAGE ON SCHEMA fullbore TO {role}"),
            undo: format!("REVOKE USAGE ON SCHEMA fullbore FROM {role}"),
        });
    }
    if row.get("may_call") != Some("t") {
        missing.push(Missing {
            what: format!("role {} may not call fullbore.descriptor", text("role")),
            remedy: format!(
                "as a superuser: GRANT EXECUTE ON FUNCTION fullbore.descriptor(regclass) TO {role}"
            ),
            undo: format!("REVOKE EXECUTE ON FUNCTION fullbore.descriptor(regclass) FROM {role}"),
        });
    }
    Ok(missing)
}

/// The version of the extension's library, which this loads into the session.
pub fn loaded_version(session: &mut Session) -> Result<String, ConnectionError> {
    let table = QualifiedName::new(Some("pg_catalog"), "pg_class")?;
    Ok(probe::descriptor(session, &table)?.extension)
}
