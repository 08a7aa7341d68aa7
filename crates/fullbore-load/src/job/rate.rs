//! `--max-rate 50MB/s`: how fast all streams together may send.

use std::fmt;
use std::str::FromStr;

use super::size::bytes;

/// Below this, a block would take minutes.
const LEAST: u64 = 10_000;

/// Bytes a second, as they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxRate(u64);

impl MaxRate {
    /// So many bytes a second, or the least there is: a share of a small rate is no refusal.
    pub fn at_least(bytes_per_second: u64) -> Self {
        Self(bytes_per_second.max(LEAST))
    }

    pub fn bytes_per_second(self) -> u64 {
        self.0
    }
}

impl FromStr for MaxRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = text.trim().strip_suffix("/s").unwrap_or(text.trim());
        match bytes(size) {
            Some(bytes) if bytes >= LEAST => Ok(Self(bytes)),
            _ => Err(format!("{text:?} is not a rate of at least 10kB/s, such as 50MB/s")),
        }
    }
}

impl fmt::Display for MaxRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_they_are_written() {
        for (text, bytes) in [("50MB/s", 50_000_000), ("1.5GB", 1_500_000_000), ("10000", 10_000)] {
            let rate: MaxRate = text.parse().expect(text);
            assert_eq!(rate.bytes_per_second(), bytes);
            assert_eq!(rate.to_string().parse(), Ok(rate));
        }
        for wrong in ["", "0", "9kB/s", "50Mb/s", "fast", "-5MB/s", "50MB/min"] {
            assert!(wrong.parse::<MaxRate>().is_err(), "{wrong}");
        }
    }
}
