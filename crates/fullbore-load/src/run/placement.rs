//! `--placement`: threads on the memory node that their data comes through.
//!
//! On a machine with several nodes, a byte that is received by one and touched by another travels twice. Which node a
//! network interface or a disk belongs to stands in sysfs. Where there is a single node, or a device says nothing,
//! threads run wherever the system puts them.

use std::fs;
use std::path::{Path, PathBuf};

use fullbore_record::{Event, Recorder};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::job::Placement;
use crate::plan::Plan;
use crate::sink::Paced;

/// Where the kernel tells of nodes and devices.
const SYSFS: &str = "/sys";

/// The processors that streams and parsers run on; none: all.
#[derive(Debug, Clone, Default)]
pub struct Nodes {
    streams: Option<Node>,
    parsers: Option<Node>,
}

/// A memory node and its processors.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    number: u32,
    processors: Vec<usize>,
    /// What is near to it.
    near: String,
}

impl Nodes {
    /// Decides for a run, and says so.
    pub fn of(plan: &Plan, paced: Option<&dyn Paced>, recorder: &Recorder) -> Self {
        let files = plan.tables.iter().flat_map(|table| &table.files);
        let mut devices: Vec<u64> =
            files.map(|file| file.device).filter(|device| *device != 0).collect();
        devices.sort_unstable();
        devices.dedup();
        let interface = || paced.and_then(Paced::interface);
        let mut decided = Self::decide(Path::new(SYSFS), plan.placement, interface, &devices);
        // Parsers are as many as there are processors, unless somebody wanted fewer.
        if plan.placement == Placement::Auto {
            decided.parsers.take_if(|node| plan.parsers > node.processors.len());
        }
        for (who, node) in [("streams", &decided.streams), ("parsers", &decided.parsers)] {
            if let Some(Node { number, near, .. }) = node {
                let notice = format!("{who} run on memory node {number}, {near}");
                recorder.record(Event::Notice { notice });
            }
        }
        decided
    }

    fn decide(
        sysfs: &Path,
        placement: Placement,
        interface: impl FnOnce() -> Option<String>,
        devices: &[u64],
    ) -> Self {
        let given = |node: Option<u32>| node_of(sysfs, node?, "as requested".into());
        match placement {
            Placement::None => Self::default(),
            Placement::Nodes { streams, parsers } => {
                Self { streams: given(streams), parsers: given(parsers) }
            }
            Placement::Auto if node_count(sysfs) < 2 => Self::default(),
            Placement::Auto => Self {
                streams: interface().and_then(|name| {
                    let folder = sysfs.join("class/net").join(&name);
                    node_of(sysfs, device_node(&folder)?, format!("near {name}"))
                }),
                parsers: match devices {
                    [device] => near_disk(sysfs, *device),
                    // Of several disks each parser reads all.
                    _ => None,
                },
            },
        }
    }

    /// A node that is asked for and not there.
    pub fn missing(placement: Placement) -> Option<u32> {
        let Placement::Nodes { streams, parsers } = placement else { return None };
        let is_missing = |node: &u32| node_of(Path::new(SYSFS), *node, String::new()).is_none();
        [streams, parsers].into_iter().flatten().find(is_missing)
    }

    /// Moves the calling thread, a stream.
    pub fn place_stream(&self) {
        place(self.streams.as_ref());
    }

    /// Moves the calling thread, a parser.
    pub fn place_parser(&self) {
        place(self.parsers.as_ref());
    }
}

fn place(node: Option<&Node>) {
    let Some(node) = node else { return };
    // Of those that the user left to this process.
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let mut set = CpuSet::new();
    let ours = node.processors.iter().filter(|processor| allowed.is_set(**processor));
    ours.for_each(|processor| set.set(*processor));
    if set.count() == 0 {
        return;
    }
    if let Err(error) = sched_setaffinity(None, &set) {
        tracing::debug!(%error, node = node.number, "a thread stays where it is");
    }
}

/// How many memory nodes there are.
fn node_count(sysfs: &Path) -> usize {
    let Ok(entries) = fs::read_dir(sysfs.join("devices/system/node")) else { return 0 };
    let is_node = |name: &str| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok());
    entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_node)).count()
}

