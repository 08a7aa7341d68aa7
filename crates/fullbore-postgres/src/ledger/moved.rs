//! The ledger of versions 0.1 and 0.2 is in the schema of the server's extension. It is moved out of it, to
//! where it is kept by now, by the first load that may: all of it in one transaction, grants included. Until
//! then it is used where it is; one that can't be trusted is left alone.

use fullbore_pgwire::{ConnectionError, Session, quote_literal};
use fullbore_read::error::Result;

use super::read::rows;
use super::{SCHEMA_DEFAULT, SCHEMA_OLD, locks, schema, trust};
use crate::error::failed;
use crate::server::Server;

/// How long those who read or write the old ledger are waited for.
const WAIT_MS: u32 = 3000;

/// Where the ledger is that nobody has named a schema for.
fn locate(session: &mut Session) -> Result<&'static str, ConnectionError> {
    let is_old = !schema::is_ledger(session, SCHEMA_DEFAULT)?
        && schema::is_ledger(session, SCHEMA_OLD)?
        && trust::obstacle(session, SCHEMA_OLD)?.is_none();
    Ok(if is_old { SCHEMA_OLD } else { SCHEMA_DEFAULT })
}

/// Whether the role may move the tables; and the names of all that there are.
const MAY_MOVE: &str = "
    SELECT bool_and(pg_has_role(c.relowner, 'USAGE'))
           AND CASE WHEN to_regnamespace({new}) IS NULL
                    THEN has_database_privilege(current_database(), 'CREATE')
                    ELSE has_schema_privilege({new}, 'CREATE, USAGE') END AS may,
           to_regnamespace({new}) IS NULL AS is_new,
           bool_or(c.relname = 'parts') AS has_parts, bool_or(c.relname = 'checksums') AS has_checksums
      FROM pg_class c
     WHERE c.relnamespace = to_regnamespace({old})
       AND c.relname IN ('runs', 'pieces', 'pieces_unlogged', 'parts', 'checksums')";

/// Gives whoever may use the old schema the same right to the new one.
const GRANTS: &str = "
    DO $$ DECLARE granted record; BEGIN
        FOR granted IN
            SELECT DISTINCT a.privilege_type AS what, a.grantee AS role
              FROM pg_namespace n, aclexplode(n.nspacl) a
             WHERE n.nspname = {old} AND a.grantee <> n.nspowner
        LOOP
            EXECUTE format('GRANT %s ON SCHEMA %I TO %s', granted.what, {new},
                           CASE granted.role WHEN 0 THEN 'PUBLIC'
                                ELSE quote_ident(pg_get_userbyid(granted.role)) END);
        END LOOP;
    END $$";

impl Server {
    /// The bare name of the ledger's schema; `named` is the one that the job names.
    pub fn ledger_schema(&self, named: Option<&str>) -> Result<String> {
        match named {
            Some(named) => Ok(named.to_owned()),
            None => locate(&mut self.control()).map(str::to_owned).map_err(failed),
        }
    }

    /// Moves a ledger out of the extension's schema, where it is there and may be moved; what is to be said
    /// of it.
    pub fn move_old_ledger(&self) -> Result<Option<String>> {
        let mut session = self.control();
        if self.is_pooled || locate(&mut session).map_err(failed)? != SCHEMA_OLD {
            return Ok(None);
        }
        let sql = filled(MAY_MOVE).map_err(failed)?;
        let found = rows(&mut session, &sql).map_err(failed)?;
        let is = |name: &str| found.first().is_some_and(|row| row.flag(name));
        if !is("may") {
            return Ok(None);
        }
        // What stands in it is no reason to fail.
        let why = match being_loaded(&mut session) {
            Ok(None) => None,
            Ok(Some(run)) => Some(format!("run {run} is under way there")),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = why {
            return Ok(Some(format!("the ledger stays in schema {SCHEMA_OLD} for now: {why}")));
        }
        let mut moved = format!("BEGIN; SET LOCAL lock_timeout = {WAIT_MS}");
        if is("is_new") {
            moved.push_str(&format!("; CREATE SCHEMA {SCHEMA_DEFAULT}"));
        }
        let tables = [("runs", true), ("pieces", true), ("pieces_unlogged", true)];
        let later = [("parts", is("has_parts")), ("checksums", is("has_checksums"))];
        for (table, _) in tables.iter().chain(&later).filter(|(_, is_there)| *is_there) {
            moved.push_str(&format!(
                "; ALTER TABLE {SCHEMA_OLD}.{table} SET SCHEMA {SCHEMA_DEFAULT}"
            ));
        }
        moved.push_str(&format!("; {}", filled(GRANTS).map_err(failed)?));
        let done = session
            .execute(&moved)
            .map_err(failed)
            .and_then(|_| trust::check(&mut session, SCHEMA_DEFAULT))
            .and_then(|()| session.execute("COMMIT").map_err(failed));
        Ok(Some(match done {
            Ok(_) => format!("the ledger was moved from schema {SCHEMA_OLD} to {SCHEMA_DEFAULT}"),
            Err(error) => {
                let _ = session.execute("ROLLBACK");
                format!("the ledger stays in schema {SCHEMA_OLD}: {error}")
            }
        }))
    }
}

fn filled(sql: &str) -> Result<String, ConnectionError> {
    let (old, new) = (quote_literal(SCHEMA_OLD)?, quote_literal(SCHEMA_DEFAULT)?);
    Ok(sql.replace("{old}", &old).replace("{new}", &new))
}

/// A run that another process loads, which knows the ledger where it is.
fn being_loaded(session: &mut Session) -> Result<Option<String>> {
    let unfinished =
        format!("SELECT run, job FROM {SCHEMA_OLD}.runs WHERE state NOT IN ('finished', 'undone')");
    for row in rows(session, &unfinished).map_err(failed)? {
        if locks::is_locked(session, &row.hash("job")?).map_err(failed)? {
            return Ok(Some(row.run_id("run")?.to_string()));
        }
    }
    Ok(None)
}
