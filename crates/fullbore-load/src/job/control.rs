//! Control totals: what a table's rows are said to amount to.

use fullbore_read::error::{Error, Result};

/// What is counted or summed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Total {
    Rows,
    /// Of a column of the table.
    Sum(String),
}

/// A total and what it should be, as it is written: the sum of these numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    pub total: Total,
    pub expected: Vec<String>,
}

/// Between numbers whose sum is expected.
const PLUS: &str = " + ";

/// As [`Control::read`] reads it.
impl std::fmt::Display for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} = {}", self.total, self.expected.join(PLUS))
    }
}

impl Control {
    /// `rows = 17`, `sum(amount) = 99.10` or `rows = 17 + 4`.
    pub fn read(text: &str) -> Result<Self> {
        let (total, value) = read(text)?;
        Ok(Self { total, expected: value.split(PLUS).map(number).collect::<Result<_>>()? })
    }
}

impl std::fmt::Display for Total {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rows => f.write_str("rows"),
            Self::Sum(column) => write!(f, "sum({column})"),
        }
    }
}

/// `rows = 17` or `sum(amount) = 99.10`: what, and the text behind it.
pub fn read(text: &str) -> Result<(Total, &str)> {
    let wrong = || {
        Error::usage_with_hint(
            format!("control {text:?} can't be read"),
            "write rows = 12345, or sum(amount) = 99.10; or name a file with such lines",
        )
    };
    let (what, value) = text.split_once('=').ok_or_else(wrong)?;
    let what = what.trim();
    let total = match what.strip_prefix("sum(").and_then(|rest| rest.strip_suffix(')')) {
        Some(column) if !column.trim().is_empty() => {
            Total::Sum(column.trim().trim_matches('"').to_owned())
        }
        None if what == "rows" => Total::Rows,
        _ => return Err(wrong()),
    };
    Ok((total, value.trim()))
}

/// A number as it is written: digits, with a sign and a point.
pub fn number(text: &str) -> Result<String> {
    let text = text.trim().trim_matches('"').trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = digits.bytes().any(|b| b.is_ascii_digit())
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && digits.bytes().filter(|b| *b == b'.').count() < 2;
    match is_number {
        true => Ok(text.to_owned()),
        false => Err(Error::usage_with_hint(
            format!("control total {text:?} is not a number"),
            "write digits, with a point if there is a fraction: 99.10",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_as_they_are_written() {
        assert_eq!(read("rows = 17").unwrap(), (Total::Rows, "17"));
        assert_eq!(read("sum(a b)=-1.5").unwrap(), (Total::Sum("a b".into()), "-1.5"));
        for wrong in ["rows", "sum() = 1", "avg(a) = 1", "sum(a = 1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(number(" \"+17.50\" ").unwrap(), "+17.50");
        for wrong in ["", "-", "1e5", "1.2.3", "1'; DROP"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
        let both = Control::read("sum(a b) =  +1.50 + -2").unwrap();
        assert_eq!(both.expected, ["+1.50", "-2"]);
        assert_eq!(Control::read(&both.to_string()).unwrap(), both);
        assert!(Control::read("rows = 1 + ").is_err());
    }
}
