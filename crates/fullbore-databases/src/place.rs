//! Where a database is, as `--to` names it: `duckdb:FILE`, `sqlite:FILE`, `adbc:DRIVER?option=value`.

use std::path::Path;

use fullbore_read::error::{Error, Result};
use fullbore_read::percent::decoded;

/// Which database is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    DuckDb,
    Sqlite,
    /// One that only its driver knows.
    Other,
}

/// A database and the driver that reaches it.
#[derive(Clone)]
pub struct Place {
    pub kind: Kind,
    /// The driver's name, or the path of its library.
    pub driver: String,
    /// What the driver is told: options of ADBC by name.
    pub options: Vec<(String, String)>,
    /// The file that holds it, where it is one.
    pub file: Option<String>,
}

impl Place {
    /// Reads a destination; none where it is no such database.
    pub fn of(to: &str) -> Option<Result<Self>> {
        let (scheme, rest) = to.split_once(':')?;
        Some(match scheme {
            "duckdb" => in_file(Kind::DuckDb, "duckdb", "path", rest),
            "sqlite" => in_file(Kind::Sqlite, "sqlite", "uri", rest),
            "adbc" => by_driver(rest),
            _ => return None,
        })
    }

    /// Whether a destination is such a database.
    pub fn is(to: &str) -> bool {
        Self::of(to).is_some()
    }

    /// As it can be shown and kept: options of a driver may hold a password.
    pub fn told(&self) -> String {
        match (self.kind, &self.file) {
            (Kind::DuckDb, Some(file)) => format!("duckdb:{file}"),
            (Kind::Sqlite, Some(file)) => format!("sqlite:{file}"),
            _ => format!("adbc:{}", self.driver),
        }
    }

    /// Names of the options that are not told.
    pub fn left_out(&self) -> Vec<String> {
        match self.file {
            Some(_) => Vec::new(),
            None => self.options.iter().map(|(name, _)| name.clone()).collect(),
        }
    }
}

fn in_file(kind: Kind, driver: &str, option: &str, file: &str) -> Result<Place> {
    if file.is_empty() || file == ":memory:" {
        return Err(Error::usage_with_hint(
            format!("{driver}: names no file: what is in memory ends with the load"),
            format!("write {driver}:FILE"),
        ));
    }
    // A resume may be asked for in another folder.
    let path = std::path::absolute(Path::new(file))
        .map_err(|source| Error::Read { path: file.into(), source })?;
    let file = path.to_str().map(str::to_owned).ok_or_else(|| {
        Error::usage_with_hint(
            format!("the file name {} is not valid UTF-8", path.display()),
            "name the database otherwise",
        )
    })?;
    Ok(Place {
        kind,
        driver: driver.to_owned(),
        options: vec![(option.to_owned(), file.clone())],
        file: Some(file),
    })
}

fn by_driver(rest: &str) -> Result<Place> {
    let (driver, query) = rest.split_once('?').unwrap_or((rest, ""));
    let wrong = |what: &str| {
        Error::usage_with_hint(
            format!("--to adbc: {what}"),
            "write adbc:DRIVER?option=value&option=value, each value percent-encoded",
        )
    };
    if driver.is_empty() {
        return Err(wrong("no driver is named"));
    }
    let options = query.split('&').filter(|option| !option.is_empty()).map(|option| {
        let (name, value) =
            option.split_once('=').ok_or_else(|| wrong("an option has no value"))?;
        Ok((decoded(name), decoded(value)))
    });
    Ok(Place {
        kind: Kind::Other,
        driver: decoded(driver),
        options: options.collect::<Result<_>>()?,
        file: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(to: &str) -> Place {
        Place::of(to).expect("a database").expect("well written")
    }

    #[test]
    fn a_file_is_known_from_every_folder() {
        let here = std::env::current_dir().expect("a folder");
        let duck = place("duckdb:a.db");
        assert_eq!(duck.told(), format!("duckdb:{}", here.join("a.db").display()));
        assert_eq!(duck.options[0].0, "path");
        assert_eq!(place("sqlite:/x/y.db").told(), "sqlite:/x/y.db");
    }

    #[test]
    fn options_of_a_driver_are_decoded_and_not_told() {
        let other = place("adbc:postgresql?uri=postgresql%3A%2F%2Fu%3Ap%40h%2Fd&x=1");
        let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(other.options, [option("uri", "postgresql://u:p@h/d"), option("x", "1")]);
        assert_eq!(other.told(), "adbc:postgresql");
        assert_eq!(other.left_out(), ["uri", "x"]);
    }

    #[test]
    fn what_names_no_database_is_refused_or_somebody_elses() {
        for wrong in ["duckdb:", "sqlite::memory:", "adbc:", "adbc:x?y"] {
            assert!(Place::of(wrong).expect("its scheme").is_err(), "{wrong}");
        }
        for other in ["null:", "parquet:x", "postgresql://h/d", "host=h"] {
            assert!(!Place::is(other), "{other}");
        }
    }
}
