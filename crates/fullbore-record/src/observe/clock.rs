//! What each thread of a run does with its time: every moment is counted once.
//!
//! A thread says what it begins to do; the time until it says something else belongs to that, and of
//! it the CPU time it took. Only the thread itself writes its clock, the observer reads it whenever
//! it likes. A change costs two reads of clocks, and there are a few a block of 256 KiB. The clock is
//! the thread's, as a span of a log would be: the code that makes it wait says so with [`enter`], and need
//! not be handed it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a thread does, or waits for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// There is nothing left for it.
    Idle,
    /// A parser: another one reads the same source.
    Queueing,
    /// A parser: the source is read, and decompressed.
    Reading,
    /// A parser: parses and encodes.
    Parsing,
    /// A parser: as much as may wait for the streams does wait for them.
    Blocked,
    /// A stream: no parsed block is there yet.
    Starved,
    /// A stream: hands rows to the session.
    Sending,
    /// A stream: waits for the server's answer, at the begin and the end of a piece among others.
    Answering,
    /// A stream: holds still, since a limit of `--pause-when` is passed.
    Held,
    /// A stream: waits for its turn under `--max-rate`.
    Limited,
    /// A stream: waits for the server to build the indexes of a piece.
    Indexing,
}

impl Activity {
    pub const ALL: [Self; 11] = [
        Self::Idle,
        Self::Queueing,
        Self::Reading,
        Self::Parsing,
        Self::Blocked,
        Self::Starved,
        Self::Sending,
        Self::Answering,
        Self::Held,
        Self::Limited,
        Self::Indexing,
    ];
}

thread_local! {
    static OWN: RefCell<Option<Arc<Clock>>> = const { RefCell::new(None) };
}

/// The calling thread begins something else. A thread without a clock is not timed.
pub fn enter(activity: Activity) {
    OWN.with_borrow(|own| own.iter().for_each(|clock| clock.enter(activity)));
}

/// The table that the calling thread works for from now on.
pub fn work_for(table: usize) {
    OWN.with_borrow(|own| own.iter().for_each(|clock| clock.table.store(table, Ordering::Relaxed)));
}

const KINDS: usize = Activity::ALL.len();

/// Time spent on one activity, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spent {
    pub ms: u64,
    /// Of it, on a processor.
    pub cpu_ms: u64,
}

/// The times of one thread, by activity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Times(pub BTreeMap<Activity, Spent>);

impl Times {
    pub fn of(&self, activity: Activity) -> Spent {
        self.0.get(&activity).copied().unwrap_or_default()
    }

    pub fn total_ms(&self) -> u64 {
        self.0.values().map(|spent| spent.ms).sum()
    }

    /// What was added since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        let differences = self.0.iter().map(|(activity, now)| {
            let before = earlier.of(*activity);
            let ms = now.ms.saturating_sub(before.ms);
            (*activity, Spent { ms, cpu_ms: now.cpu_ms.saturating_sub(before.cpu_ms) })
        });
        Self(differences.collect())
    }
}

/// One thread's clock.
#[derive(Debug)]
pub struct Clock {
    made: Instant,
    activity: AtomicUsize,
    /// The table it works for.
    table: AtomicUsize,
    /// Nanoseconds, from `made` and of the thread's CPU, at which the activity began.
    since: AtomicU64,
    cpu_since: AtomicU64,
    spent: [AtomicU64; KINDS],
    cpu: [AtomicU64; KINDS],
    /// The kernel's number of the thread; 0 before it runs.
    thread: AtomicU64,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            made: Instant::now(),
            activity: AtomicUsize::new(Activity::Idle as usize),
            table: AtomicUsize::new(0),
            since: AtomicU64::new(0),
            cpu_since: AtomicU64::new(0),
            spent: Default::default(),
            cpu: Default::default(),
            thread: AtomicU64::new(0),
        }
    }
}

