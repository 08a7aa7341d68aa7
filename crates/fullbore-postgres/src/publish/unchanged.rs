//! Whether a target is still the table that the load was planned for.
//!
//! While a load runs its target's name can pass to another table, and its columns can change: by
//! somebody's DDL, or by a `replace` of our own. Rows must not follow the name. A piece that is appended
//! to its target therefore checks twice, without a round trip of its own. As it begins, to end early. And
//! before it commits, which is the proof: its COPY has locked the table that took the rows (ROW
//! EXCLUSIVE), so from there to the commit nobody else can rename, drop or alter that table. If the
//! name stands for the planned table then, the rows are in the planned table. Unlike LOCK TABLE this
//! needs no privilege beyond that of the COPY, and holds for foreign tables too.

use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_literal};
use fullbore_read::error::{DestinationFailure, Error, Result};

use crate::catalog::{self, Relation, SIGNATURE};
use crate::error::{failed, refuse};
use crate::postgres::Postgres;

/// What the server says of a piece whose target is another one: by it we know our own check.
const CHANGED: &str = "fullbore: the target is not the table that was planned";

/// A target as it was planned.
#[derive(Debug, Clone)]
pub struct Planned(Relation);

impl Postgres {
    /// Refuses to begin where a target is no longer what it was as the load was planned.
    pub(crate) fn check_targets(&self, session: &mut Session) -> Result<()> {
        let there = self.targets().iter().enumerate().filter(|(_, target)| target.create.is_none());
        for (number, _) in there {
            self.planned(number).check_before(session)?;
        }
        Ok(())
    }

    /// A target as it was planned; of one that the run made, as it was made.
    pub(crate) fn planned(&self, table: usize) -> Planned {
        let made = self.made().get(&table).cloned();
        Planned(made.unwrap_or_else(|| self.targets()[table].relation.clone()))
    }
}

impl Planned {
    pub fn oid(&self) -> u32 {
        self.0.oid
    }

    pub fn name(&self) -> &QualifiedName {
        &self.0.name
    }

    /// The name that the table has now, which may be another one; an error where it is gone.
    pub fn name_now(&self, session: &mut Session) -> Result<QualifiedName> {
        name_of(session, self.0.oid).map_err(failed)?.ok_or_else(|| self.changed(session))
    }

    /// The condition, in SQL, that the name stands for this table, unchanged.
    pub fn condition(&self) -> Result<String> {
        let Relation { oid, name, signature, .. } = &self.0;
        let name = quote_literal(&name.to_string()).map_err(failed)?;
        let signature = quote_literal(signature).map_err(failed)?;
        Ok(format!(
            "EXISTS (SELECT FROM pg_class c WHERE c.oid = {oid} AND c.oid = to_regclass({name})
                        AND {SIGNATURE}::text = {signature})"
        ))
    }

    /// A statement that fails unless the condition holds. It needs no language that may be missing.
    pub fn assertion(&self) -> Result<String> {
        Ok(format!(
            "SELECT (CASE WHEN {} THEN '1' ELSE '{CHANGED}' END)::integer",
            self.condition()?
        ))
    }

    fn holds(&self, session: &mut Session) -> Result<bool> {
        let asked = format!("SELECT {} AS same", self.condition()?);
        let rows = session.query(&asked).map_err(failed)?;
        Ok(rows.first().is_some_and(|row| row.flag("same")))
    }

    /// Refuses to go on where the table is another one, or has changed.
    pub fn check(&self, session: &mut Session) -> Result<()> {
        if self.holds(session)? { Ok(()) } else { Err(self.changed(session)) }
    }

    /// The same of a run that has touched nothing yet.
    pub fn check_before(&self, session: &mut Session) -> Result<()> {
        if self.holds(session)? {
            return Ok(());
        }
        let (what, ..) = self.what_changed(session).map_err(failed)?;
        Err(refuse(
            format!("{} changed while the load was planned: {what}", self.0.name),
            "run the command again",
        ))
    }

    /// The error of an assertion that failed, in words; the transaction that it ended is left.
    pub fn explain(&self, session: &mut Session, error: &ConnectionError) -> Option<Error> {
        let message = error.server_message()?;
        if !message.message.contains(CHANGED) {
            return None;
        }
        // The first error is the one to tell.
        let _ = session.execute("ROLLBACK");
        Some(self.changed(session))
    }

    /// The same, or the error itself where it is another.
    pub fn told(&self, session: &mut Session, error: ConnectionError) -> Error {
        self.explain(session, &error).unwrap_or_else(|| failed(error))
    }

    fn changed(&self, session: &mut Session) -> Error {
        let (what, hint, kind) = match self.what_changed(session) {
            Ok(found) => found,
            Err(error) => return failed(error),
        };
        Error::Destination {
            message: format!(
                "{} is no longer the table that this load was planned for: {what}",
                self.0.name
            ),
            hint: Some(hint),
            kind,
        }
    }

    /// What became of the table, what to do, and what that means for the run.
    fn what_changed(
        &self,
        session: &mut Session,
    ) -> Result<(String, String, DestinationFailure), ConnectionError> {
        use DestinationFailure::{Changed, Gone};
        let now = catalog::relation(session, &self.0.name)?;
        if let Some(now) = now.as_ref().filter(|now| now.oid == self.0.oid) {
            let undo = "undo the change, then resume the run";
            return Ok((self.difference(now), undo.to_owned(), Changed));
        }
        let taken = if now.is_some() { ", and another table has its name" } else { "" };
        Ok(match name_of(session, self.0.oid)? {
            Some(name) => (
                format!("that table is {name} now{taken}"),
                format!("rename {name} back, then resume the run"),
                Changed,
            ),
            None => (
                format!("that table was dropped{taken}"),
                "close the run with `fullbore runs abort`, then load again".to_owned(),
                Gone,
            ),
        })
    }

    /// How the same table differs from what it was.
    fn difference(&self, now: &Relation) -> String {
        let (then, now_columns) = (&self.0.columns, &now.columns);
        for column in then {
            let name = &column.name;
            let Some(found) = now_columns.iter().find(|found| found.name == *name) else {
                return format!("column {name} no longer exists");
            };
            if found.type_name != column.type_name {
                let (was, is) = (&column.type_name, &found.type_name);
                return format!("column {name} was {was} and is now {is}");
            }
            if found.is_not_null != column.is_not_null {
                let is = if found.is_not_null { "NOT NULL" } else { "nullable" };
                return format!("column {name} is now {is}");
            }
        }
        if let Some(new) = now_columns.iter().find(|new| !then.iter().any(|c| c.name == new.name)) {
            return format!("it has a new column {}", new.name);
        }
        match (self.0.is_unlogged, now.is_unlogged) {
            (true, false) => "it was set LOGGED".to_owned(),
            (false, true) => "it was set UNLOGGED".to_owned(),
            _ => "its columns were changed".to_owned(),
        }
    }
}

/// The name that a table has now.
fn name_of(session: &mut Session, oid: u32) -> Result<Option<QualifiedName>, ConnectionError> {
    let rows = session.query(&format!(
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          WHERE c.oid = {oid}"
    ))?;
    let Some(row) = rows.first() else { return Ok(None) };
    QualifiedName::new(row.get("nspname"), row.get("relname").unwrap_or_default()).map(Some)
}
