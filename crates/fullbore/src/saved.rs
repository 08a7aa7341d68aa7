//! The job of a run, kept in the run's folder, so that `fullbore runs resume` needs only its id.
//!
//! Never in the database: a user who can write there could make a client load other local files.

use std::path::{Path, PathBuf};

use fullbore_databases::Database;
use fullbore_load::job::Job;
use fullbore_load::plan::Plan;
use fullbore_postgres::Server;
use fullbore_read::error::{Error, Result};
use fullbore_record::make_private;
use serde::{Deserialize, Serialize};

use crate::destinations::connection;

#[derive(Debug, Serialize, Deserialize)]
pub struct SavedJob {
    pub job: Job,
    pub reject_dir: PathBuf,
    /// Settings of the connection that are not kept, by name: they may hold a secret.
    #[serde(default)]
    pub left_out: Vec<String>,
}

fn path(run_dir: &Path) -> PathBuf {
    run_dir.join("job.json")
}

/// The way to a destination, without what may be a secret.
#[derive(Debug, Default)]
pub struct Way {
    pub to: Option<String>,
    /// What of it is not kept, by name.
    pub left_out: Vec<String>,
}

impl Way {
    pub fn to_server(server: Option<&Server>) -> Self {
        let kept = server.map(Server::kept);
        Self {
            to: kept.map(|kept| kept.url.clone()),
            left_out: kept.map_or_else(Vec::new, |kept| kept.left_out.clone()),
        }
    }

    pub fn to_database(database: &Database) -> Self {
        let place = database.place();
        Self { to: Some(place.told()), left_out: place.left_out() }
    }
}

/// Saves a job with absolute paths, and the way to its destination.
pub fn save(plan: &Plan, job: &Job, way: Way, reject_dir: &Path) -> Result<()> {
    let mut job = job.clone().with_absolute_paths()?;
    // Another environment may name another server.
    job.to = way.to;
    write(&plan.run_dir, job, reject_dir, way.left_out)
}

fn write(run_dir: &Path, job: Job, reject_dir: &Path, left_out: Vec<String>) -> Result<()> {
    let reject_dir = std::path::absolute(reject_dir)
        .map_err(|source| Error::Read { path: reject_dir.to_owned(), source })?;
    // What is kept is text.
    if reject_dir.to_str().is_none() {
        return Err(Error::usage_with_hint(
            format!("the name of the reject directory {} is not valid UTF-8", reject_dir.display()),
            "set another directory with --reject-dir",
        ));
    }
    let saved = SavedJob { job, reject_dir, left_out };
    let text = serde_json::to_vec_pretty(&saved).expect("plain data becomes JSON");
    let path = path(run_dir);
    make_private(run_dir)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|source| Error::Write { path, source })
}

/// Saves the job of a load that an engine runs, as [`save`] does that of a run: its sources are on its hosts.
pub fn save_driven(run_dir: &Path, mut job: Job, reject_dir: &Path) -> Result<()> {
    let mut left_out = Vec::new();
    if job.to.is_some() {
        let kept = connection(job.to.as_deref())?.kept();
        (job.to, left_out) = (Some(kept.url), kept.left_out);
    }
    write(run_dir, job, reject_dir, left_out)
}

/// Reads the job of a run back.
pub fn read(run_dir: &Path) -> Result<SavedJob> {
    let path = path(run_dir);
    let text = std::fs::read(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
    serde_json::from_slice(&text).map_err(|error| {
        Error::usage_with_hint(
            format!("{} can't be read: {error}", path.display()),
            "run the original command again with --resume",
        )
    })
}
