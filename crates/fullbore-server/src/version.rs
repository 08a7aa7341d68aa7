//! Versions of PostgreSQL.

use std::fmt;

/// A PostgreSQL version, such as 18.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The part that data folders depend on.
    pub major: u32,
    /// The part that only fixes things; 0 for development versions.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Version {
    /// Reads `postgres (PostgreSQL) 15.18 (Debian ...)`, `... 18beta1`, `... 19devel`.
    pub(crate) fn parse(output: &str) -> Option<Self> {
        let word = output.split("(PostgreSQL)").nth(1)?.split_whitespace().next()?;
        let (major, rest) = leading_number(word)?;
        let minor = rest.strip_prefix('.').and_then(leading_number).map_or(0, |(minor, _)| minor);
        Some(Self { major, minor })
    }
}

fn leading_number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_the_programs_print_them() {
        let version = |text| Version::parse(text).map(|v| (v.major, v.minor));
        assert_eq!(version("postgres (PostgreSQL) 18.6\n"), Some((18, 6)));
        assert_eq!(
            version("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"),
            Some((15, 18))
        );
        assert_eq!(version("postgres (PostgreSQL) 19beta2"), Some((19, 0)));
        assert_eq!(version("postgres (PostgreSQL) 19devel"), Some((19, 0)));
        assert_eq!(version("postgres: not found"), None);
    }
}