fn node_of(sysfs: &Path, number: u32, near: String) -> Option<Node> {
    let path = sysfs.join(format!("devices/system/node/node{number}/cpulist"));
    let processors = processors(fs::read_to_string(path).ok()?.trim());
    (!processors.is_empty()).then_some(Node { number, processors, near })
}

/// `0-3,8-11` as numbers; those beyond what a set holds are left out.
fn processors(list: &str) -> Vec<usize> {
    let of_part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        Some(first..=last.min(CpuSet::MAX_CPU - 1))
    };
    list.split(',').filter_map(of_part).flatten().collect()
}

/// The node of a device, which its folder says, or one above it.
fn device_node(folder: &Path) -> Option<u32> {
    let mut folder: PathBuf = fs::canonicalize(folder).ok()?;
    loop {
        for name in ["numa_node", "device/numa_node"] {
            if let Ok(text) = fs::read_to_string(folder.join(name)) {
                // -1: the firmware does not say.
                return text.trim().parse().ok();
            }
        }
        if !folder.pop() || folder.ends_with("devices") {
            return None;
        }
    }
}

fn near_disk(sysfs: &Path, device: u64) -> Option<Node> {
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let folder = fs::canonicalize(sysfs.join("dev/block").join(number)).ok()?;
    let name = folder.file_name()?.to_string_lossy().into_owned();
    node_of(sysfs, device_node(&folder)?, format!("near {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes; an interface on the second, a disk with a partition on the first.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("devices/system/node/node0/cpulist", "0-1,4\n");
        write("devices/system/node/node1/cpulist", "2-3\n");
        write("devices/system/node/online", "0-1\n");
        write("devices/pci0/net/eth1/device/numa_node", "1\n");
        write("devices/pci0/nvme0/numa_node", "0\n");
        write("devices/pci0/nvme0/nvme0n1/nvme0n1p2/size", "7\n");
        write("devices/pci1/vda/numa_node", "-1\n");
        let link = |from: &str, to: &str| {
            let from = root.path().join(from);
            fs::create_dir_all(from.parent().expect("a parent")).expect("made");
            std::os::unix::fs::symlink(root.path().join(to), from).expect("linked");
        };
        link("class/net/eth1", "devices/pci0/net/eth1");
        link("dev/block/259:2", "devices/pci0/nvme0/nvme0n1/nvme0n1p2");
        link("dev/block/252:0", "devices/pci1/vda");
        root
    }

    #[test]
    fn streams_go_to_the_interface_and_parsers_to_the_disk() {
        let root = machine();
        let disk = rustix::fs::makedev(259, 2);
        let eth1 = || Some("eth1".to_owned());
        let found = Nodes::decide(root.path(), Placement::Auto, eth1, &[disk]);
        let streams = found.streams.expect("a node");
        assert_eq!(
            (streams.number, streams.processors, streams.near.as_str()),
            (1, vec![2, 3], "near eth1")
        );
        let parsers = found.parsers.expect("a node");
        assert_eq!((parsers.number, parsers.processors), (0, vec![0, 1, 4]));
        assert_eq!(parsers.near, "near nvme0n1p2");
        let unknown = rustix::fs::makedev(252, 0);
        let found = Nodes::decide(root.path(), Placement::Auto, || None, &[unknown]);
        assert!(found.streams.is_none() && found.parsers.is_none());
        let found = Nodes::decide(root.path(), Placement::None, eth1, &[disk]);
        assert!(found.streams.is_none() && found.parsers.is_none());
        let given = Placement::Nodes { streams: Some(0), parsers: Some(7) };
        let found = Nodes::decide(root.path(), given, || None, &[]);
        assert_eq!(found.streams.map(|node| node.number), Some(0));
        assert!(found.parsers.is_none(), "there is no such node");
    }

    #[test]
    fn a_thread_runs_where_it_is_placed() {
        let here = rustix::thread::sched_getaffinity(None).expect("known");
        let first = (0..CpuSet::MAX_CPU).find(|n| here.is_set(*n)).expect("one at least");
        let node = Node { number: 0, processors: vec![first], near: String::new() };
        std::thread::spawn(move || {
            place(Some(&node));
            let now = rustix::thread::sched_getaffinity(None).expect("known");
            assert_eq!((now.count(), now.is_set(first)), (1, true));
        })
        .join()
        .expect("placed");
    }
}
