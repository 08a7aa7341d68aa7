//! Reading `postmaster.pid`, and telling whether its process is still that server.
//!
//! The file outlives a killed server, and process ids are used again: before a server is called
//! running, or a signal goes out, /proc has to agree that the process is PostgreSQL and lives in
//! this data folder.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The fifth line of the file: the folder of its unix socket.
const SOCKET_LINE: usize = 4;
/// The eighth line of the file, once connections are accepted.
const STATUS_READY: &str = "ready";
const STATUS_LINE: usize = 7;

/// A server's main process, known to be alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postmaster {
    /// Its process id.
    pub pid: u32,
    /// Whether it accepts connections; it does not while it recovers or stops.
    pub ready: bool,
    /// Where its unix socket is, once it has one.
    pub socket_dir: Option<PathBuf>,
}

impl Postmaster {
    /// The server running on `data_dir`, if there is one.
    pub fn of(data_dir: &Path) -> Option<Self> {
        let text = fs::read_to_string(data_dir.join("postmaster.pid")).ok()?;
        let found = parse(&text)?;
        is_server_of(found.pid, data_dir).then_some(found)
    }
}

fn parse(text: &str) -> Option<Postmaster> {
    let lines: Vec<&str> = text.lines().collect();
    let line = |number: usize| lines.get(number).map_or("", |line| line.trim());
    let socket_dir = Some(line(SOCKET_LINE)).filter(|dir| dir.starts_with('/')).map(PathBuf::from);
    Some(Postmaster {
        pid: line(0).parse().ok()?,
        ready: line(STATUS_LINE) == STATUS_READY,
        socket_dir,
    })
}

fn is_server_of(pid: u32, data_dir: &Path) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let Ok(data_dir) = data_dir.canonicalize() else { return false };
    let cwd = match fs::read_link(process.join("cwd")) {
        Ok(cwd) => cwd,
        // Root of a container may not follow links of another user's process, as it lacks the right
        // to trace it: what everybody may read has to do.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let is_owners = fs::metadata(&data_dir)
                .is_ok_and(|folder| uid_of(&process).is_some_and(|uid| uid == folder.uid()));
            let command = fs::read(process.join("cmdline")).unwrap_or_default();
            return is_owners && serves(&command, &data_dir);
        }
        Err(_) => return false,
    };
    // The program may have been replaced on disk since: "/.../postgres (deleted)".
    let is_postgres = fs::read_link(process.join("exe")).is_ok_and(|program| {
        program.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"postgres"))
    });
    // A server changes into its data folder first thing, and stays.
    is_postgres && cwd == data_dir
}

/// The user that a process acts as.
fn uid_of(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    ids.split_whitespace().nth(1)?.parse().ok()
}

/// Whether this is the command line of a server on the folder, as `pg_ctl` starts it.
fn serves(command: &[u8], data_dir: &Path) -> bool {
    let words: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
    let is_postgres = words.first().is_some_and(|program| program.ends_with(b"postgres"));
    let folder = words.windows(2).find(|pair| pair[0] == b"-D").map(|pair| pair[1]);
    let folder = folder.map(|folder| Path::new(OsStr::from_bytes(folder)).to_path_buf());
    is_postgres && folder.and_then(|folder| folder.canonicalize().ok()).as_deref() == Some(data_dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_file_says_who_and_whether_ready() {
        let file = "4711\n/data\n1700000000\n5432\n/data\n\n  1234  5678\nready   \n";
        let told = |text: &str| parse(text).map(|found| (found.pid, found.ready));
        assert_eq!(told(file), Some((4711, true)));
        assert_eq!(parse(file).and_then(|found| found.socket_dir), Some("/data".into()));
        assert_eq!(told(&file.replace("ready", "starting")), Some((4711, false)));
        assert_eq!(told("4711\n/data\n"), Some((4711, false)), "half written");
        assert_eq!(told(""), None);
    }

    #[test]
    fn a_server_is_known_by_its_command_line() {
        let folder = std::env::temp_dir().canonicalize().unwrap();
        let command = |program: &str, folder: &Path| {
            [program.as_bytes(), b"-D", folder.as_os_str().as_bytes(), b""].join(&0)
        };
        assert!(serves(&command("/opt/bin/postgres", &folder), &folder));
        assert!(serves(&command("postgres", &folder.join(".")), &folder));
        assert!(!serves(&command("/bin/sh", &folder), &folder));
        assert!(!serves(&command("postgres", Path::new("/")), &folder));
        assert!(!serves(b"postgres", &folder) && !serves(b"", &folder));
        let own = Path::new("/proc/self");
        assert_eq!(uid_of(own), Some(rustix::process::geteuid().as_raw()));
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
