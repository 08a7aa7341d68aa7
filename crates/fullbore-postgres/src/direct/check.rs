//! What the extension of a server is asked, and what a server lacks for direct loads.

use fullbore_pgwire::{
    ConnectionError, QualifiedName, Row, Session, quote_identifier, quote_literal,
};

use super::Descriptor;
use crate::ledger::trust;

/// Something that is missing, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Missing {
    pub what: String,
    pub remedy: String,
    /// What takes the remedy back.
    pub undo: String,
}

/// The function is found as the extension's own: in its schema there may be others of the name, and the
/// schema may belong to somebody who can put others there.
const STATE: &str = "
    SELECT {available} AS available, e.extversion AS installed,
           has_schema_privilege(n.oid, 'USAGE') AS may_use,
           has_function_privilege(p.oid, 'EXECUTE') AS may_call,
           quote_ident(n.nspname) AS schema, quote_ident(p.proname) AS function,
           CASE WHEN n.nspowner NOT IN ({trusted}) THEN quote_ident(pg_get_userbyid(n.nspowner)) END AS owner,
           current_user AS role, current_database() AS database
      FROM (SELECT) AS one
      LEFT JOIN pg_extension e ON e.extname = 'fullbore'
      LEFT JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
            AND d.deptype = 'e' AND d.classid = 'pg_proc'::regclass
            AND d.objid IN (SELECT oid FROM pg_proc WHERE proname = '{function}')
      LEFT JOIN pg_proc p ON p.oid = d.objid
      LEFT JOIN pg_namespace n ON n.oid = p.pronamespace";

/// The server reads a folder for it: not to be asked of every piece.
const AVAILABLE: &str =
    "(SELECT default_version FROM pg_available_extensions WHERE name = 'fullbore')";

fn state(available: &str, function: &str) -> String {
    let filled = STATE.replace("{available}", available).replace("{function}", function);
    filled.replace("{trusted}", trust::TRUSTED)
}

/// The extension's function that describes tables.
pub const DESCRIPTOR: &str = "descriptor";

/// The extension's function that copies rows of one table into another, new one.
pub const ADOPT: &str = "adopt";

/// The extension's function that says why an index can't be filled while rows are loaded.
pub const FILLS: &str = "fills";

/// The extension's function that builds the indexes of a table whose rows are loaded.
pub const FINISH: &str = "finish";

/// The extension's function that tells which rows share a key.
pub const SHARED: &str = "shared";

/// The extension's function that validates foreign keys of a table in one pass over it.
pub const VALIDATE: &str = "validate";

/// The extension's function that gives the rows of a query, many to a message.
pub const ROWS_OF: &str = "rows_of";

/// A function of the extension's, quoted; `None` where it is not there.
pub fn function(session: &mut Session, name: &str) -> Result<Option<String>, ConnectionError> {
    found(session, name, |_| true)
}

/// A function of the extension's, quoted; `None` where it is not there, or the role may not call it.
pub fn callable(session: &mut Session, name: &str) -> Result<Option<String>, ConnectionError> {
    found(session, name, |row| row.flag("may_use") && row.flag("may_call"))
}

fn found(
    session: &mut Session,
    name: &str,
    is_fit: impl Fn(&Row) -> bool,
) -> Result<Option<String>, ConnectionError> {
    let rows = session.query(&state("NULL", name))?;
    let row = rows.first().filter(|row| row.get("owner").is_none() && is_fit(row));
    Ok(row.and_then(|row| Some(format!("{}.{}", row.get("schema")?, row.get("function")?))))
}

fn descriptor_function(session: &mut Session) -> Result<String, ConnectionError> {
    function(session, DESCRIPTOR)?.ok_or_else(|| {
        ConnectionError::usage("the extension's function descriptor(regclass) does not exist")
    })
}

/// The hashes of several tables' layouts, named by literals; tables that are gone have none.
pub fn hashes(session: &mut Session, names: &[String]) -> Result<Vec<String>, ConnectionError> {
    let function = descriptor_function(session)?;
    let rows = session.query(&format!(
        "SELECT {function}(pg_catalog.to_regclass(name))::json OPERATOR(pg_catalog.->>) 'hash' AS hash
           FROM pg_catalog.unnest(ARRAY[{}]::text[]) AS name",
        names.join(", ")
    ))?;
    Ok(rows.iter().filter_map(|row| row.get("hash").map(str::to_owned)).collect())
}

