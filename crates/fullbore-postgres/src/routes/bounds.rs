//! Partitions' bounds, as the server writes them (`pg_get_expr` of `relpartbound`).

/// A value of a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Null,
    /// Below all values.
    Least,
    /// Above all values.
    Most,
}

/// What a partition holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// From the one, up to the other, which is not in it.
    Range(Vec<Value>, Vec<Value>),
    List(Vec<Value>),
    Hash {
        modulus: u64,
        remainder: u64,
    },
}

impl Bound {
    /// `FOR VALUES ...`; nothing inside for a default partition; none where it is not understood.
    pub fn parse(text: &str) -> Option<Option<Self>> {
        let text = text.trim();
        if text == "DEFAULT" {
            return Some(None);
        }
        let rest = text.strip_prefix("FOR VALUES ")?;
        let bound = if let Some(rest) = rest.strip_prefix("FROM ") {
            let (lower, rest) = values(rest)?;
            let (upper, rest) = values(rest.trim_start().strip_prefix("TO ")?)?;
            rest.is_empty().then_some(Self::Range(lower, upper))?
        } else if let Some(rest) = rest.strip_prefix("IN ") {
            let (list, rest) = values(rest)?;
            rest.is_empty().then_some(Self::List(list))?
        } else {
            let rest = rest.strip_prefix("WITH (modulus ")?.strip_suffix(')')?;
            let (modulus, remainder) = rest.split_once(", remainder ")?;
            Self::Hash { modulus: modulus.parse().ok()?, remainder: remainder.parse().ok()? }
        };
        Some(Some(bound))
    }
}

/// `(1, 'a', NULL)`, and what stands behind it.
fn values(text: &str) -> Option<(Vec<Value>, &str)> {
    let mut rest = text.strip_prefix('(')?;
    let mut values = Vec::new();
    loop {
        rest = rest.trim_start();
        let (value, after) = value(rest)?;
        values.push(value);
        rest = match after.strip_prefix(',') {
            Some(rest) => rest,
            None => return Some((values, after.strip_prefix(')')?)),
        };
    }
}

fn value(text: &str) -> Option<(Value, &str)> {
    // With backslashes in it, the server writes the other form.
    let (quoted, has_escapes) = match text.strip_prefix('E') {
        Some(rest) if rest.starts_with('\'') => (rest, true),
        _ => (text, false),
    };
    if !quoted.starts_with('\'') {
        let end = text.find([',', ')'])?;
        let value = match &text[..end] {
            "NULL" => Value::Null,
            "MINVALUE" => Value::Least,
            "MAXVALUE" => Value::Most,
            "" => return None,
            bare => Value::Text(bare.to_owned()),
        };
        return Some((value, &text[end..]));
    }
    let mut value = String::new();
    let mut characters = quoted.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '\'' if characters.next_if(|(_, next)| *next == '\'').is_some() => value.push('\''),
            '\'' => return Some((Value::Text(value), &quoted[at + 1..])),
            '\\' if has_escapes => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn bounds_are_read_as_the_server_writes_them() {
        let range = |lower, upper| Some(Some(Bound::Range(lower, upper)));
        for (written, bound) in [
            ("DEFAULT", Some(None)),
            ("FOR VALUES FROM (1) TO (MAXVALUE)", range(vec![text("1")], vec![Value::Most])),
            (
                "FOR VALUES FROM ('2024-01-01', MINVALUE) TO ('2024-02-01', 'it''s, (so)')",
                range(
                    vec![text("2024-01-01"), Value::Least],
                    vec![text("2024-02-01"), text("it's, (so)")],
                ),
            ),
            (
                r"FOR VALUES IN ('a', NULL, E'b\\c', -4)",
                Some(Some(Bound::List(vec![text("a"), Value::Null, text(r"b\c"), text("-4")]))),
            ),
            (
                "FOR VALUES WITH (modulus 64, remainder 3)",
                Some(Some(Bound::Hash { modulus: 64, remainder: 3 })),
            ),
            ("FOR VALUES IN ('a)", None),
            ("FOR VALUES FROM (1) TO (2) ", range(vec![text("1")], vec![text("2")])),
            ("FOR VALUES FROM (1) TO (2) AND MORE", None),
            ("", None),
        ] {
            assert_eq!(Bound::parse(written), bound, "{written}");
        }
    }
}
