//! `--pause-when replica-lag=10s,slot-backlog=20GB`: limits on disks and replicas at which a load pauses.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What is asked for; a limit that is not given does not hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PauseWhen {
    /// The slowest replica shows rows later than this.
    pub replica_lag: Option<Duration>,
    /// Bytes of log that a replication slot keeps from being removed.
    pub slot_backlog: Option<u64>,
    /// Segments of log that wait to be archived.
    pub archive_backlog: Option<u64>,
    /// Bytes that must stay free on a disk of the client's or the server's.
    pub free_disk: Option<u64>,
}

const KNOWN: &str = "replica-lag=10s, slot-backlog=20GB, archive-backlog=1000, free-disk=50GB";

impl FromStr for PauseWhen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut limits = Self::default();
        for entry in text.split(',').map(str::trim) {
            let wrong = || format!("{entry:?} is not a limit; limits are {KNOWN}");
            let (name, value) = entry.split_once('=').ok_or_else(wrong)?;
            let is_twice = match name {
                "replica-lag" => {
                    limits.replica_lag.replace(seconds(value).ok_or_else(wrong)?).is_some()
                }
                "slot-backlog" => {
                    limits.slot_backlog.replace(bytes(value).ok_or_else(wrong)?).is_some()
                }
                "archive-backlog" => {
                    let count = value.parse().map_err(|_| wrong())?;
                    limits.archive_backlog.replace(count).is_some()
                }
                "free-disk" => limits.free_disk.replace(bytes(value).ok_or_else(wrong)?).is_some(),
                _ => return Err(wrong()),
            };
            if is_twice {
                return Err(format!("{name} is given twice"));
            }
        }
        Ok(limits)
    }
}

/// A number and its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim()))
}

/// A time of up to months, as `500ms`, `60s`, `5min`, `2h` or `90d`.
pub fn time(text: &str) -> Option<Duration> {
    match split(text)? {
        (days, "d") => Duration::try_from_secs_f64(days * 86_400.0).ok(),
        _ => seconds(text),
    }
}

pub(super) fn seconds(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * factor).ok()
}

/// Powers of ten, as the summary prints sizes.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let power = match unit {
        "B" => 0,
        "kB" => 1,
        "MB" => 2,
        "GB" => 3,
        "TB" => 4,
        "PB" => 5,
        _ => return None,
    };
    Some((number * 1000f64.powi(power)) as u64)
}

impl fmt::Display for PauseWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lag = self.replica_lag.map(|lag| format!("replica-lag={}ms", lag.as_millis()));
        let slot = self.slot_backlog.map(|bytes| format!("slot-backlog={bytes}B"));
        let archive = self.archive_backlog.map(|count| format!("archive-backlog={count}"));
        let disk = self.free_disk.map(|bytes| format!("free-disk={bytes}B"));
        let all: Vec<String> = [lag, slot, archive, disk].into_iter().flatten().collect();
        f.write_str(&all.join(","))
    }
}

impl Serialize for PauseWhen {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PauseWhen {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_written_back() {
        let text = "replica-lag=1.5min, slot-backlog=20GB,archive-backlog=1000,free-disk=0.5TB";
        let limits: PauseWhen = text.parse().expect("limits");
        assert_eq!(limits.replica_lag, Some(Duration::from_secs(90)));
        assert_eq!(limits.slot_backlog, Some(20_000_000_000));
        assert_eq!(limits.archive_backlog, Some(1000));
        assert_eq!(limits.free_disk, Some(500_000_000_000));
        assert_eq!(limits.to_string().parse(), Ok(limits));
    }

    #[test]
    fn what_is_no_limit_is_refused_with_what_is() {
        for wrong in
            ["", "lag=1s", "replica-lag", "replica-lag=10", "slot-backlog=5", "free-disk=-1GB"]
        {
            let error = wrong.parse::<PauseWhen>().expect_err(wrong);
            assert!(error.contains("slot-backlog=20GB"), "{error}");
        }
        assert!("free-disk=1GB,free-disk=2GB".parse::<PauseWhen>().is_err());
    }
}
