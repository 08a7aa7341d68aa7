//! `--part 2/3`: which share of a load this host has.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Hosts that may load together.
const PARTS_MAX: u32 = 1000;

/// One of several hosts that load together, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartSpec {
    pub number: u32,
    pub of: u32,
}

impl fmt::Display for PartSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for PartSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(number, of)| {
            let part = Self { number: number.parse().ok()?, of: of.parse().ok()? };
            ((1..=PARTS_MAX).contains(&part.of) && (1..=part.of).contains(&part.number))
                .then_some(part)
        });
        parsed.ok_or_else(|| {
            format!("{text:?} is not a part such as 2/3, the second of three; at most {PARTS_MAX}")
        })
    }
}

impl Serialize for PartSpec {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PartSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_as_they_are_written() {
        let part: PartSpec = "2/3".parse().expect("a part");
        assert_eq!((part, part.to_string().as_str()), (PartSpec { number: 2, of: 3 }, "2/3"));
        for wrong in ["", "2", "0/3", "4/3", "1/0", "1/1001", "a/b", "-1/3", "1/3/5"] {
            assert!(wrong.parse::<PartSpec>().is_err(), "{wrong}");
        }
    }
}
