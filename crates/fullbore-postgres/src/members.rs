//! Inferred members: keys that a lookup's table lacks are inserted into it while rows are loaded.
//!
//! Each statement is a transaction of its own: what was inserted stays if the load fails, and is found when it is
//! resumed. A unique constraint keeps each key from being there twice, whatever other sessions do.

use std::sync::{Arc, Mutex, PoisonError};

use fullbore_load::members;
use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{ConnectionOptions, QualifiedName, Session, quote_identifier, quote_literal};
use fullbore_read::error::{Error, Result};

use crate::catalog;
use crate::error::{failed, failed_while, refuse, refused};
use crate::{session_settings, timeouts};

#[derive(Debug)]
struct Members {
    options: ConnectionOptions,
    table: QualifiedName,
    /// Quoted, with commas between them.
    key: String,
    session: Mutex<Option<Session>>,
}

/// What inserts keys of these columns.
pub fn of(
    session: &mut Session,
    options: ConnectionOptions,
    table: QualifiedName,
    key: &[String],
) -> Result<Arc<dyn members::Members>> {
    let asked = format!(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_index i
                         WHERE i.indrelid = {}::pg_catalog.regclass AND i.indisunique AND i.indisvalid
                           AND i.indimmediate AND {}) AS is_unique",
        quote_literal(&table.to_string()).map_err(failed)?,
        catalog::index_is_over(key).map_err(failed)?
    );
    let rows = session.query(&asked).map_err(refused)?;
    if !rows.first().is_some_and(|row| row.flag("is_unique")) {
        return Err(refuse(
            format!("{table}: nothing keeps ({}) from being inserted twice", key.join(", ")),
            "add a unique constraint over the key of the lookup",
        ));
    }
    let quoted: Result<Vec<_>, _> = key.iter().map(|name| quote_identifier(name)).collect();
    let key = quoted.map_err(failed)?.join(", ");
    Ok(Arc::new(Members { options, table, key, session: Mutex::new(None) }))
}

impl members::Members for Members {
    fn insert(
        &self,
        keys: &[Vec<String>],
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let session = match &mut *session {
            Some(session) if !session.is_broken() => session,
            other => {
                let mut session = timeouts::connect(&self.options).map_err(failed)?;
                session_settings::style(&mut session, &self.options).map_err(failed)?;
                other.insert(session)
            }
        };
        let rows = keys.iter().map(|key| {
            let values: Result<Vec<_>, _> = key.iter().map(|value| quote_literal(value)).collect();
            values.map(|values| format!("({})", values.join(", "))).map_err(failed)
        });
        let rows = rows.collect::<Result<Vec<_>>>()?.join(", ");
        let Self { table, key, .. } = self;
        let what = format!("inserting keys into {table}");
        let statement = format!(
            "{OF_ROLE}INSERT INTO {table} ({key}) VALUES {rows} ON CONFLICT ({key}) DO NOTHING"
        );
        session.execute(&statement).map_err(|error| failed_while(error, &what))?;
        let mut lines = Vec::new();
        let all =
            format!("{OF_ROLE}COPY (SELECT * FROM {table} WHERE ({key}) IN ({rows})) TO STDOUT");
        let copied = session.copy_out(&all, &mut |data| {
            lines.extend_from_slice(data);
            Ok(())
        });
        copied.map_err(|error| failed_while(error, &what))?;
        if lines.is_empty() {
            Err(Error::usage(format!("{what}: none is there")))
        } else {
            take(&lines)
        }
    }
}
