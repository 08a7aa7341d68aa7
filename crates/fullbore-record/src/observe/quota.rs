//! CPU quotas, as in containers: how long the kernel throttled this process, and its limit.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant;

/// Milliseconds of CPU that this process could have had since it first asked: processors by its
/// affinity and quota, times the time.
pub fn granted_ms() -> u64 {
    static BEGAN: OnceLock<(Instant, u64)> = OnceLock::new();
    let (began, processors) = BEGAN.get_or_init(|| {
        (Instant::now(), std::thread::available_parallelism().map_or(1, usize::from) as u64)
    });
    began.elapsed().as_millis() as u64 * processors
}

/// Milliseconds for which this process's control group was held back, on all processors together.
pub fn throttled_ms() -> u64 {
    static STATISTICS: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = STATISTICS.get_or_init(|| {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        statistics(&groups).into_iter().find(|path| path.is_file())
    });
    let text = found.as_ref().and_then(|path| fs::read_to_string(path).ok());
    text.map_or(0, |text| throttled(&text))
}

/// Where they may be, by the lines `NUMBER:CONTROLLERS:PATH` of this process: version 2 has one line,
/// with no controllers in it. In a container what is mounted is often its own group already.
fn statistics(groups: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let roots: &[&str] = match controllers {
            "" => &["/sys/fs/cgroup"],
            _ if controllers.split(',').any(|controller| controller == "cpu") => {
                &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
            }
            _ => continue,
        };
        for root in roots {
            found.push(PathBuf::from(format!("{root}{path}/cpu.stat")));
            found.push(PathBuf::from(format!("{root}/cpu.stat")));
        }
    }
    found
}

/// Version 1 counts `throttled_time` in nanoseconds, version 2 `throttled_usec`.
fn throttled(text: &str) -> u64 {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
    let ns: Option<u64> = value("throttled_time ");
    let us: Option<u64> = value("throttled_usec ");
    ns.map(|ns| ns / 1_000_000).or(us.map(|us| us / 1_000)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        assert_eq!(throttled("nr_periods 9\nnr_throttled 3\nthrottled_time 7000000\n"), 7);
        assert_eq!(throttled("usage_usec 1\nthrottled_usec 9000\nnr_bursts 0\n"), 9);
        assert_eq!(throttled("usage_usec 1\n"), 0);
        let first = |groups: &str| statistics(groups).first().cloned();
        let group = PathBuf::from("/sys/fs/cgroup/cpu/load/cpu.stat");
        assert_eq!(first("9:name=systemd:/\n1:cpu,cpuacct:/load\n"), Some(group));
        assert_eq!(first("0::/a:b\n"), Some(PathBuf::from("/sys/fs/cgroup/a:b/cpu.stat")));
        assert_eq!(first("5:devices:/\n"), None);
    }
}
