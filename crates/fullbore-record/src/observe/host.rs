//! What the kernel says of this machine and of this process: counters that only grow.
//!
//! Read from Linux's /proc; what isn't there is left out.

use std::fs;

use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quota;

/// Counters of the machine since it was started, and of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostTimes {
    /// CPU time of this process, all its threads.
    pub own_cpu_ms: u64,
    /// Of all processors together: time without work, and time that the hypervisor gave to others.
    pub idle_ms: u64,
    pub steal_ms: u64,
    /// Time of all processors, whatever they did.
    pub all_ms: u64,
    /// Pressure stall information: time in which some task waited for a processor, for I/O.
    pub cpu_stall_us: u64,
    pub io_stall_us: u64,
    /// Bytes that this process caused to be read from disks.
    pub read_bytes: u64,
    /// Time of all processors in which this process was held back by a quota on its CPU.
    #[serde(default)]
    pub throttled_ms: u64,
    /// CPU time that this process could have had: of the processors that it may run on, as far as a
    /// quota goes. 0 in records of older versions.
    #[serde(default)]
    pub granted_ms: u64,
}

impl HostTimes {
    pub fn read() -> Self {
        let mut times = Self { own_cpu_ms: own_cpu_ms(), ..Self::default() };
        if let Ok(text) = fs::read_to_string("/proc/stat") {
            times.take_stat(&text);
        }
        times.cpu_stall_us = stall("/proc/pressure/cpu");
        times.io_stall_us = stall("/proc/pressure/io");
        if let Ok(text) = fs::read_to_string("/proc/self/io") {
            times.read_bytes = text
                .lines()
                .find_map(|line| line.strip_prefix("read_bytes: "))
                .and_then(|bytes| bytes.trim().parse().ok())
                .unwrap_or_default();
        }
        times.throttled_ms = quota::throttled_ms();
        times.granted_ms = quota::granted_ms();
        times
    }

    /// Reads the line `cpu user nice system idle iowait irq softirq steal ...`, in clock ticks.
    fn take_stat(&mut self, text: &str) {
        let Some(line) = text.lines().find_map(|line| line.strip_prefix("cpu ")) else { return };
        let tick_ms = 1000 / rustix::param::clock_ticks_per_second().max(1);
        let ticks: Vec<u64> =
            line.split_ascii_whitespace().take(8).filter_map(|n| n.parse().ok()).collect();
        let at = |field: usize| ticks.get(field).copied().unwrap_or_default() * tick_ms;
        // A processor that waits for I/O only is free for other work.
        self.idle_ms = at(3) + at(4);
        self.steal_ms = at(7);
        self.all_ms = ticks.iter().sum::<u64>() * tick_ms;
    }

    /// What was added since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            own_cpu_ms: self.own_cpu_ms.saturating_sub(earlier.own_cpu_ms),
            idle_ms: self.idle_ms.saturating_sub(earlier.idle_ms),
            steal_ms: self.steal_ms.saturating_sub(earlier.steal_ms),
            all_ms: self.all_ms.saturating_sub(earlier.all_ms),
            cpu_stall_us: self.cpu_stall_us.saturating_sub(earlier.cpu_stall_us),
            io_stall_us: self.io_stall_us.saturating_sub(earlier.io_stall_us),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            throttled_ms: self.throttled_ms.saturating_sub(earlier.throttled_ms),
            granted_ms: self.granted_ms.saturating_sub(earlier.granted_ms),
        }
    }
}

/// Microseconds of CPU that a thread of ours took: the first field of its `schedstat`.
pub fn thread_cpu_us(thread: u64) -> u64 {
    schedstat(thread, 0) / 1000
}

/// Milliseconds that a thread of ours was ready to run and had no processor: the second field of
/// its `schedstat`.
pub fn run_queue_ms(thread: u64) -> u64 {
    schedstat(thread, 1) / 1_000_000
}

/// A field of the scheduler's account of a thread of ours, in nanoseconds.
fn schedstat(thread: u64, field: usize) -> u64 {
    fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"))
        .ok()
        .and_then(|text| text.split_ascii_whitespace().nth(field)?.parse().ok())
        .unwrap_or_default()
}

/// CPU time of another process on this machine: fields 14 and 15 of its `stat`, which come after a
/// name in parentheses that may hold anything.
pub fn process_cpu_ms(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((ticks(11)? + ticks(12)?) * 1000 / rustix::param::clock_ticks_per_second().max(1))
}

fn own_cpu_ms() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// The total of the line `some avg10=... avg60=... avg300=... total=MICROSECONDS`.
fn stall(path: &str) -> u64 {
    fs::read_to_string(path)
        .ok()
        .and_then(|text| text.lines().next()?.rsplit_once("total=")?.1.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_all_processors_is_read() {
        let mut times = HostTimes::default();
        times.take_stat("cpu  10 1 20 300 5 0 2 7 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
        let tick = 1000 / rustix::param::clock_ticks_per_second();
        assert_eq!(times.idle_ms, 305 * tick);
        assert_eq!(times.steal_ms, 7 * tick);
        assert_eq!(times.all_ms, 345 * tick);
    }

    #[test]
    fn this_machine_can_be_read() {
        let before = HostTimes::read();
        assert!(before.all_ms > 0);
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u64;
        let _ = run_queue_ms(thread);
        assert!(process_cpu_ms(std::process::id() as i32).is_some());
        assert_eq!(process_cpu_ms(-1), None);
        let later = HostTimes::read().since(&before);
        assert!(later.idle_ms <= later.all_ms);
    }
}
