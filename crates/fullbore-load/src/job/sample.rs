//! `--sample 10%`: a random part of the sources, for loads that are measured.

use std::fmt;
use std::str::FromStr;

/// A share of the sources, and the number that decides which part it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    percent: f64,
    seed: u64,
}

impl Sample {
    /// From 0 to 1.
    pub fn share(self) -> f64 {
        self.percent / 100.0
    }

    pub fn seed(self) -> u64 {
        self.seed
    }

    /// The same share, drawn by another number.
    #[must_use]
    pub fn drawn_by(self, seed: u64) -> Self {
        Self { seed, ..self }
    }
}

impl FromStr for Sample {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a share such as 10%");
        let (share, seed) = text.split_once('@').unwrap_or((text, "1"));
        let percent: f64 =
            share.strip_suffix('%').and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
        let seed = seed.parse().map_err(|_| wrong())?;
        match percent > 0.0 && percent <= 100.0 {
            true => Ok(Self { percent, seed }),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%@{}", self.percent, self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_as_they_are_written() {
        let sample: Sample = "10%".parse().expect("a share");
        assert_eq!(sample.drawn_by(7).to_string(), "10%@7");
        assert_eq!("10%@7".parse(), Ok(sample.drawn_by(7)));
        assert!((sample.share() - 0.1).abs() < 1e-9);
        for wrong in ["10", "0%", "101%", "%", "10%@x", "-1%"] {
            assert!(wrong.parse::<Sample>().is_err(), "{wrong}");
        }
    }
}
