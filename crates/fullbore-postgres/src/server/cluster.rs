//! One data folder, and the server running on it.
//!
//! By default a cluster listens on nothing but a unix socket inside a folder that only its user
//! can enter, so no password is needed and nobody else gets in.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::error::ServerError;
use super::files;
use super::installation::Installation;
use super::names::{percent_encode, quoted, quoted_list_item, socket_dir_for};
use super::postmaster::Postmaster;
use super::program::{read_tail, run};
use super::user::RunAs;

/// The server's log, inside the data folder.
pub const LOG_FILE: &str = "fullbore.log";
/// Our settings, included at the end of postgresql.conf so that they win over it.
const SETTINGS_FILE: &str = "fullbore.conf";
/// The only role of a new cluster.
const SUPERUSER: &str = "postgres";
/// Only a name where there is no TCP: each cluster has a socket folder of its own.
const DEFAULT_PORT: u16 = 5432;
/// Recovery after a crash in the middle of a large load replays WAL for minutes.
const START_TIMEOUT_S: u64 = 600;
/// A fast stop writes all of shared_buffers.
const STOP_TIMEOUT_S: u64 = 600;
const READY_POLL: Duration = Duration::from_millis(20);
/// A log longer than this is set aside at the next start.
const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;

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

/// What is decided once, when the data folder is made.
#[derive(Debug, Clone)]
pub struct InitOptions {
    /// Whether every page carries a checksum.
    pub data_checksums: bool,
    /// Whether initdb waits until the new files are on disk; tests need not.
    pub sync: bool,
}

impl Default for InitOptions {
    fn default() -> Self {
        Self { data_checksums: true, sync: true }
    }
}

