//! Inferred members: keys that a lookup's table lacks are inserted into it while rows are loaded.
//!
//! Each statement is a transaction of its own: what was inserted stays if the load fails, and is found when it is
//! resumed. A unique constraint keeps each key from being there twice, whatever other sessions do.

use std::sync::{Arc, Mutex, PoisonError};

use fullbore_load::members;
use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{ConnectionOptions, QualifiedName, Session, quote_identifier, quote_literal};
use fullbore_read::error::{Error, Result};

use crate::error::{failed, failed_while, refuse};
use crate::publish::upsert::key::unique_indexes;
use crate::{session_settings, timeouts};

#[derive(Debug)]
struct Members {
    options: ConnectionOptions,
    table: QualifiedName,
    /// Quoted.
    key: Vec<String>,
    /// What finds each of them equal, with its schema: no other one may stand in for it.
    equals: Vec<String>,
    session: Mutex<Option<Session>>,
}

/// What inserts keys of these columns.
pub fn of(
    session: &mut Session,
    options: ConnectionOptions,
    table: QualifiedName,
    key: &[String],
) -> Result<Arc<dyn members::Members>> {
    let oid =
        format!("{}::pg_catalog.regclass", quote_literal(&table.to_string()).map_err(failed)?);
    let indexes = unique_indexes(session, &oid)?;
    let Some(equals) = indexes.iter().find_map(|index| index.equals(key)) else {
        return Err(refuse(
            format!("{table}: nothing keeps ({}) from being inserted twice", key.join(", ")),
            "add a unique constraint over the key of the lookup",
        ));
    };
    let quoted: Result<Vec<_>, _> = key.iter().map(|name| quote_identifier(name)).collect();
    let key = quoted.map_err(failed)?;
    let equals = equals.into_iter().map(str::to_owned).collect();
    Ok(Arc::new(Members { options, table, key, equals, session: Mutex::new(None) }))
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
        let literals = |key: &Vec<String>| -> Result<Vec<String>> {
            key.iter().map(|value| quote_literal(value).map_err(failed)).collect()
        };
        let values = keys.iter().map(literals).collect::<Result<Vec<_>>>()?;
        let rows: Vec<String> =
            values.iter().map(|values| format!("({})", values.join(", "))).collect();
        let Self { table, key, .. } = self;
        let what = format!("inserting keys into {table}");
        let columns = key.join(", ");
        let statement = format!(
            "{OF_ROLE}INSERT INTO {table} ({columns}) VALUES {} ON CONFLICT ({columns}) DO NOTHING",
            rows.join(", ")
        );
        session.execute(&statement).map_err(|error| failed_while(error, &what))?;
        let mut lines = Vec::new();
        let is_it = |values: &Vec<String>| {
            let each = key.iter().zip(&self.equals).zip(values);
            let each = each.map(|((column, equals), value)| format!("{column} {equals} {value}"));
            format!("({})", each.collect::<Vec<_>>().join(" AND "))
        };
        let those = values.iter().map(is_it).collect::<Vec<_>>().join(" OR ");
        let all = format!("{OF_ROLE}COPY (SELECT * FROM {table} WHERE {those}) TO STDOUT");
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
