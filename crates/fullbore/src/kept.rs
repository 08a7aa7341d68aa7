//! What is known of jobs, kept in the state folder until it is found out again: a file for each job, in it one entry
//! for each server and machine.

use std::path::{Path, PathBuf};

use fullbore_load::job::Job;
use fullbore_postgres::Server;
use fullbore_read::error::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::state::runs_dir;

/// The way to the server without a password, or the other destination.
pub fn target_of(job: &Job, server: Option<&Server>) -> String {
    match server {
        Some(server) => server.options().redacted(),
        None => job.to.clone().unwrap_or_default(),
    }
}

/// This machine's name.
pub fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Its processors, as far as this process may use them.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn path_of(kind: &str, job: &str) -> Result<PathBuf> {
    let runs = runs_dir()?;
    let folder = runs.parent().unwrap_or(&runs).join(kind);
    Ok(folder.join(format!("{job}.json")))
}

/// The entries of a kind that a job has. What can't be read any more is found out anew.
pub fn all<T: DeserializeOwned>(kind: &str, job: &str) -> Result<Vec<T>> {
    let Ok(text) = std::fs::read(path_of(kind, job)?) else { return Ok(Vec::new()) };
    Ok(serde_json::from_slice(&text).unwrap_or_default())
}

/// Keeps an entry in place of those that are of the same server and machine; where.
pub fn keep<T: Serialize + DeserializeOwned>(
    kind: &str,
    job: &str,
    entry: T,
    is_same_place: impl Fn(&T) -> bool,
) -> Result<PathBuf> {
    let path = path_of(kind, job)?;
    let mut all: Vec<T> = all(kind, job)?;
    all.retain(|known| !is_same_place(known));
    all.push(entry);
    let text = serde_json::to_vec_pretty(&all).expect("plain data becomes JSON");
    let part = path.with_extension(format!("{}.tmp", std::process::id()));
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))
        .and_then(|()| std::fs::write(&part, text))
        .and_then(|()| std::fs::rename(&part, &path))
        .map_err(|source| Error::Write { path: path.clone(), source })?;
    Ok(path)
}
