//! Refuses what the role may not do, before a row has moved.

use fullbore_pgwire::{Session, quote_literal};
use fullbore_read::error::Result;

use crate::catalog::Relation;
use crate::error::{failed, refuse, refused};
use crate::server::Server;

impl Server {
    /// Refuses tablespaces in which the role can't make tables.
    pub(super) fn check_tablespaces(&self, session: &mut Session) -> Result<()> {
        for name in &self.settings.tablespaces {
            let literal = quote_literal(name).map_err(failed)?;
            let rows = session
                .query(&format!(
                    "SELECT has_tablespace_privilege(oid, 'CREATE') AS may FROM pg_tablespace
                      WHERE spcname = {literal}"
                ))
                .map_err(refused)?;
            match rows.first().and_then(|row| row.get("may")) {
                Some("t") => {}
                Some(_) => {
                    return Err(refuse(
                        format!("the role lacks CREATE privilege on tablespace {name}"),
                        "GRANT CREATE ON TABLESPACE to it, or use others with --tablespaces",
                    ));
                }
                None => {
                    return Err(refuse(
                        format!("tablespace {name} does not exist"),
                        "name others with --tablespaces; `\\db` in psql lists them",
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Refuses where the schema that a replaced table is kept in can't be made.
pub fn may_keep(session: &mut Session, relation: &Relation) -> Result<()> {
    let rows = session
        .query(
            "SELECT has_database_privilege(current_database(), 'CREATE') AS may,
                    current_database() AS database, current_user AS role",
        )
        .map_err(refused)?;
    let text = |name: &str| rows.first().and_then(|row| row.get(name)).unwrap_or_default();
    if text("may") == "t" {
        return Ok(());
    }
    let (role, database) = (text("role"), text("database"));
    Err(refuse(
        format!(
            "{} can't be kept: role {role} lacks CREATE privilege on database {database}",
            relation.name
        ),
        format!("GRANT CREATE ON DATABASE {database} TO {role}, or omit --keep-old"),
    ))
}
