//! Connection URLs: `postgresql://user:password@host:port,host2/database?option=value`.
//!
//! Read as libpq reads them, but for one thing: an `@` after the host must be written `%40`.
//! In most cases it belongs to a password with an unescaped `/`, and an error would then print half of the
//! password as a database name.

use super::super::error::ConnectionError;
use super::settings::Settings;

const SCHEMES: [&str; 2] = ["postgresql://", "postgres://"];
const HINT: &str =
    "inside user and password, write @ as %40, : as %3A, / as %2F, ? as %3F and % as %25";

/// Whether the text is a URL of ours.
pub(super) fn is_url(text: &str) -> bool {
    SCHEMES.iter().any(|scheme| text.starts_with(scheme))
}

/// Reads a URL. Errors never quote what may be part of a password.
pub(super) fn parse(text: &str) -> Result<Settings, ConnectionError> {
    let rest = SCHEMES
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme))
        .ok_or_else(|| malformed("does not start with postgresql://"))?;
    let mut settings = Settings::default();

    let rest = match rest.find(['@', '/']) {
        Some(at) if rest[at..].starts_with('@') => {
            let (user, password) = match rest[..at].split_once(':') {
                Some((user, password)) => (user, Some(password)),
                None => (&rest[..at], None),
            };
            set_filled(&mut settings, "user", user)?;
            set_filled(&mut settings, "password", password.unwrap_or_default())?;
            &rest[at + 1..]
        }
        _ => rest,
    };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
    if rest.contains('@') {
        return Err(malformed("has an @ after its host"));
    }
    parse_hosts(&mut settings, hosts)?;
    set_filled(&mut settings, "dbname", database)?;
    for parameter in query.into_iter().flat_map(|query| query.split('&')) {
        if !parameter.is_empty() {
            parse_parameter(&mut settings, parameter)?;
        }
    }
    Ok(settings)
}

fn parse_hosts(settings: &mut Settings, hosts: &str) -> Result<(), ConnectionError> {
    let mut names = Vec::new();
    let mut ports = Vec::new();
    for host in hosts.split(',') {
        let (name, port) = if let Some(inside) = host.strip_prefix('[') {
            let (address, after) =
                inside.split_once(']').ok_or_else(|| malformed("has a [ without its ]"))?;
            if address.is_empty() {
                return Err(malformed("has an empty address in [ ]"));
            }
            let port = after.strip_prefix(':').or(after.is_empty().then_some(""));
            (address, port.ok_or_else(|| malformed("continues after a ]"))?)
        } else {
            host.split_once(':').unwrap_or((host, ""))
        };
        let name = decode(name)?;
        if name.contains(',') {
            return Err(malformed("has a comma inside a host"));
        }
        let port = decode(port)?;
        if !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(malformed("has a port that is not a number"));
        }
        names.push(name);
        ports.push(port);
    }
    // With one host, an empty name leaves the choice to a weaker source; among several it
    // stands for the default.
    if names.len() > 1 || !names[0].is_empty() {
        settings.set("host", names.join(","))?;
    }
    if ports.iter().any(|port| !port.is_empty()) {
        settings.set("port", ports.join(","))?;
    }
    Ok(())
}

fn parse_parameter(settings: &mut Settings, parameter: &str) -> Result<(), ConnectionError> {
    let (name, value) =
        parameter.split_once('=').ok_or_else(|| malformed("has a parameter without ="))?;
    let (name, value) = (decode(name)?, decode(value)?);
    // JDBC's way to say it; libpq takes it too.
    if (name.as_str(), value.as_str()) == ("ssl", "true") {
        return settings.set("sslmode", "require".into());
    }
    if !Settings::is_keyword(&name) && parameter.contains('@') {
        return Err(malformed("has an @ after its host"));
    }
    settings.set(&name, value)
}

fn set_filled(settings: &mut Settings, name: &str, value: &str) -> Result<(), ConnectionError> {
    if !value.is_empty() {
        settings.set(name, decode(value)?)?;
    }
    Ok(())
}

fn malformed(what: &str) -> ConnectionError {
    ConnectionError::usage_with_hint(format!("the connection URL {what}"), HINT)
}

/// Resolves `%41`.
fn decode(text: &str) -> Result<String, ConnectionError> {
    let wrong = || malformed("has a % that is not followed by two hexadecimal digits");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let digits = after.get(..2).ok_or_else(wrong)?;
        let digit = |index: usize| char::from(digits[index]).to_digit(16);
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err(wrong());
        };
        let value = u8::try_from(high * 16 + low).map_err(|_| wrong())?;
        if value == 0 {
            return Err(malformed("holds a NUL character (%00)"));
        }
        bytes.push(value);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| malformed("is not UTF-8 after its %.. are decoded"))
}

/// Writes what has a meaning in a URL as `%..`.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~*".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
