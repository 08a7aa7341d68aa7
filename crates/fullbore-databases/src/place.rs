//! Where a database is, as `--to` names it: `mysql://HOST/DATABASE`, `duckdb:FILE`, `sqlite:FILE`,
//! `adbc:DRIVER?option=value`.

use std::path::Path;

use fullbore_read::error::{Error, Result};
use fullbore_read::percent::decoded;
use url::Url;

/// Which database is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    DuckDb,
    Sqlite,
    /// MariaDB or MySQL.
    MySql,
    /// One that only its driver knows.
    Other,
}

/// A database and the way to it.
#[derive(Clone)]
pub struct Place {
    pub kind: Kind,
    pub way: Way,
    /// As it can be shown and kept: without what may be a password.
    told: String,
    /// What is not told, by name.
    left_out: Vec<String>,
    /// The file that holds it, where it is one.
    pub file: Option<String>,
}

/// How a database is reached.
#[derive(Clone)]
pub enum Way {
    Driver {
        /// Its name, or the path of its library.
        name: String,
        /// Options of ADBC by name.
        options: Vec<(String, String)>,
    },
    Server(Url),
}

impl Place {
    /// Reads a destination; none where it is no such database.
    pub fn of(to: &str) -> Option<Result<Self>> {
        let (scheme, rest) = to.split_once(':')?;
        Some(match scheme {
            "duckdb" => in_file(Kind::DuckDb, "duckdb", "path", rest),
            "sqlite" => in_file(Kind::Sqlite, "sqlite", "uri", rest),
            "adbc" => by_driver(rest),
            "mysql" | "mariadb" if rest.starts_with("//") => at_server(rest),
            _ => return None,
        })
    }

    /// Whether a destination is such a database.
    pub fn is(to: &str) -> bool {
        Self::of(to).is_some()
    }

    pub fn told(&self) -> String {
        self.told.clone()
    }

    /// The file that holds it, where there is none of its name.
    pub fn missing_file(&self) -> Option<&str> {
        self.file.as_deref().filter(|file| !Path::new(file).exists())
    }

    pub fn left_out(&self) -> Vec<String> {
        self.left_out.clone()
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
        way: Way::Driver {
            name: driver.to_owned(),
            options: vec![(option.to_owned(), file.clone())],
        },
        told: format!("{driver}:{file}"),
        left_out: Vec::new(),
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
    let (name, options) = (decoded(driver), options.collect::<Result<Vec<_>>>()?);
    Ok(Place {
        kind: Kind::Other,
        told: format!("adbc:{name}"),
        left_out: options.iter().map(|(name, _)| name.clone()).collect(),
        way: Way::Driver { name, options },
        file: None,
    })
}

fn at_server(rest: &str) -> Result<Place> {
    // What is wrong with it is not repeated: it may hold a password.
    let wrong = |what: &str| {
        Error::usage_with_hint(
            format!("--to mysql://: {what}"),
            "write mysql://USER@HOST:PORT/DATABASE; MYSQL_PWD can hold the password",
        )
    };
    let mut url = Url::parse(&format!("mysql:{rest}")).map_err(|_| wrong("this is no URL"))?;
    if url.path().trim_matches('/').is_empty() {
        return Err(wrong("no database is named"));
    }
    let mut bare = url.clone();
    let _ = bare.set_password(None);
    let left_out = match url.password() {
        Some(_) => vec!["password".to_owned()],
        None => Vec::new(),
    };
    if let (None, Ok(password)) = (url.password(), std::env::var("MYSQL_PWD")) {
        let _ = url.set_password(Some(&password));
    }
    Ok(Place {
        kind: Kind::MySql,
        way: Way::Server(url),
        told: bare.to_string(),
        left_out,
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
        assert!(matches!(duck.way, Way::Driver { options, .. } if options[0].0 == "path"));
        assert_eq!(place("sqlite:/x/y.db").told(), "sqlite:/x/y.db");
    }

    #[test]
    fn options_of_a_driver_are_decoded_and_not_told() {
        let other = place("adbc:postgresql?uri=postgresql%3A%2F%2Fu%3Ap%40h%2Fd&x=1");
        let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [option("uri", "postgresql://u:p@h/d"), option("x", "1")];
        assert!(matches!(&other.way, Way::Driver { options, .. } if *options == expected));
        assert_eq!(other.told(), "adbc:postgresql");
        assert_eq!(other.left_out(), ["uri", "x"]);
    }

    #[test]
    fn a_password_of_a_url_is_not_told() {
        let server = place("mariadb://u:p%40ss@h:3307/d?x=1");
        assert_eq!(server.told(), "mysql://u@h:3307/d?x=1");
        assert_eq!(server.left_out(), ["password"]);
    }

    #[test]
    fn what_names_no_database_is_refused_or_somebody_elses() {
        for wrong in ["duckdb:", "sqlite::memory:", "adbc:", "adbc:x?y", "mysql://h", "mysql://"] {
            assert!(Place::of(wrong).expect("its scheme").is_err(), "{wrong}");
        }
        for other in ["null:", "parquet:x", "postgresql://h/d", "host=h"] {
            assert!(!Place::is(other), "{other}");
        }
    }
}
