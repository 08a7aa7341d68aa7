//! An open database.

use std::sync::{Mutex, MutexGuard, PoisonError};

use adbc_driver_manager::ManagedDatabase;
use fullbore_pgwire::QualifiedName;
use fullbore_read::error::{Error, Result};
use mysql::Opts;

use crate::adbc::AdbcLink;
use crate::dialect::{self, Dialect};
use crate::driver;
use crate::error::cannot;
use crate::link::Link;
use crate::mysql_link::{MySqlLink, options_of};
use crate::place::{Place, Way};
use crate::table::has_rows;

pub struct Database {
    place: Place,
    source: Source,
    /// The connection that plans, prepares and publishes.
    control: Mutex<Box<dyn Link>>,
}

/// What connections are made of.
enum Source {
    Driver(Mutex<ManagedDatabase>),
    Server(Opts),
}

impl Source {
    fn link(&self) -> Result<Box<dyn Link>> {
        Ok(match self {
            Self::Driver(database) => {
                let database = database.lock().unwrap_or_else(PoisonError::into_inner);
                Box::new(AdbcLink::open(&database)?)
            }
            Self::Server(options) => Box::new(MySqlLink::open(options)?),
        })
    }
}

impl Database {
    /// Opens the database that a destination names. `may_make`: a file that is not there is made.
    pub fn open(to: &str, may_make: bool) -> Result<Self> {
        let place = Place::of(to).ok_or_else(|| {
            Error::usage(format!("{} is no database", to.split(':').next().unwrap_or_default()))
        })??;
        if let Some(file) = place.missing_file()
            && !may_make
        {
            return Err(cannot(
                format!("there is no file {file}"),
                "check the path, or let the load make its tables with --create",
            ));
        }
        let source = match &place.way {
            Way::Driver { name, options } => {
                Source::Driver(Mutex::new(driver::open(place.kind, name, options)?))
            }
            Way::Server(url) => Source::Server(options_of(url)?),
        };
        let control = Mutex::new(connected(&place, &source)?);
        Ok(Self { place, source, control })
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The database, as people call it.
    pub fn name(&self) -> &'static str {
        self.dialect().name()
    }

    pub(crate) fn dialect(&self) -> &'static dyn Dialect {
        dialect::of(self.place.kind)
    }

    /// Whether there is a table that has rows.
    pub fn has_rows(&self, table: &QualifiedName) -> Result<bool> {
        let mut link = self.control();
        let found = self.holds(link.as_mut(), table);
        link.rollback()?;
        Ok(found? == Some(true))
    }

    /// Whether a table has rows; none where there is no such table.
    pub(crate) fn holds(&self, link: &mut dyn Link, table: &QualifiedName) -> Result<Option<bool>> {
        if !self.has(link, table)? {
            return Ok(None);
        }
        has_rows(link, &table.to_string()).map(Some)
    }

    /// Whether there is a table of a name.
    pub(crate) fn has(&self, link: &mut dyn Link, table: &QualifiedName) -> Result<bool> {
        Ok(self.dialect().columns(link, table)?.is_some())
    }

    /// Another connection.
    pub(crate) fn link(&self) -> Result<Box<dyn Link>> {
        connected(&self.place, &self.source)
    }

    pub(crate) fn control(&self) -> MutexGuard<'_, Box<dyn Link>> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something that is committed as a whole or not at all.
    pub(crate) fn transaction<T>(
        &self,
        work: impl FnOnce(&mut dyn Link) -> Result<T>,
    ) -> Result<T> {
        let mut link = self.control();
        // What it saw last may be old.
        link.rollback()?;
        let done = work(link.as_mut()).and_then(|done| link.commit().map(|()| done));
        if done.is_err() {
            // The first error is the one to tell.
            let _ = link.rollback();
        }
        done
    }
}

fn connected(place: &Place, source: &Source) -> Result<Box<dyn Link>> {
    let mut link = source.link()?;
    for sql in dialect::of(place.kind).greeting() {
        link.execute(sql)?;
        link.commit()?;
    }
    Ok(link)
}
