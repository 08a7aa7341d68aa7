//! One end of a partition's key range: a value as text, never SQL. Callers that need SQL build a new
//! literal for the column's current type.
//!
//! Records contain `MINVALUE`, `MAXVALUE` or a quoted literal. Version 0.1 appended the type to the
//! literal; the type is ignored here, and anything else is refused.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An end of a key range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum KeyEnd {
    /// Before all values.
    Min,
    /// After all values.
    Max,
    Value(String),
}

impl KeyEnd {
    /// Reads what a record or a catalog has: a literal, perhaps with a type, or a bare number.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "MINVALUE" => return Some(Self::Min),
            "MAXVALUE" => return Some(Self::Max),
            _ => {}
        }
        if is_number(text) {
            return Some(Self::Value(text.to_owned()));
        }
        let (is_escaped, quoted) = match text.strip_prefix('E') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mut characters = quoted.strip_prefix('\'')?.chars();
        let mut value = String::new();
        loop {
            match characters.next()? {
                '\'' if characters.as_str().starts_with('\'') => {
                    characters.next();
                    value.push('\'');
                }
                '\'' => break,
                '\\' if is_escaped => match characters.next()? {
                    '\\' => value.push('\\'),
                    _ => return None,
                },
                '\0' => return None,
                character => value.push(character),
            }
        }
        let rest = characters.as_str();
        (rest.is_empty() || rest.strip_prefix("::").is_some_and(is_type))
            .then_some(Self::Value(value))
    }

    /// The value, of an end that is none of the open ones.
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::Value(value) => Some(value),
            Self::Min | Self::Max => None,
        }
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match digits.split_once('.') {
        Some((whole, fraction)) => is_digits(whole) && is_digits(fraction),
        None => is_digits(digits),
    }
}

/// Whether it can be the name of a type of keys: `timestamp(3) without time zone`.
fn is_type(text: &str) -> bool {
    let is_part =
        |character: char| character.is_ascii_alphanumeric() || " _(),.".contains(character);
    !text.is_empty() && text.chars().all(is_part)
}

impl fmt::Display for KeyEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Min => formatter.write_str("MINVALUE"),
            Self::Max => formatter.write_str("MAXVALUE"),
            Self::Value(value) => {
                let quoted = value.replace('\'', "''");
                match quoted.contains('\\') {
                    true => write!(formatter, "E'{}'", quoted.replace('\\', "\\\\")),
                    false => write!(formatter, "'{quoted}'"),
                }
            }
        }
    }
}

impl From<KeyEnd> for String {
    fn from(end: KeyEnd) -> Self {
        end.to_string()
    }
}

impl TryFrom<String> for KeyEnd {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| "not the end of a key range".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_back_as_they_were_written_by_this_version_and_the_first_one() {
        let value = |text: &str| Some(KeyEnd::Value(text.to_owned()));
        for text in ["2024-01-01 00:00:00+02", "it's", "a\\b'", "", "-5", "ü"] {
            assert_eq!(KeyEnd::parse(&KeyEnd::Value(text.into()).to_string()), value(text));
        }
        assert_eq!(KeyEnd::parse("MINVALUE"), Some(KeyEnd::Min));
        assert_eq!(KeyEnd::parse("'-5'::bigint"), value("-5"));
        assert_eq!(
            KeyEnd::parse("'2024-01-01'::timestamp(3) without time zone"),
            value("2024-01-01")
        );
        assert_eq!(KeyEnd::parse("E'a\\\\b'::text"), value("a\\b"));
        assert_eq!(KeyEnd::parse("-1.50"), value("-1.50"));
    }

    #[test]
    fn what_is_sql_beyond_a_literal_is_refused() {
        for text in [
            "",
            "minvalue",
            "pwn()",
            "'1'::bigint) TO ('2'::bigint); SELECT pwn() --",
            "'1'::bigint || pwn()::text",
            "'1' || pwn()",
            "('1')",
            "'1",
            "E'\\'; pwn() --'",
            "E'a\\n'",
            "U&'a'",
            "1e5",
            "-",
            "1.",
            "'a\0'",
            "'1'::\"x\"",
            "'1'::",
        ] {
            assert_eq!(KeyEnd::parse(text), None, "{text}");
        }
    }
}
