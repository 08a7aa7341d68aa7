//! Settings of the embedded server: a loader's server, on a machine that does other things too.
//!
//! Nothing here trades safety for speed: fsync, full_page_writes and synchronous_commit keep
//! their defaults, so what a finished load reported survives a power cut.

use std::fs;
use std::path::Path;
use std::thread;

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;

/// What the settings depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Memory this process may count on, a container's limit considered.
    pub memory_bytes: u64,
    /// Free space where the data folder is.
    pub disk_free_bytes: u64,
    /// Room for shared memory segments (/dev/shm).
    pub shared_memory_bytes: u64,
    /// Cores this process may use.
    pub cores: usize,
}

impl Machine {
    /// Looks at this machine; `data_dir` or a folder above it must exist.
    pub fn look(data_dir: &Path) -> Self {
        let existing = data_dir.ancestors().find(|folder| folder.exists());
        Self {
            memory_bytes: memory_bytes().unwrap_or(GIB),
            disk_free_bytes: free_bytes(existing.unwrap_or(Path::new("/"))).unwrap_or(0),
            shared_memory_bytes: free_bytes(Path::new("/dev/shm")).unwrap_or(0),
            cores: thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// The settings for a server that loads, on this machine.
pub fn for_loading(machine: &Machine) -> Vec<(String, String)> {
    let memory = machine.memory_bytes;
    let megabytes = |bytes: u64| format!("{}MB", bytes / MIB);
    // WAL may grow to this before a checkpoint is forced. Taking a tenth of the free disk at
    // most, since a full disk under pg_wal stops the server.
    let wal = (machine.disk_free_bytes / 10).clamp(GIB, 16 * GIB);
    // Index builds after a load sort in this much; larger hardly helps, and several run at once.
    let maintenance = (memory / 16).clamp(64 * MIB, GIB);

    let mut settings = vec![
        // COPY goes through a ring of 16 MB, so a load needs little; indexes and queries after
        // it need more. The page cache has the rest.
        ("shared_buffers", megabytes((memory / 4).clamp(128 * MIB, 2 * GIB))),
        // For the planner only: nothing is allocated.
        ("effective_cache_size", megabytes(memory / 2)),
        // Rows loaded into a table of the same transaction then need no WAL at all. The price:
        // no replication and no backup by WAL, which an embedded server has no use for.
        ("wal_level", "minimal".into()),
        // Minimal WAL demands it.
        ("max_wal_senders", "0".into()),
        // Few, long checkpoints: each makes the next change of every page write it whole.
        ("checkpoint_timeout", "30min".into()),
        ("max_wal_size", megabytes(wal)),
        // Files kept for reuse: a new one has to be zeroed first, which costs a load its time.
        ("min_wal_size", megabytes(wal / 8)),
        // Many sessions writing WAL at once fill the default 16 MB faster than it drains.
        ("wal_buffers", "64MB".into()),
        // Would compress whole-page images only, of which a load into new pages makes hardly
        // any, and it costs CPU, which is what loads run out of.
        ("wal_compression", "off".into()),
        ("maintenance_work_mem", megabytes(maintenance)),
        ("max_parallel_maintenance_workers", machine.cores.clamp(1, 8).to_string()),
        ("max_worker_processes", (machine.cores + 8).to_string()),
        // Streams, samplers, and the user's own sessions beside them.
        ("max_connections", "200".into()),
        // Publishing attaches hundreds of partitions in one transaction, each with its locks.
        ("max_locks_per_transaction", "256".into()),
        // The data stay, and are queried: dead rows and statistics must be looked after.
        ("autovacuum", "on".into()),
        // Solid-state disks read anywhere at nearly the same price.
        ("random_page_cost", "1.1".into()),
        // Says whose processes these are in `ps`.
        ("cluster_name", "fullbore".into()),
        ("log_line_prefix", "%m [%p] ".into()),
    ];
    // Parallel index builds share their memory there; in a container it is often 64 MB, and
    // they fail halfway. Files in the data folder are slower, but there is room.
    if machine.shared_memory_bytes < maintenance * 2 {
        settings.push(("dynamic_shared_memory_type", "mmap".into()));
    }
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn memory_bytes() -> Option<u64> {
    let total = parse_meminfo(&fs::read_to_string("/proc/meminfo").ok()?)?;
    // A container sees the whole machine's memory in /proc, and is killed beyond its own limit.
    let limit = ["memory.max", "memory/memory.limit_in_bytes"]
        .iter()
        .filter_map(|name| fs::read_to_string(Path::new("/sys/fs/cgroup").join(name)).ok())
        .find_map(|text| text.trim().parse::<u64>().ok());
    Some(limit.map_or(total, |limit| total.min(limit)))
}

fn parse_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Bytes that an ordinary user may still write on the disk that holds a folder.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let space = rustix::fs::statvfs(folder).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(machine: &Machine, name: &str) -> Option<String> {
        let settings = for_loading(machine);
        settings.into_iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    const SERVER: Machine = Machine {
        memory_bytes: 64 * GIB,
        disk_free_bytes: 2000 * GIB,
        shared_memory_bytes: 32 * GIB,
        cores: 32,
    };

    #[test]
    fn a_large_machine_meets_the_caps() {
        assert_eq!(value(&SERVER, "shared_buffers").as_deref(), Some("2048MB"));
        assert_eq!(value(&SERVER, "max_wal_size").as_deref(), Some("16384MB"));
        assert_eq!(value(&SERVER, "maintenance_work_mem").as_deref(), Some("1024MB"));
        assert_eq!(value(&SERVER, "dynamic_shared_memory_type"), None);
    }

    #[test]
    fn a_small_container_is_not_overdrawn() {
        let small = Machine {
            memory_bytes: 256 * MIB,
            disk_free_bytes: 5 * GIB,
            shared_memory_bytes: 64 * MIB,
            cores: 1,
        };
        assert_eq!(value(&small, "shared_buffers").as_deref(), Some("128MB"));
        assert_eq!(value(&small, "max_wal_size").as_deref(), Some("1024MB"));
        assert_eq!(value(&small, "dynamic_shared_memory_type").as_deref(), Some("mmap"));
    }

    #[test]
    fn nothing_trades_safety_for_speed() {
        for name in ["fsync", "full_page_writes", "synchronous_commit"] {
            assert_eq!(value(&SERVER, name), None, "{name} keeps its default");
        }
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let machine = Machine::look(Path::new("/tmp/not/there/yet"));
        assert!(machine.memory_bytes > 64 * MIB && machine.cores > 0);
        assert_eq!(parse_meminfo("MemTotal:       1024 kB\n"), Some(MIB));
    }
}
