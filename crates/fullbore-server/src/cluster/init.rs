//! Making a data folder.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{Access, Cluster, SETTINGS_FILE, SUPERUSER};
use crate::error::ServerError;
use crate::files;
use crate::program::run;

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

impl Cluster {
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
}

fn include_settings(folder: &Path) -> Result<(), ServerError> {
    let path = folder.join("postgresql.conf");
    OpenOptions::new()
        .append(true)
        .open(&path)
        .and_then(|mut file| writeln!(file, "\ninclude_if_exists = '{SETTINGS_FILE}'"))
        .map_err(ServerError::io("write", path))
}
