//! `--piece-size 64MB`: how much of its sources a table loads in one transaction.

use std::fmt;
use std::str::FromStr;

use super::pause;

/// Below this, transactions cost more than the rows in them.
const LEAST: u64 = 100_000;

/// Bytes of source of one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceSize(u64);

impl PieceSize {
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for PieceSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = text.parse().ok().or_else(|| pause::bytes(text));
        match bytes {
            Some(bytes) if bytes >= LEAST => Ok(Self(bytes)),
            _ => Err(format!("{text:?} is not a size of at least 100kB, such as 64MB or 1GB")),
        }
    }
}

impl fmt::Display for PieceSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for (text, bytes) in [("64MB", 64_000_000), ("100kB", 100_000), ("1048576", 1 << 20)] {
            let size: PieceSize = text.parse().expect(text);
            assert_eq!(size.bytes(), bytes);
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for wrong in ["", "0", "99999", "1 MB x", "-5MB", "64M", "many"] {
            assert!(wrong.parse::<PieceSize>().is_err(), "{wrong}");
        }
    }
}
