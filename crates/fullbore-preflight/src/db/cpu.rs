//! CPU time of a server that runs on this machine: of all its processes, those that have ended
//! included.

use std::fs;

use fullbore_pgwire::{ConnectionError, Session};
use fullbore_postgres::local::backend_here;
use serde::Serialize;

/// A server's first process, whose children all others are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerCpu {
    postmaster: u32,
}

impl ServerCpu {
    /// `None` where the server is elsewhere, or can't be seen from here, as in a container.
    pub fn find(session: &mut Session) -> Result<Option<Self>, ConnectionError> {
        let first = backend_here(session)?.and_then(|pid| Process::read(pid.cast_unsigned()));
        Ok(first.map(|backend| Self { postmaster: backend.parent }))
    }

    /// Seconds of all its processes so far.
    pub fn seconds(&self) -> f64 {
        let Some(first) = Process::read(self.postmaster) else { return 0.0 };
        let children = self.children().into_iter().filter_map(Process::read);
        let living: u64 = children
            .filter(|process| process.parent == self.postmaster)
            .map(|process| process.own_ticks + process.waited_ticks)
            .sum();
        let ticks = first.own_ticks + first.waited_ticks + living;
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }

    fn children(&self) -> Vec<u32> {
        // Each thread has those that it began itself.
        let threads = fs::read_dir(format!("/proc/{}/task", self.postmaster));
        let threads = threads.into_iter().flatten().flatten();
        let told: Option<String> =
            threads.map(|thread| fs::read_to_string(thread.path().join("children")).ok()).collect();
        if let Some(text) = told.filter(|text| !text.is_empty()) {
            return text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        }
        // Kernels may lack that file.
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }
}

struct Process {
    parent: u32,
    own_ticks: u64,
    /// Of children that have ended.
    waited_ticks: u64,
}

impl Process {
    /// Reads its `stat`: fields 4 and 14 to 17, after a name in parentheses that may hold anything.
    fn read(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            own_ticks: ticks(11)? + ticks(12)?,
            waited_ticks: ticks(13)? + ticks(14)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_children_is_read() {
        let here = std::process::id();
        let parent = Process::read(here).expect("this process").parent;
        assert_eq!(parent, std::os::unix::process::parent_id());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        let server = ServerCpu { postmaster: here };
        assert!(server.children().contains(&child.id()));
        let before = server.seconds();
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
        assert!(server.seconds() >= before, "what has ended still counts");
        assert!(Process::read(0).is_none());
    }
}