impl Clock {
    /// Does a thread's work by this clock.
    pub fn time<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        self.adopt();
        OWN.set(Some(self.clone()));
        let result = work();
        OWN.set(None);
        self.enter(Activity::Idle);
        result
    }

    /// Between two pieces of work nobody is to be blamed for: a server that is gone is waited for.
    pub fn set_aside(&self) {
        self.enter(Activity::Held);
    }

    fn adopt(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.thread.store(thread as u64, Ordering::Relaxed);
        self.cpu_since.store(cpu_ns(), Ordering::Relaxed);
    }

    pub fn thread(&self) -> Option<u64> {
        Some(self.thread.load(Ordering::Relaxed)).filter(|thread| *thread != 0)
    }

    fn enter(&self, activity: Activity) {
        let before = self.activity.load(Ordering::Relaxed);
        if before == activity as usize {
            return;
        }
        let (now, cpu_now) = (self.made.elapsed().as_nanos() as u64, cpu_ns());
        let since = self.since.load(Ordering::Relaxed);
        let cpu_since = self.cpu_since.load(Ordering::Relaxed);
        self.spent[before].fetch_add(now.saturating_sub(since), Ordering::Relaxed);
        self.cpu[before].fetch_add(cpu_now.saturating_sub(cpu_since), Ordering::Relaxed);
        self.cpu_since.store(cpu_now, Ordering::Relaxed);
        self.since.store(now, Ordering::Relaxed);
        self.activity.store(activity as usize, Ordering::Relaxed);
    }

    pub fn table(&self) -> usize {
        self.table.load(Ordering::Relaxed)
    }

    pub fn activity(&self) -> Activity {
        Activity::ALL[self.activity.load(Ordering::Relaxed)]
    }

    /// Times until now. What goes on counts too; its CPU time only once it has ended.
    pub fn times(&self) -> Times {
        let current = self.activity.load(Ordering::Relaxed);
        let now = self.made.elapsed().as_nanos() as u64;
        let running = now.saturating_sub(self.since.load(Ordering::Relaxed));
        let spent = Activity::ALL.into_iter().enumerate().filter_map(|(at, activity)| {
            let ended = self.spent[at].load(Ordering::Relaxed);
            let ns = if at == current { ended + running } else { ended };
            let cpu = self.cpu[at].load(Ordering::Relaxed);
            let spent = Spent { ms: ns / 1_000_000, cpu_ms: cpu / 1_000_000 };
            (spent.ms > 0).then_some((activity, spent))
        });
        Times(spent.collect())
    }
}

/// CPU time of the calling thread.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_moment_is_counted_once() {
        let clock = Arc::new(Clock::default());
        clock.time(|| by_clock(&clock));
        enter(Activity::Sending);
        assert_eq!(clock.activity(), Activity::Idle, "it is no longer this thread's");
    }

    /// The bounds hold however long the machine lets this thread wait.
    fn by_clock(clock: &Clock) {
        enter(Activity::Parsing);
        let (began, cpu_began) = (Instant::now(), cpu_ns());
        while began.elapsed() < Duration::from_millis(40) || cpu_ns() - cpu_began < 5_000_000 {
            std::hint::spin_loop();
        }
        enter(Activity::Blocked);
        std::thread::sleep(Duration::from_millis(40));
        let before = clock.made.elapsed().as_millis() as u64;
        let times = clock.times();
        let after = clock.made.elapsed().as_millis() as u64;
        let (parsing, blocked) = (times.of(Activity::Parsing), times.of(Activity::Blocked));
        assert!(parsing.ms >= 40 && (5..=parsing.ms + 1).contains(&parsing.cpu_ms), "{times:?}");
        assert!(blocked.ms >= 40, "{times:?}");
        // Each activity is cut to whole milliseconds.
        let total = times.total_ms();
        assert!(total <= after && total + KINDS as u64 >= before, "{times:?}: {before} to {after}");
        enter(Activity::Parsing);
        let later = clock.times().since(&times);
        assert!(later.of(Activity::Blocked).cpu_ms < 20, "{later:?}");
    }
}
