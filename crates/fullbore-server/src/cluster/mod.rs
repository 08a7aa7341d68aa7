//! One data folder, and the server running on it.
//!
//! By default a cluster listens on nothing but a unix socket inside a folder that only its user
//! can enter, so no password is needed and nobody else gets in.
//!
//! How a data folder is made is in `init`; how its server is started and stopped, in `running`.

mod init;
mod running;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::ServerError;
use super::installation::Installation;
use super::names::{percent_encode, socket_dir_for};
use super::postmaster::Postmaster;
use super::user::RunAs;
pub use crate::error::LOG_FILE;
pub use init::InitOptions;
pub use running::StopMode;

/// Our settings, included at the end of postgresql.conf so that they win over it.
const SETTINGS_FILE: &str = "fullbore.conf";
/// The only role of a new cluster.
pub const SUPERUSER: &str = "postgres";
/// Only a name where there is no TCP: each cluster has a socket folder of its own.
const DEFAULT_PORT: u16 = 5432;

/// Who can connect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Access {
    /// Only through the private unix socket, without a password.
    #[default]
    PrivateSocket,
    /// Over TCP as well, with a password (SCRAM).
    Tcp {
        /// What to listen on: `127.0.0.1`.
        address: String,
        /// The superuser's password.
        password: String,
    },
}

/// A data folder with its programs.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The programs that run it.
    pub installation: Installation,
    /// The data folder.
    pub data_dir: PathBuf,
    /// Where its unix socket is.
    pub socket_dir: PathBuf,
    /// The TCP port, and the number in the socket's name.
    pub port: u16,
    /// Who can connect.
    pub access: Access,
    /// Settings of postgresql.conf; of two of the same name the later one counts.
    pub settings: Vec<(String, String)>,
    run_as: RunAs,
}

impl Cluster {
    /// A cluster in `data_dir`, which may exist or be made by [`Cluster::init`]. Where the
    /// server's user can't reach the installation, a copy of it takes its place.
    pub fn new(
        installation: Installation,
        data_dir: impl Into<PathBuf>,
    ) -> Result<Self, ServerError> {
        let data_dir = std::path::absolute(data_dir.into())
            .map_err(ServerError::io("find", "the data folder"))?;
        let run_as = RunAs::for_data(&data_dir)?;
        // One that runs was started in another environment, perhaps.
        let socket_dir = Postmaster::of(&data_dir).and_then(|server| server.socket_dir);
        Ok(Self {
            installation: installation.reachable_by(&run_as)?,
            socket_dir: socket_dir.unwrap_or_else(|| socket_dir_for(&data_dir)),
            data_dir,
            port: DEFAULT_PORT,
            access: Access::default(),
            settings: Vec::new(),
            run_as,
        })
    }

    /// The user that the server runs as.
    pub fn run_as(&self) -> &RunAs {
        &self.run_as
    }

    /// Whether the data folder holds a database.
    pub fn is_initialized(&self) -> bool {
        self.data_dir.join("PG_VERSION").is_file()
    }

    /// The major version that wrote the data folder.
    pub fn data_major(&self) -> Option<u32> {
        let text = fs::read_to_string(self.data_dir.join("PG_VERSION")).ok()?;
        text.trim().split('.').next()?.parse().ok()
    }

    /// Whether this data folder's server runs.
    pub fn is_running(&self) -> bool {
        self.postmaster().is_some()
    }

    /// The server's process id, if it runs.
    pub fn pid(&self) -> Option<u32> {
        self.postmaster().map(|server| server.pid)
    }

    /// The connection URL of one of its databases, over the unix socket.
    pub fn url(&self, database: &str) -> String {
        format!(
            "postgresql://{SUPERUSER}@/{}?host={}&port={}",
            percent_encode(database.as_bytes(), false),
            percent_encode(self.socket_dir.as_os_str().as_encoded_bytes(), true),
            self.port
        )
    }

    /// The connection URL over TCP, password included, where the cluster listens there.
    pub fn tcp_url(&self, database: &str) -> Option<String> {
        let Access::Tcp { address, password } = &self.access else {
            return None;
        };
        Some(format!(
            "postgresql://{SUPERUSER}:{}@{address}:{}/{}",
            percent_encode(password.as_bytes(), false),
            self.port,
            percent_encode(database.as_bytes(), false),
        ))
    }

    /// The server's log.
    pub fn log_file(&self) -> PathBuf {
        self.data_dir.join(LOG_FILE)
    }

    /// One of the installation's programs, to be run as the server's user.
    pub fn command(&self, program: &str) -> Command {
        self.run_as.command(&self.installation.program(program))
    }

    fn postmaster(&self) -> Option<Postmaster> {
        Postmaster::of(&self.data_dir)
    }

    fn require_entrance(&self, folder: &Path) -> Result<(), ServerError> {
        if self.run_as.can_enter(folder) {
            return Ok(());
        }
        Err(ServerError::Unreachable { path: folder.into(), user: self.run_as.name().into() })
    }
}
