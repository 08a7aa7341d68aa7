//! Options for concurrent use of the targets: `--lock-timeout`, `--replace-anyway`, `--lock-writers`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::pause::seconds;

/// How long one attempt waits for a lock; zero: without bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockTimeout(pub Duration);

impl FromStr for LockTimeout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a time such as 2s or 500ms, or 0 for no limit");
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let time = seconds(text).ok_or_else(wrong)?;
        // The server counts milliseconds, and takes zero of them for no bound.
        if time < Duration::from_millis(1) || time.as_millis() > i32::MAX as u128 {
            return Err(wrong());
        }
        Ok(Self(time))
    }
}

impl fmt::Display for LockTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() {
            0 => f.write_str("0"),
            whole if whole % 1000 == 0 => write!(f, "{}s", whole / 1000),
            milliseconds => write!(f, "{milliseconds}ms"),
        }
    }
}

impl Serialize for LockTimeout {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LockTimeout {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What is done about rows that others write to a table while its replacement is loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OtherWriters {
    /// They are looked for before the swap, which is refused where there are any.
    #[default]
    Found,
    /// They are lost: `--replace-anyway`.
    Ignored,
    /// They wait from the beginning on: `--lock-writers`.
    LockedOut,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_back() {
        for (text, milliseconds, written) in [
            ("2s", 2_000, "2s"),
            ("500ms", 500, "500ms"),
            ("1.5s", 1_500, "1500ms"),
            ("2min", 120_000, "120s"),
            ("0", 0, "0"),
        ] {
            let time: LockTimeout = text.parse().expect(text);
            assert_eq!(time.0, Duration::from_millis(milliseconds));
            assert_eq!(time.to_string(), written);
            assert_eq!(written.parse(), Ok(time));
        }
        for wrong in ["", "2", "s", "-1s", "0s", "0.1ms", "1d", "1000h"] {
            assert!(wrong.parse::<LockTimeout>().is_err(), "{wrong}");
        }
    }
}
