//! The service file: named sets of options, `[name]` and `key=value` lines below it.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::super::environment::Environment;
use super::super::error::ConnectionError;
use super::super::limits::CONFIGURATION_FILE_BYTES_MAX;
use super::settings::Settings;

/// The options of a service, from the user's file or else from the system's.
pub(super) fn look_up(
    name: &str,
    file: Option<PathBuf>,
    environment: &Environment,
) -> Result<Settings, ConnectionError> {
    let named = file.or_else(|| environment.filled("PGSERVICEFILE").map(Into::into));
    // A file that was named must be there; the usual places need not.
    let must_exist = named.is_some();
    let user_file = named.or_else(|| environment.at_home(".pg_service.conf"));
    if let Some(file) = user_file
        && let Some(settings) = in_file(name, &file, must_exist)?
    {
        return Ok(settings);
    }
    for directory in environment.configuration_directories() {
        if let Some(settings) = in_file(name, &directory.join("pg_service.conf"), false)? {
            return Ok(settings);
        }
    }
    Err(ConnectionError::service(format!("there is no definition of service {name}")))
}

fn in_file(name: &str, file: &Path, must_exist: bool) -> Result<Option<Settings>, ConnectionError> {
    let text = match read_small_file(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !must_exist => return Ok(None),
        Err(error) => {
            return Err(ConnectionError::service(format!(
                "could not read the service file {}: {error}",
                file.display()
            )));
        }
    };
    section(name, &text).map_err(|(line, reason)| {
        ConnectionError::service(format!("{}, line {line}: {reason}", file.display()))
    })
}

/// The first section of this name; an error comes with the number of its line. Only the lines of
/// the section itself are held against the rules: another's faults are another's.
fn section(name: &str, text: &str) -> Result<Option<Settings>, (usize, String)> {
    let mut found: Option<Settings> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            if found.is_some() {
                break;
            }
            if header.split_once(']').is_some_and(|(header, _)| header == name) {
                found = Some(Settings::default());
            }
            continue;
        }
        let Some(settings) = &mut found else {
            continue;
        };
        let fail = |reason: String| (index + 1, reason);
        if line.starts_with("ldap://") {
            return Err(fail("Fullbore does not look services up in LDAP".into()));
        }
        let (keyword, value) =
            line.split_once('=').ok_or_else(|| fail("expected key=value".into()))?;
        if keyword == "service" || keyword == "servicefile" {
            return Err(fail("a service can't refer to another".into()));
        }
        // Unlike in a connection string, the first of two equal keys wins here.
        let mut single = Settings::default();
        single.set(keyword, value.into()).map_err(|error| fail(error.to_string()))?;
        settings.fill_from(single);
    }
    Ok(found)
}

/// Reads a text file, unless it is too large to be a configuration.
pub(super) fn read_small_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = fs::File::open(path)?;
    file.take(CONFIGURATION_FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > CONFIGURATION_FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is larger than 1 MB"));
    }
    Ok(text)
}
