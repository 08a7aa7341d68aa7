//! Names and values inside SQL text.

use std::fmt;

use super::error::ConnectionError;

/// Quotes a name so that the server takes it as it stands.
///
/// ```
/// # use fullbore_pgwire::quote_identifier;
/// assert_eq!(quote_identifier("odd \"name\"").unwrap(), "\"odd \"\"name\"\"\"");
/// assert!(quote_identifier("").is_err());
/// ```
pub fn quote_identifier(name: &str) -> Result<String, ConnectionError> {
    if name.is_empty() {
        return Err(ConnectionError::usage("a name in SQL can't be empty"));
    }
    refuse_nul(name, "a name")?;
    Ok(format!("\"{}\"", name.replace('"', "\"\"")))
}

/// Quotes a value as a string constant, right under either setting of
/// `standard_conforming_strings`.
///
/// ```
/// # use fullbore_pgwire::quote_literal;
/// assert_eq!(quote_literal("it's").unwrap(), "'it''s'");
/// assert_eq!(quote_literal("a\\b").unwrap(), "E'a\\\\b'");
/// ```
pub fn quote_literal(value: &str) -> Result<String, ConnectionError> {
    refuse_nul(value, "a value")?;
    let quoted = value.replace('\'', "''");
    Ok(if quoted.contains('\\') {
        format!("E'{}'", quoted.replace('\\', "\\\\"))
    } else {
        format!("'{quoted}'")
    })
}

fn refuse_nul(text: &str, what: &str) -> Result<(), ConnectionError> {
    if text.contains('\0') {
        return Err(ConnectionError::usage(format!("{what} in SQL can't hold a NUL character")));
    }
    Ok(())
}

/// A name, perhaps inside a schema. Prints quoted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QualifiedName {
    schema: Option<String>,
    name: String,
}

impl QualifiedName {
    /// Refuses empty parts and NUL, so that printing can't fail.
    pub fn new(schema: Option<&str>, name: &str) -> Result<Self, ConnectionError> {
        for part in schema.into_iter().chain([name]) {
            quote_identifier(part)?;
        }
        Ok(Self { schema: schema.map(Into::into), name: name.into() })
    }

    /// Reads what a person wrote: `orders`, `sales.orders`, `"Odd.Schema"."Table"`. As in SQL,
    /// unquoted parts are folded to lower case.
    pub fn parse(text: &str) -> Result<Self, ConnectionError> {
        let mut parts = Vec::new();
        let mut rest = text.trim();
        loop {
            let (part, after) = next_part(rest)
                .ok_or_else(|| ConnectionError::usage(format!("{text} is not a table name")))?;
            parts.push(part);
            match after.strip_prefix('.') {
                Some(more) => rest = more,
                None if after.is_empty() => break,
                None => {
                    return Err(ConnectionError::usage(format!("{text} is not a table name")));
                }
            }
        }
        match parts.as_slice() {
            [name] => Self::new(None, name),
            [schema, name] => Self::new(Some(schema), name),
            _ => Err(ConnectionError::usage_with_hint(
                format!("{text} has more parts than schema and table"),
                "the database is part of the connection, not of the table's name",
            )),
        }
    }

    /// The schema, where one was named.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The name inside the schema.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The first part of a dotted name, and what follows it.
fn next_part(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(['.', '"']).unwrap_or(text.len());
        let part = &text[..end];
        let plain = !part.is_empty() && !part.contains(char::is_whitespace);
        // As the server folds names where characters have several bytes.
        return plain.then(|| (part.to_ascii_lowercase(), &text[end..]));
    };
    let mut part = String::new();
    let mut characters = quoted.char_indices().peekable();
    while let Some((index, character)) = characters.next() {
        if character != '"' {
            part.push(character);
        } else if characters.next_if(|&(_, next)| next == '"').is_some() {
            part.push('"');
        } else {
            return Some((part, &quoted[index + 1..]));
        }
    }
    None
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(formatter, "\"{}\".", schema.replace('"', "\"\""))?;
        }
        write!(formatter, "\"{}\"", self.name.replace('"', "\"\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals() {
        assert_eq!(quote_literal("").unwrap(), "''");
        assert_eq!(quote_literal("\\' ; DROP").unwrap(), "E'\\\\'' ; DROP'");
        assert!(quote_literal("a\0b").is_err());
        assert!(quote_identifier("a\0b").is_err());
    }

    #[test]
    fn qualified_names() {
        let printed = |text: &str| QualifiedName::parse(text).map(|name| name.to_string());
        assert_eq!(printed("Orders").unwrap(), "\"orders\"");
        assert_eq!(printed("sales.Orders").unwrap(), "\"sales\".\"orders\"");
        assert_eq!(printed("\"A.b\".\"c\"\"d\"").unwrap(), "\"A.b\".\"c\"\"d\"");
        for wrong in ["", "a.", ".a", "a.b.c", "\"a", "a b", "\"a\"b", "\"\""] {
            assert!(printed(wrong).is_err(), "{wrong}");
        }
    }
}
