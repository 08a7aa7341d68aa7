//! The operating system user of a server.
//!
//! PostgreSQL refuses to start as root, since an attacker in the server would control the machine. An
//! ordinary user runs the server directly; root, as in most containers, runs it as a dedicated system
//! user.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use fullbore_pgwire::environment::passwd_entry;

use super::error::ServerError;

/// The user made for servers that root starts.
const OWN_USER: &str = "fullbore";
/// Who else will do where no user can be made (a read-only /etc, no `useradd`).
const FALLBACK_USERS: [&str; 2] = ["postgres", "nobody"];

/// The user that PostgreSQL's programs are run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunAs {
    /// Who we are: an ordinary user.
    Ourselves,
    /// We are root: this user, without any supplementary group.
    User {
        /// The login name.
        name: String,
        /// The user's id.
        uid: u32,
        /// The user's own group.
        gid: u32,
    },
}

impl RunAs {
    /// Decides by who owns the data folder, where there is one and we are root: it may be of a machine
    /// on which users had other numbers. Else as [`Self::for_this_process`].
    pub fn for_data(data_dir: &Path) -> Result<Self, ServerError> {
        match fs::metadata(data_dir) {
            Ok(folder) if running_as_root() && folder.uid() != 0 => {
                let (uid, gid) = (folder.uid(), folder.gid());
                Ok(Self::User { name: name_of(uid), uid, gid })
            }
            _ => Self::for_this_process(),
        }
    }

    /// Decides by who we are; as root, makes the user `fullbore` if it is not there yet.
    pub fn for_this_process() -> Result<Self, ServerError> {
        if !running_as_root() {
            return Ok(Self::Ourselves);
        }
        if let Some(user) = look_up(OWN_USER) {
            return Ok(user);
        }
        // Failing to make a user is no error yet: the fallbacks do as well, only less tidily.
        // Two of us may race here; the loser's useradd fails and finds the winner's user below.
        let _ = Command::new("useradd")
            .args(["--system", "--no-create-home", "--home-dir", "/nonexistent"])
            .args(["--shell", "/usr/sbin/nologin", OWN_USER])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        look_up(OWN_USER)
            .or_else(|| FALLBACK_USERS.iter().find_map(|name| look_up(name)))
            .ok_or(ServerError::NoServerUser)
    }

    /// The user's name, for messages.
    pub fn name(&self) -> &str {
        match self {
            Self::Ourselves => "the current user",
            Self::User { name, .. } => name,
        }
    }

    /// A command that will run as this user, in a folder that everybody can enter, undisturbed
    /// by the caller's `PG*` variables.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Self::User { uid, gid, .. } = self {
            // The standard library also drops root's supplementary groups when it sets a uid.
            command.uid(*uid).gid(*gid);
        }
        command.current_dir("/").stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PG") {
                command.env_remove(name);
            }
        }
        // Messages are read by us (postmaster.pid, versions) and searched for by people.
        command.env("LC_ALL", "C");
        command
    }

    /// Makes the user own `path`; nothing to do when the user is us.
    pub fn give(&self, path: &Path) -> Result<(), ServerError> {
        match self {
            Self::Ourselves => Ok(()),
            Self::User { uid, gid, .. } => std::os::unix::fs::lchown(path, Some(*uid), Some(*gid))
                .map_err(ServerError::io("change the owner of", path)),
        }
    }

    /// The id that files of this user have.
    pub fn uid(&self) -> u32 {
        match self {
            Self::Ourselves => rustix::process::geteuid().as_raw(),
            Self::User { uid, .. } => *uid,
        }
    }

    /// Whether the user may enter `dir` and every folder above it. Looks at mode bits only: an
    /// access list may allow more, and then the programs themselves have the last word.
    pub fn can_enter(&self, dir: &Path) -> bool {
        let Self::User { uid, gid, .. } = self else {
            return true;
        };
        let Ok(dir) = fs::canonicalize(dir) else {
            return false;
        };
        dir.ancestors().all(|folder| {
            fs::metadata(folder).is_ok_and(|meta| {
                let bit = if meta.uid() == *uid {
                    0o100
                } else if meta.gid() == *gid {
                    0o010
                } else {
                    0o001
                };
                meta.mode() & bit != 0
            })
        })
    }
}

/// Whether this process is root's.
pub fn running_as_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Reads /etc/passwd itself: the names asked for are system users, which live nowhere else.
fn look_up(wanted: &str) -> Option<RunAs> {
    parse_passwd(&fs::read_to_string("/etc/passwd").ok()?, wanted)
}

/// A user's name, or the number where nobody has it.
fn name_of(uid: u32) -> String {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = passwd_entry(&passwd, uid).map(|(name, _)| name);
    named.unwrap_or_else(|| format!("with the number {uid}"))
}

fn parse_passwd(passwd: &str, wanted: &str) -> Option<RunAs> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid: u32 = fields.nth(1)?.parse().ok()?;
        let gid: u32 = fields.next()?.parse().ok()?;
        // A second name for root would not help.
        (name == wanted && uid != 0).then(|| RunAs::User { name: name.into(), uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwd_lines_are_read() {
        let text =
            "root:x:0:0:root:/root:/bin/bash\n+::::::\nfullbore:x:998:997::/nonexistent:/x\n";
        assert_eq!(
            parse_passwd(text, "fullbore"),
            Some(RunAs::User { name: "fullbore".into(), uid: 998, gid: 997 })
        );
        assert_eq!(parse_passwd(text, "root"), None, "root is never the answer");
        assert_eq!(parse_passwd(text, "full"), None);
    }

    #[test]
    fn a_private_folder_can_not_be_entered_by_another() {
        let stranger = RunAs::User { name: "stranger".into(), uid: 54_321, gid: 54_321 };
        assert!(stranger.can_enter(Path::new("/tmp")));
        assert!(!stranger.can_enter(Path::new("/no/such/folder")));
        assert!(RunAs::Ourselves.can_enter(Path::new("/no/such/folder")));
    }
}
