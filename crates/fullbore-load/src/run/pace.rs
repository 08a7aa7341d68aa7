//! Holds all streams together to a rate: `--max-rate`, and what `runs throttle` says later.
//!
//! The wish of a later moment is a file in the run's folder, so that it needs no way into the process, and holds
//! when the run is resumed.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use fullbore_record::observe::clock::{self, Activity};

use crate::job::MaxRate;

/// The file of the later wish: a rate, or `none`.
pub const FILE: &str = "max-rate";

/// Seconds of the rate that may be sent at once after a rest: pauses of the server are made up for, no more.
const BURST: Duration = Duration::from_millis(100);

/// How long is slept at a time: a changed rate, or the end of the run, is noticed by then.
const NAP: Duration = Duration::from_millis(50);

/// Takes turns to send.
#[derive(Debug)]
pub struct Pace {
    /// Bytes a second; 0 without a limit.
    rate: AtomicU64,
    /// When what was let through so far is sent.
    until: Mutex<Instant>,
    seen: Mutex<Option<SystemTime>>,
}

impl Pace {
    pub fn new(rate: Option<MaxRate>) -> Self {
        Self {
            rate: AtomicU64::new(rate.map_or(0, MaxRate::bytes_per_second)),
            until: Mutex::new(Instant::now()),
            seen: Mutex::default(),
        }
    }

    /// The limit, in bytes a second.
    pub fn rate(&self) -> Option<u64> {
        Some(self.rate.load(Ordering::Relaxed)).filter(|rate| *rate > 0)
    }

    /// Waits until so many bytes may be sent.
    pub fn wait_for(&self, bytes: usize, has_ended: &dyn Fn() -> bool) {
        let Some(rate) = self.rate() else { return };
        let takes = Duration::from_secs_f64(bytes as f64 / rate as f64);
        // What is let through has arrived by then, as on a link of this rate.
        let arrives = {
            let mut until = self.until.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let earliest = Instant::now().checked_sub(BURST).unwrap_or(*until);
            let from = (*until).max(earliest);
            *until = from + takes;
            *until
        };
        while let Some(left) =
            arrives.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        {
            if has_ended() || self.rate() != Some(rate) {
                return;
            }
            clock::enter(Activity::Limited);
            std::thread::sleep(left.min(NAP));
        }
    }

    /// Looks whether another rate is wished for; the new one, once.
    pub fn look(&self, folder: &Path) -> Option<Option<u64>> {
        let path = folder.join(FILE);
        let changed = fs::metadata(&path).and_then(|file| file.modified()).ok()?;
        let mut seen = self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if *seen == Some(changed) {
            return None;
        }
        *seen = Some(changed);
        let text = fs::read_to_string(&path).ok()?;
        let rate = match text.trim() {
            "none" => 0,
            text => text.parse::<MaxRate>().ok()?.bytes_per_second(),
        };
        if self.rate.swap(rate, Ordering::Relaxed) == rate {
            return None;
        }
        // What was reserved at the old rate is none of the new one's.
        *self.until.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Instant::now();
        Some(Some(rate).filter(|rate| *rate > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_share_a_rate() {
        let pace = Pace::new("10MB/s".parse().ok());
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10).for_each(|_| pace.wait_for(50_000, &|| false)));
            }
        });
        // 2 MB of it. How late a machine wakes threads is its own affair.
        assert!(began.elapsed() >= Duration::from_millis(95), "{:?}", began.elapsed());
        let none = Pace::new(None);
        let began = Instant::now();
        none.wait_for(usize::MAX, &|| false);
        assert!(began.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn another_rate_is_noticed_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let pace = Pace::new("10kB/s".parse().ok());
        assert_eq!(pace.look(folder.path()), None);
        fs::write(folder.path().join(FILE), "5MB/s\n").expect("written");
        assert_eq!(pace.look(folder.path()), Some(Some(5_000_000)));
        assert_eq!((pace.look(folder.path()), pace.rate()), (None, Some(5_000_000)));
        let later = SystemTime::now() + Duration::from_secs(5);
        fs::write(folder.path().join(FILE), "none").expect("written");
        let file = fs::File::options().write(true).open(folder.path().join(FILE)).expect("opened");
        file.set_modified(later).expect("later");
        assert_eq!(pace.look(folder.path()), Some(None));
        assert_eq!(pace.rate(), None);
    }

    #[test]
    fn a_wait_ends_with_the_run_or_its_rate() {
        let pace = Pace::new("10kB/s".parse().ok());
        let began = Instant::now();
        pace.wait_for(10_000_000, &|| true);
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}