/// What the extension says of a table. Asking loads the extension into the session.
pub fn described(
    session: &mut Session,
    table: &QualifiedName,
) -> Result<Descriptor, ConnectionError> {
    let function = descriptor_function(session)?;
    let rows = session.query(&format!(
        "SELECT {function}({}::pg_catalog.regclass) AS descriptor",
        quote_literal(&table.to_string())?
    ))?;
    let text = rows.first().and_then(|row| row.get("descriptor")).unwrap_or_default();
    read_descriptor(text).map_err(|error| unreadable(&table.to_string(), &error))
}

/// A partition that has bounds.
pub struct Leaf {
    pub oid: u32,
    /// Without its schema.
    pub name: String,
    pub has_indexes: bool,
    pub descriptor: Descriptor,
}

/// What the extension says of the partitions of a table, but for default ones.
pub fn described_leaves(session: &mut Session, parent: u32) -> Result<Vec<Leaf>, ConnectionError> {
    let function = descriptor_function(session)?;
    let rows = session.query(&format!(
        "SELECT c.oid, c.relname, c.relhasindex, {function}(c.oid::pg_catalog.regclass) AS descriptor
           FROM pg_catalog.pg_partition_tree({parent}) AS t
           JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) t.relid
          WHERE t.isleaf AND pg_catalog.pg_get_expr(c.relpartbound, c.oid) OPERATOR(pg_catalog.<>) 'DEFAULT'
          ORDER BY c.oid"
    ))?;
    let leaf = |row: &fullbore_pgwire::Row| {
        let described = read_descriptor(row.get("descriptor").unwrap_or_default());
        Ok(Leaf {
            oid: row.number("oid").unwrap_or_default(),
            name: row.text("relname"),
            has_indexes: row.flag("relhasindex"),
            descriptor: described.map_err(|error| unreadable("a partition", &error))?,
        })
    };
    rows.iter().map(leaf).collect()
}

fn read_descriptor(text: &str) -> serde_json::Result<Descriptor> {
    serde_json::from_str(text)
}

fn unreadable(table: &str, error: &serde_json::Error) -> ConnectionError {
    ConnectionError::protocol(format!("its descriptor of {table} can't be read: {error}"))
}

/// What this database lacks before this role can load directly, in the order of repair.
pub fn missing(session: &mut Session) -> Result<Vec<Missing>, ConnectionError> {
    let rows = session.query(&state(AVAILABLE, DESCRIPTOR))?;
    let Some(row) = rows.first() else { return Ok(Vec::new()) };
    let text = |name: &str| row.get(name).unwrap_or_default();
    let mut missing = Vec::new();
    if row.get("available").is_none() && row.get("installed").is_none() {
        missing.push(Missing {
            what: "the extension is not installed on the server's machine".into(),
            remedy: "run there, as a user who can write to PostgreSQL's directories: fullbore \
                     extension install --pg-config PATH"
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
    if let Some(owner) = row.get("owner") {
        let schema = text("schema");
        missing.push(Missing {
            what: format!(
                "schema {schema} of the extension is owned by role {owner}, which could add its \
                 own functions"
            ),
            remedy: format!("as a superuser: ALTER SCHEMA {schema} OWNER TO CURRENT_USER"),
            undo: format!("ALTER SCHEMA {schema} OWNER TO {owner}"),
        });
    }
    if row.get("schema").is_none() {
        missing.push(Missing {
            what: "the extension lacks its function descriptor(regclass)".into(),
            remedy: "as a superuser: DROP EXTENSION fullbore; CREATE EXTENSION fullbore".into(),
            undo: "DROP EXTENSION fullbore".into(),
        });
        return Ok(missing);
    }
    if !row.flag("may_use") {
        missing.push(Missing {
            what: format!("role {} lacks USAGE privilege on schema fullbore", text("role")),
            remedy: format!("as a superuser: GRANT USAGE ON SCHEMA fullbore TO {role}"),
            undo: format!("REVOKE USAGE ON SCHEMA fullbore FROM {role}"),
        });
    }
    if !row.flag("may_call") {
        missing.push(Missing {
            what: format!(
                "role {} lacks EXECUTE privilege on function fullbore.descriptor",
                text("role")
            ),
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
    Ok(described(session, &table)?.extension)
}
