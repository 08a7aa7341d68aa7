//! Starting and stopping the server on a data folder.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::{Access, Cluster, SETTINGS_FILE};
use crate::error::ServerError;
use crate::files;
use crate::names::{quoted, quoted_list_item};
use crate::postmaster::Postmaster;
use crate::program::{read_tail, run};

/// Recovery after a crash in the middle of a large load replays WAL for minutes.
const START_TIMEOUT_S: u64 = 600;
/// A fast stop writes all of shared_buffers.
const STOP_TIMEOUT_S: u64 = 600;
const READY_POLL: Duration = Duration::from_millis(20);
/// A log longer than this is set aside at the next start.
const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;

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

impl Cluster {
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
