//! The password file: `host:port:database:user:password` lines, `*` for any, the first match wins.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::super::secret::Secret;
use super::service::read_small_file;

/// The file's lines, or why they are not to be used.
pub(super) fn read(path: &Path) -> Result<Option<String>, String> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(format!("could not look at the password file {}: {error}", path.display()));
        }
    };
    if !metadata.is_file() {
        return Err(format!(
            "the password file {} is not used: it is not a plain file",
            path.display()
        ));
    }
    // As libpq: a password that others may have read is no longer one.
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(format!(
            "the password file {0} is not used: others can read it; run chmod 600 {0}",
            path.display()
        ));
    }
    match read_small_file(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) => Err(format!("could not read the password file {}: {error}", path.display())),
    }
}

/// The password of the first line that fits.
pub(super) fn look_up(
    text: &str,
    host: &str,
    port: u16,
    database: &str,
    user: &str,
) -> Option<Secret> {
    let port = port.to_string();
    let wanted = [host, port.as_str(), database, user];
    text.lines().find_map(|line| {
        if line.starts_with('#') {
            return None;
        }
        let mut rest = line;
        for wanted in wanted {
            let (field, after) = field(rest)?;
            if rest.split(':').next() != Some("*") && field != wanted {
                return None;
            }
            rest = after;
        }
        // Up to a further colon, if any: what follows is reserved.
        let password = field(rest).map_or_else(|| unescape(rest), |(password, _)| password);
        (!password.is_empty()).then(|| Secret::new(password))
    })
}

/// The field up to the next colon that is not escaped, and what follows it.
fn field(text: &str) -> Option<(String, &str)> {
    let mut escaped = false;
    for (index, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ':' => return Some((unescape(&text[..index]), &text[index + 1..])),
            _ => {}
        }
    }
    None
}

fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => plain.extend(characters.next()),
            _ => plain.push(character),
        }
    }
    plain
}
