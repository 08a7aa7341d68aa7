//! Data folders that were made once: a copy takes a tenth of initdb's time. Copies of one have its
//! `system_identifier` in common, by which nothing here tells servers apart.

use std::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use fullbore_server::{Cluster, InitOptions};

use crate::copies::make_once;
use crate::servers::{TestServer, checkout};

/// Makes a cluster's data folder as [`Cluster::init`] does.
pub fn init(
    server: TestServer,
    cluster: &Cluster,
    options: &InitOptions,
) -> Result<(), Box<dyn Error>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let program = fs::metadata(cluster.installation.program("postgres"))?;
    let name = format!(
        "{server:?}-{:x}-{:x}-{}-{}",
        program.mtime(),
        program.len(),
        if options.data_checksums { "checksums" } else { "plain" },
        cluster.run_as().uid(),
    );
    let template = checkout().join(".cache/clusters").join(name);
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    make_once(&template, |unfinished| {
        // Made where the server's user may go, and kept where it need not.
        cluster.init(options)?;
        copy(&cluster.data_dir, unfinished)
    })?;
    drop(guard);
    match cluster.is_initialized() {
        true => Ok(()),
        false => copy(&template, &cluster.data_dir),
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    let output = Command::new("cp").args(["-R", "-p"]).args([from, to]).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().into()),
    }
}
