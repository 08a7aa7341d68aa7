//! The scratch schema: created, refilled for each measurement, and dropped however the command ends. In it are
//! copies of a job's tables ([`copies`]), or tables like another one.
//!
//! A killed process cannot drop anything. So each schema is named after a number whose advisory lock its
//! session holds, and the next probe drops schemas whose lock is free.

pub mod copies;

use std::cell::{RefCell, RefMut};

use fullbore_load::job::{Job, LookupJob, TableJob};
use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_identifier};
use fullbore_postgres::catalog::publications_for_all_tables;
use fullbore_preflight::Error;

use crate::words::complain;

const PREFIX: &str = "fullbore_scratch_";

/// What to know of a measurement where [`Scratch::recycle_log`] could not do its work.
pub const LOG_WAS_NEW: &str = "the role can't run CHECKPOINT: the server created new WAL segments \
                               for every measurement; a long load reuses segments and can be up to \
                               twice as fast (since PostgreSQL 15: GRANT pg_checkpoint to the \
                               role)";

pub struct Scratch {
    session: RefCell<Session>,
    schema: String,
    pub notes: Vec<String>,
}

pub fn failed(error: ConnectionError) -> Error {
    Error::Server { message: error.to_string(), hint: error.hint().map(str::to_owned) }
}

impl Scratch {
    /// # Errors
    /// Where a publication covers all tables: what is measured would reach its subscribers, who have no
    /// such tables and would stop.
    pub fn make(mut session: Session) -> Result<Self, Error> {
        let published = publications_for_all_tables(&mut session).map_err(failed)?;
        if let Some(name) = published.first() {
            return Err(Error::refused(
                format!("publication {name} covers all tables, including those of a measurement"),
                "measure in another database of the server",
            ));
        }
        let notes = drop_abandoned(&mut session).map_err(failed)?;
        let mut number = [0; 8];
        getrandom::fill(&mut number).map_err(|error| Error::System {
            what: "have a random name for the scratch schema",
            source: std::io::Error::other(error),
        })?;
        let key = i64::from_be_bytes(number);
        let schema = format!("{PREFIX}{key:016x}");
        session
            .execute(&format!(
                "SET statement_timeout = 0; SET idle_session_timeout = 0; \
                 SELECT pg_catalog.pg_advisory_lock({key}); CREATE SCHEMA {schema}"
            ))
            .map_err(|error| Error::Server {
                hint: error
                    .hint()
                    .map(str::to_owned)
                    .or(Some("grant the role CREATE on the database, or omit --table".into())),
                message: format!("could not create the scratch schema: {error}"),
            })?;
        Ok(Self { session: RefCell::new(session), schema, notes })
    }

    /// The name of the n-th table in it, from 1.
    pub fn name(&self, number: usize) -> String {
        format!("{}.rows_{number}", self.schema)
    }

    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The session that holds it.
    pub fn session(&self) -> RefMut<'_, Session> {
        self.session.borrow_mut()
    }

    /// Has the server recycle the log that measurements wrote, as the checkpoints of a long load do:
    /// whether it did. To make a segment costs as much as to fill it (measured, by copy with
    /// wal_level=replica: 105 MB/s into new segments, 190 into recycled ones), and what was measured
    /// before has used up those that there were. A minute at most is waited for it.
    pub fn recycle_log(&self) -> bool {
        let mut session = self.session.borrow_mut();
        let recycled = session.execute("SET statement_timeout = '60s'; CHECKPOINT").is_ok();
        session.execute("SET statement_timeout = 0").is_ok() && recycled
    }

    /// Drops everything in it.
    pub fn clear(&self) -> Result<(), Error> {
        let Self { schema, .. } = self;
        let anew = format!("BEGIN; DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}; COMMIT");
        let mut session = self.session.borrow_mut();
        session
            .execute(&anew)
            .or_else(|error| session.execute("ROLLBACK").and(Err(error)))
            .map(drop)
            .map_err(failed)
    }

    /// A job into the copies of its tables, without what outlasts a measurement.
    pub fn job_into(&self, job: &Job) -> Job {
        let tables = job.tables.iter().enumerate().map(|(at, table)| TableJob {
            name: Some(self.name(at + 1)),
            keep_old: false,
            create: false,
            schema_file: None,
            types: Vec::new(),
            partition_by: None,
            // An experiment leaves no trace in tables of others.
            lookups: table.lookups.iter().map(LookupJob::reading_only).collect(),
            ..table.clone()
        });
        Job { tables: tables.collect(), part: None, pause_when: None, ..job.clone() }
    }

    /// So many new tables like another one, and no others.
    pub fn tables(&self, count: usize, like: &QualifiedName) -> Result<Vec<String>, Error> {
        let mut session = self.session.borrow_mut();
        let tables: Vec<String> = (1..=count).map(|number| self.name(number)).collect();
        let made: Vec<String> =
            tables.iter().map(|table| format!("CREATE TABLE {table} (LIKE {like})")).collect();
        let Self { schema, .. } = self;
        session
            .execute(&format!(
                "BEGIN; DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}; {}; COMMIT",
                made.join("; ")
            ))
            .or_else(|error| session.execute("ROLLBACK").and(Err(error)))
            .map_err(failed)?;
        Ok(tables)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut session = self.session.borrow_mut();
        if let Err(error) = session.execute(&format!("DROP SCHEMA {} CASCADE", self.schema)) {
            let hint = "run the measurement again, which drops it, or drop it manually";
            complain(&format!("schema {} could not be dropped: {error}", self.schema), Some(hint));
        }
    }
}

/// Drops schemas of probes that were killed; says which.
fn drop_abandoned(session: &mut Session) -> Result<Vec<String>, ConnectionError> {
    let found = session.query(&format!(
        "SELECT nspname FROM pg_catalog.pg_namespace
          WHERE nspname ~ '^{PREFIX}([0-9a-f]{{12}}|[0-9a-f]{{16}})$'
            AND pg_catalog.pg_has_role(nspowner, 'USAGE')"
    ))?;
    let mut notes = Vec::new();
    for name in found.iter().filter_map(|row| row.get(0)) {
        let number = name.strip_prefix(PREFIX).map(|digits| u64::from_str_radix(digits, 16));
        let Some(Ok(number)) = number else { continue };
        let key = number.cast_signed();
        let locked = session
            .query(&format!("SELECT pg_catalog.pg_try_advisory_lock({key}) AS locked"))?
            .first()
            .is_some_and(|row| row.flag("locked"));
        if locked {
            session.execute(&format!(
                "DROP SCHEMA IF EXISTS {} CASCADE; SELECT pg_catalog.pg_advisory_unlock({key})",
                quote_identifier(name)?
            ))?;
            notes.push(format!("dropped schema {name}, which a killed measurement had left"));
        }
    }
    Ok(notes)
}
