//! Numbers that options give in more than one form: `--streams auto`, `--max-rejects 0.5%`.

use std::fmt;
use std::str::FromStr;

/// A number, or the planner's own choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Count {
    #[default]
    Auto,
    Fixed(usize),
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(count) => write!(f, "{count}"),
        }
    }
}

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        match text.parse() {
            Ok(count) if (1..=1024).contains(&count) => Ok(Self::Fixed(count)),
            _ => Err(format!("{text:?} is neither `auto` nor a number from 1 to 1024")),
        }
    }
}

/// How many rows may be rejected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RejectLimit {
    Rows(u64),
    Percent(f64),
}

impl RejectLimit {
    /// Whether any row may be rejected.
    pub fn allows_any(self) -> bool {
        match self {
            Self::Rows(rows) => rows > 0,
            Self::Percent(percent) => percent > 0.0,
        }
    }
}

impl Default for RejectLimit {
    fn default() -> Self {
        Self::Rows(0)
    }
}

impl fmt::Display for RejectLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "{rows}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for RejectLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is neither a number of rows nor a share such as 0.5%");
        match text.strip_suffix('%') {
            Some(share) => {
                let percent: f64 = share.trim().parse().map_err(|_| wrong())?;
                if (0.0..=100.0).contains(&percent) {
                    Ok(Self::Percent(percent))
                } else {
                    Err(wrong())
                }
            }
            None => text.parse().map(Self::Rows).map_err(|_| wrong()),
        }
    }
}
