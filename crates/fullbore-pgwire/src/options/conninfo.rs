//! `key=value` strings: `host=db.example user='ann o''neill'` is not how libpq quotes;
//! `user='ann o\'neill'` is.

use super::super::error::ConnectionError;
use super::settings::Settings;

/// Reads a connection string. Errors quote only names of options that exist: in
/// `password=two words`, the second word is no name but half of a password.
pub(super) fn parse(text: &str) -> Result<Settings, ConnectionError> {
    let mut settings = Settings::default();
    let mut rest = text.trim_start();
    let mut password_seen = false;
    while !rest.is_empty() {
        let end = rest
            .find(|character: char| character == '=' || character.is_ascii_whitespace())
            .unwrap_or(rest.len());
        let name = &rest[..end];
        let after = rest[end..].trim_start();
        let Some(after) = after.strip_prefix('=') else {
            return Err(malformed(name, "has no = after it", password_seen));
        };
        if !Settings::is_keyword(name) {
            return Err(malformed(name, "is not a connection option", password_seen));
        }
        let (value, after) = value(after.trim_start()).ok_or_else(|| {
            ConnectionError::usage(format!(
                "the connection string ends inside the quotes of {name}"
            ))
        })?;
        settings.set(name, value)?;
        password_seen |= name.contains("password");
        rest = after.trim_start();
    }
    Ok(settings)
}

fn malformed(name: &str, what: &str, password_seen: bool) -> ConnectionError {
    let word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let known = Settings::is_keyword(name) || (word && !password_seen);
    ConnectionError::usage_with_hint(
        if known {
            format!("in the connection string, {name} {what}")
        } else {
            format!("in the connection string, a word {what}")
        },
        "values with spaces are written in single quotes, ' and \\ inside them as \\' and \\\\",
    )
}

/// The value at the start of the text, and what follows it; nothing if a quote is left open.
fn value(text: &str) -> Option<(String, &str)> {
    let (quoted, text) = match text.strip_prefix('\'') {
        Some(inside) => (true, inside),
        None => (false, text),
    };
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return Some((value, &text[index + 1..])),
            _ if !quoted && character.is_ascii_whitespace() => {
                return Some((value, &text[index..]));
            }
            _ => value.push(character),
        }
    }
    (!quoted).then_some((value, ""))
}
