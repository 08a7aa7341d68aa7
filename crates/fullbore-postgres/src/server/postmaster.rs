//! Reading `postmaster.pid`, and telling whether its process is still that server.
//!
//! The file outlives a killed server, and process ids are used again: before a server is called
//! running, or a signal goes out, /proc has to agree that the process is PostgreSQL and lives in
//! this data folder.

use std::fs;
use std::path::Path;

/// The eighth line of the file, once connections are accepted.
const STATUS_READY: &str = "ready";
const STATUS_LINE: usize = 7;

/// A server's main process, known to be alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Postmaster {
    /// Its process id.
    pub pid: u32,
    /// Whether it accepts connections; it does not while it recovers or stops.
    pub ready: bool,
}

impl Postmaster {
    /// The server running on `data_dir`, if there is one.
    pub fn of(data_dir: &Path) -> Option<Self> {
        let text = fs::read_to_string(data_dir.join("postmaster.pid")).ok()?;
        let (pid, ready) = parse(&text)?;
        is_server_of(pid, data_dir).then_some(Self { pid, ready })
    }
}

fn parse(text: &str) -> Option<(u32, bool)> {
    let mut lines = text.lines();
    let pid = lines.next()?.trim().parse().ok()?;
    let status = lines.nth(STATUS_LINE - 1).unwrap_or("");
    Some((pid, status.trim() == STATUS_READY))
}

fn is_server_of(pid: u32, data_dir: &Path) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let (Ok(cwd), Ok(data_dir)) = (fs::read_link(process.join("cwd")), data_dir.canonicalize())
    else {
        return false;
    };
    // The program may have been replaced on disk since: "/.../postgres (deleted)".
    let is_postgres = fs::read_link(process.join("exe")).is_ok_and(|program| {
        program.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"postgres"))
    });
    // A server changes into its data folder first thing, and stays.
    is_postgres && cwd == data_dir
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_file_says_who_and_whether_ready() {
        let file = "4711\n/data\n1700000000\n5432\n/data\n\n  1234  5678\nready   \n";
        assert_eq!(parse(file), Some((4711, true)));
        assert_eq!(parse(&file.replace("ready", "starting")), Some((4711, false)));
        assert_eq!(parse("4711\n/data\n"), Some((4711, false)), "half written");
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_process_id_used_again_is_not_the_server() {
        let folder = std::env::temp_dir().join(format!("fullbore-pid-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        // This test's own process is alive, but no server.
        fs::write(folder.join("postmaster.pid"), format!("{}\n", std::process::id())).unwrap();
        let found = Postmaster::of(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, None);
    }
}