/// How sessions are treated when the server stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Wait until they leave.
    Smart,
    /// End them, then write everything to disk.
    Fast,
    /// Leave at once, as in a crash; the next start recovers.
    Immediate,
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
        let run_as = RunAs::for_this_process()?;
        let data_dir = std::path::absolute(data_dir.into())
            .map_err(ServerError::io("find", "the data folder"))?;
        Ok(Self {
            installation: installation.reachable_by(&run_as)?,
            socket_dir: socket_dir_for(&data_dir),
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

    /// Makes the data folder: UTF-8, locale C (which compares bytes, the fastest order).
    ///
    /// It is made beside its final place and renamed, so that a data folder is whole or absent.
    pub fn init(&self, options: &InitOptions) -> Result<(), ServerError> {
        let occupied = fs::read_dir(&self.data_dir).is_ok_and(|mut e| e.next().is_some());
        if occupied {
            return Err(ServerError::AlreadyExists { data_dir: self.data_dir.clone() });
        }
        let parent = self.data_dir.parent().unwrap_or(Path::new("/"));
        files::create_dir_all(parent)?;
        self.require_entrance(parent)?;

        let mut unfinished = self.data_dir.clone().into_os_string();
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(ServerError::io("remove", &unfinished))?;
        }
        files::create_private_dir(&unfinished, &self.run_as)?;
        let made = self
            .run_initdb(&unfinished, options)
            .and_then(|()| include_settings(&unfinished))
            .and_then(|()| {
                fs::rename(&unfinished, &self.data_dir)
                    .map_err(ServerError::io("create", &self.data_dir))
            });
        if made.is_err() {
            let _ = fs::remove_dir_all(&unfinished);
        }
        made
    }

    fn run_initdb(&self, folder: &Path, options: &InitOptions) -> Result<(), ServerError> {
        let mut command = self.command("initdb");
        command.arg("-D").arg(folder).args(["-U", SUPERUSER]);
        command.args(["--encoding=UTF8", "--locale=C", "--auth-local=trust"]);
        match (options.data_checksums, self.installation.version.major) {
            (true, _) => command.arg("--data-checksums"),
            // On by default since 18, and no option to say no before.
            (false, 18..) => command.arg("--no-data-checksums"),
            (false, _) => &mut command,
        };
        if !options.sync {
            command.arg("--no-sync");
        }
        let Access::Tcp { password, .. } = &self.access else {
            command.arg("--auth-host=reject");
            return run(command).map(drop);
        };
        // Outside `folder`, which initdb wants empty. An argument would show in `ps`.
        let password_file = folder.with_extension("password");
        let _ = fs::remove_file(&password_file);
        files::write_private(&password_file, password.as_bytes())?;
        let done = self.run_as.give(&password_file).and_then(|()| {
            let mut file_argument = std::ffi::OsString::from("--pwfile=");
            file_argument.push(&password_file);
            command.arg("--auth-host=scram-sha-256").arg(file_argument);
            run(command).map(drop)
        });
        let _ = fs::remove_file(&password_file);
        done
    }

    /// Starts the server and waits until it accepts connections. A server that runs already is
    /// left as it is.
    pub fn start(&self) -> Result<(), ServerError> {
        if !self.is_initialized() {
            return Err(ServerError::NotInitialized { data_dir: self.data_dir.clone() });
        }
        self.check_major_version()?;
        if let Some(server) = self.postmaster() {
            return self.wait_until_ready(server);
        }
        self.require_entrance(self.data_dir.parent().unwrap_or(Path::new("/")))?;
        if self.socket_dir != self.data_dir {
            files::private_dir_in_public(&self.socket_dir, &self.run_as)?;
        }
        self.write_settings()?;
        self.set_log_aside()?;

        let mut command = self.command("pg_ctl");
        command.arg("start").arg("-D").arg(&self.data_dir);
        command.arg("-l").arg(self.log_file());
        command.args(["-s", "-w", "-t", &START_TIMEOUT_S.to_string()]);
        run(command).map(drop).map_err(|error| match error {
            ServerError::Program { output, .. } => self.start_failed(&output),
            other => other,
        })
    }

    /// Stops the server and waits until it is gone; nothing to do when it does not run.
    pub fn stop(&self, mode: StopMode) -> Result<(), ServerError> {
        // pg_ctl believes the pid file; we ask /proc first, so no stranger gets the signal.
        if self.postmaster().is_none() {
            return Ok(());
        }
        let mode = match mode {
            StopMode::Smart => "smart",
            StopMode::Fast => "fast",
            StopMode::Immediate => "immediate",
        };
        let mut command = self.command("pg_ctl");
        command.arg("stop").arg("-D").arg(&self.data_dir);
        command.args(["-m", mode, "-s", "-w", "-t", &STOP_TIMEOUT_S.to_string()]);
        match run(command) {
            // It may have gone by itself between the look and the signal.
            Err(_) if self.postmaster().is_none() => Ok(()),
            done => done.map(drop),
        }
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

    fn check_major_version(&self) -> Result<(), ServerError> {
        match self.data_major() {
            Some(data_major) if data_major != self.installation.version.major => {
                Err(ServerError::OtherMajorVersion {
                    data_dir: self.data_dir.clone(),
                    data_major,
                    installed: self.installation.version,
                })
            }
            _ => Ok(()),
        }
    }

    fn require_entrance(&self, folder: &Path) -> Result<(), ServerError> {
        if self.run_as.can_enter(folder) {
            return Ok(());
        }
        Err(ServerError::Unreachable { path: folder.into(), user: self.run_as.name().into() })
    }

    /// For a server that somebody else has just started, or that recovers.
    fn wait_until_ready(&self, mut server: Postmaster) -> Result<(), ServerError> {
        let give_up = Instant::now() + Duration::from_secs(START_TIMEOUT_S);
        while !server.ready {
            if Instant::now() > give_up {
                return Err(self.start_failed("it takes no connections yet"));
            }
            thread::sleep(READY_POLL);
            server =
                self.postmaster().ok_or_else(|| self.start_failed("it ended while starting"))?;
        }
        Ok(())
    }

    fn write_settings(&self) -> Result<(), ServerError> {
        let listen = match &self.access {
            Access::PrivateSocket => "",
            Access::Tcp { address, .. } => address,
        };
        let mut text =
            String::from("# Written by Fullbore at every start: changes here are lost.\n");
        let own = [
            ("listen_addresses", listen.to_owned()),
            ("port", self.port.to_string()),
            ("unix_socket_directories", quoted_list_item(&self.socket_dir)),
            ("unix_socket_permissions", "0700".into()),
        ];
        let own = own.iter().map(|(name, value)| (*name, value));
        let given = self.settings.iter().map(|(name, value)| (name.as_str(), value));
        for (name, value) in own.chain(given) {
            text += &format!("{name} = {}\n", quoted(value));
        }
        let path = self.data_dir.join(SETTINGS_FILE);
        let _ = fs::remove_file(&path);
        files::write_private(&path, text.as_bytes())?;
        self.run_as.give(&path)
    }

    fn set_log_aside(&self) -> Result<(), ServerError> {
        let log = self.log_file();
        match fs::metadata(&log) {
            Ok(meta) if meta.len() > LOG_BYTES_MAX => {
                let old = log.with_extension("log.old");
                fs::rename(&log, old).map_err(ServerError::io("rename", log))
            }
            _ => Ok(()),
        }
    }

    fn start_failed(&self, reason: &str) -> ServerError {
        let tail = read_tail(&self.log_file()).unwrap_or_default();
        ServerError::StartFailed {
            data_dir: self.data_dir.clone(),
            log_tail: format!("{}\n{tail}", reason.trim()).trim().to_owned(),
        }
    }
}

fn include_settings(folder: &Path) -> Result<(), ServerError> {
    let path = folder.join("postgresql.conf");
    OpenOptions::new()
        .append(true)
        .open(&path)
        .and_then(|mut file| writeln!(file, "\ninclude_if_exists = '{SETTINGS_FILE}'"))
        .map_err(ServerError::io("write", path))
}
