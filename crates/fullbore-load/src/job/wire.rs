//! How bytes travel to the server: `--congestion`, `--send-buffer`, `--message-size`.

use std::fmt;
use std::str::FromStr;

use super::pause;

const LEAST: u64 = 1_000;
const MOST: u64 = 1_000_000_000;

/// Bytes of a message or of a socket's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireSize(u64);

impl WireSize {
    pub fn bytes(self) -> usize {
        self.0 as usize
    }
}

impl FromStr for WireSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse().ok().or_else(|| pause::bytes(text)) {
            Some(bytes) if (LEAST..=MOST).contains(&bytes) => Ok(Self(bytes)),
            _ => Err(format!("{text:?} is not a size from 1kB to 1GB, such as 32kB or 4MB")),
        }
    }
}

impl fmt::Display for WireSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for (text, bytes) in [("32kB", 32_000), ("4MB", 4_000_000), ("65536", 65_536)] {
            let size: WireSize = text.parse().expect(text);
            assert_eq!(size.bytes(), bytes);
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for wrong in ["", "0", "999", "2GB", "many"] {
            assert!(wrong.parse::<WireSize>().is_err(), "{wrong}");
        }
    }
}
