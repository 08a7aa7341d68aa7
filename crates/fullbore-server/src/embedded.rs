//! The user's default server: what a load goes to when nothing else is named.
//!
//! Its data live in one folder of the user's; it is made at the first load, started when needed
//! and left running, so that `fullbore psql` and other programs find the rows.

use std::env;
use std::path::{Path, PathBuf};

use super::cluster::{Cluster, InitOptions, StopMode};
use super::error::ServerError;
use super::extension;
use super::files;
use super::installation::Installation;
use super::tuning::{self, Machine};
use super::user::running_as_root;
use super::version::Version;

/// Names the folder of the embedded server, instead of the usual one.
pub const HOME_VARIABLE: &str = "FULLBORE_HOME";
/// Root's has to be where the user that root's server runs as can pass through.
const HOME_OF_ROOT: &str = "/var/lib/fullbore";
const DATA_DIR: &str = "data";
const LOCK_FILE: &str = "lock";

/// The embedded server of this user.
#[derive(Debug, Clone)]
pub struct Embedded {
    home: PathBuf,
    cluster: Cluster,
}

/// What the embedded server is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddedStatus {
    /// Its process id, if it runs.
    pub pid: Option<u32>,
    /// Whether the data folder was made yet.
    pub initialized: bool,
    /// The major version that wrote the data.
    pub data_major: Option<u32>,
    /// The version of the programs found.
    pub installed: Version,
    /// The data folder.
    pub data_dir: PathBuf,
    /// The server's log.
    pub log_file: PathBuf,
}

impl Embedded {
    /// Finds the programs and the folder; touches nothing yet.
    pub fn open() -> Result<Self, ServerError> {
        let installation = Installation::find_embedded()?;
        extension::install_carried(&installation);
        Self::open_at(default_home()?, installation)
    }

    /// The same with programs and folder named.
    pub fn open_at(
        home: impl Into<PathBuf>,
        installation: Installation,
    ) -> Result<Self, ServerError> {
        let home = home.into();
        let mut cluster = Cluster::new(installation, home.join(DATA_DIR))?;
        cluster.settings = tuning::for_loading(&Machine::look(&cluster.data_dir));
        Ok(Self { home, cluster })
    }

    /// Makes the data folder if it is not there, and starts the server if it does not run. Says
    /// whether it had to be started. Two at once is fine: one waits for the other.
    pub fn ensure_started(&self) -> Result<bool, ServerError> {
        let _lock = files::lock(&self.lock_file())?;
        if !self.cluster.is_initialized() {
            self.cluster.init(&InitOptions::default())?;
        }
        let was_running = self.cluster.is_running();
        self.cluster.start()?;
        if !was_running {
            extension::create(&self.cluster);
        }
        Ok(!was_running)
    }

    /// Stops the server in good order: sessions are ended, everything is written.
    pub fn stop(&self) -> Result<(), ServerError> {
        if !self.home.is_dir() {
            return Ok(());
        }
        let _lock = files::lock(&self.lock_file())?;
        self.cluster.stop(StopMode::Fast)
    }

    /// What it is doing now.
    pub fn status(&self) -> EmbeddedStatus {
        EmbeddedStatus {
            pid: self.cluster.pid(),
            initialized: self.cluster.is_initialized(),
            data_major: self.cluster.data_major(),
            installed: self.cluster.installation.version,
            data_dir: self.cluster.data_dir.clone(),
            log_file: self.cluster.log_file(),
        }
    }

    /// The connection URL of one of its databases; a new server has `postgres`.
    pub fn url(&self, database: &str) -> String {
        self.cluster.url(database)
    }

    /// The cluster under it.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The folder of everything Fullbore keeps for this user.
    pub fn home(&self) -> &Path {
        &self.home
    }

    fn lock_file(&self) -> PathBuf {
        self.home.join(LOCK_FILE)
    }
}

/// `$FULLBORE_HOME`, else root's folder, else `$XDG_DATA_HOME/fullbore`, else
/// `~/.local/share/fullbore`.
pub fn default_home() -> Result<PathBuf, ServerError> {
    let home = home_from(|name| env::var_os(name).map(PathBuf::from), running_as_root())?;
    std::path::absolute(&home).map_err(ServerError::io("find", home))
}

fn home_from(
    variable: impl Fn(&str) -> Option<PathBuf>,
    root: bool,
) -> Result<PathBuf, ServerError> {
    let variable = |name: &str| variable(name).filter(|value| !value.as_os_str().is_empty());
    if let Some(home) = variable(HOME_VARIABLE) {
        return Ok(home);
    }
    if root {
        return Ok(HOME_OF_ROOT.into());
    }
    // The XDG specification says to ignore relative paths.
    if let Some(data) = variable("XDG_DATA_HOME").filter(|path| path.is_absolute()) {
        return Ok(data.join("fullbore"));
    }
    variable("HOME").map(|home| home.join(".local/share/fullbore")).ok_or(ServerError::NoHome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_found_in_order() {
        let home = |set: &[(&str, &str)], root| {
            let set: Vec<(String, PathBuf)> =
                set.iter().map(|(n, v)| ((*n).into(), v.into())).collect();
            home_from(|name| set.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()), root)
                .map(|path| path.display().to_string())
        };
        let all = [("FULLBORE_HOME", "/f"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(home(&all, false).unwrap(), "/f");
        assert_eq!(home(&all, true).unwrap(), "/f");
        assert_eq!(home(&all[1..], false).unwrap(), "/x/fullbore");
        assert_eq!(home(&all[1..], true).unwrap(), "/var/lib/fullbore");
        assert_eq!(home(&all[2..], false).unwrap(), "/h/.local/share/fullbore");
        assert!(matches!(home(&[], false), Err(ServerError::NoHome)));
    }
}
