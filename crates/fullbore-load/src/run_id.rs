//! A run's id: letters and digits alone, since it stands in names of tables and folders.
//!
//! Twenty digits of base 32: the second of the run's beginning, so that ids sort by it, and 64 bits from
//! the kernel's random numbers, so that no two hosts draw the same. Runs of version 0.1 have twelve
//! hexadecimal digits. What claims to be an id, in a ledger or a record, is one of the two or refused.

use std::fmt;
use std::ops::Deref;
use std::time::{SystemTime, UNIX_EPOCH};

use fullbore_read::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// In the order of their codes, without letters that are taken for digits.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Digits of an id; those of an id of version 0.1.
const LENGTH: usize = 20;
const LENGTH_OLD: usize = 12;

/// An id that has the shape of one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RunId(String);

impl RunId {
    /// A new run's.
    ///
    /// # Errors
    /// Where the kernel has no random numbers.
    pub fn draw() -> Result<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random)
            .map_err(|error| Error::usage(format!("the kernel has no random numbers: {error}")))?;
        let second = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(Self::of(u128::from(second) << 64 | u128::from(u64::from_be_bytes(random))))
    }

    /// The id that follows from a hash.
    pub fn of_hash(hash: &[u8]) -> Self {
        let mut bits = [0; 16];
        let taken = hash.len().min(bits.len());
        bits[..taken].copy_from_slice(&hash[..taken]);
        Self::of(u128::from_be_bytes(bits))
    }

    /// The digits of the lower 100 bits.
    fn of(bits: u128) -> Self {
        let digit = |place: usize| DIGITS[(bits >> (5 * place)) as usize % DIGITS.len()] as char;
        Self((0..LENGTH).rev().map(digit).collect())
    }

    /// What has the shape of an id; `None` for all else.
    pub fn parse(text: &str) -> Option<Self> {
        let is_id = match text.len() {
            LENGTH => text.bytes().all(|byte| DIGITS.contains(&byte)),
            LENGTH_OLD => text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
            _ => false,
        };
        is_id.then(|| Self(text.to_owned()))
    }

    /// Whether a run of version 0.1 has drawn it.
    pub fn is_old(text: &str) -> bool {
        text.len() == LENGTH_OLD
    }
}

impl Deref for RunId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

impl TryFrom<String> for RunId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| "not the id of a run".into())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_of_one_second_are_all_different_and_sort_by_their_seconds() {
        let ids: BTreeSet<RunId> = (0..10_000).map(|_| RunId::draw().expect("drawn")).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(ids.iter().all(|id| RunId::parse(id).as_ref() == Some(id)));
        // All 64 of the lower bits differ between some two of them.
        let bits = |id: &RunId| {
            let digit = |byte| DIGITS.iter().position(|digit| *digit == byte).expect("a digit");
            id.bytes().fold(0u128, |bits, byte| bits << 5 | digit(byte) as u128)
        };
        let first = bits(ids.first().expect("an id"));
        let differ = ids.iter().fold(0, |differ, id| differ | (bits(id) ^ first));
        assert_eq!(differ as u64, u64::MAX);
        let (earlier, later) = (RunId::of(1 << 64 | u128::from(u64::MAX)), RunId::of(2 << 64));
        assert!(earlier < later && *earlier < *later);
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for id in ["6b01b99c8df6", "0dc06wqs1z9kfp3ae5tq"] {
            assert_eq!(RunId::parse(id).as_deref(), Some(id));
        }
        for other in [
            "",
            "abc",
            "6b01b99c8dF6",
            "6b01b99c8dg6",
            "../../../etc/passwd",
            "x(new|[0-9]+)$|.*$--",
            "0dc06wqs1z9kfp3ae5t'",
            "0dc06wqs1z9kfp3ae5tı",
            "0dc06wqs1z9kfp3ae5tu",
        ] {
            assert_eq!(RunId::parse(other), None, "{other}");
            assert!(serde_json::from_value::<RunId>(other.into()).is_err());
        }
    }
}
