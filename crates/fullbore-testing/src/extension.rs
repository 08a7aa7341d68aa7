//! The server's extension in the servers that tests run.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::command::run_fullbore;
use crate::servers::{Missing, TestServer, checkout};

/// What says that a machine can't build it, rather than that it can't be built.
const NO_MEANS: [&str; 3] =
    ["could not find the headers of", "no C compiler found", "could not run make"];

/// Installs the extension into a server's folders, by the command that users install it with, if
/// the one there is not of these sources. One that can't be built fails the test: it panics.
pub fn install(server: TestServer) -> Result<(), Missing> {
    static DONE: Mutex<Option<HashMap<TestServer, Result<(), Missing>>>> = Mutex::new(None);
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    let done = done.get_or_insert_default();
    if let Some(result) = done.get(&server) {
        return result.clone();
    }
    let result = install_anew(server);
    done.insert(server, result.clone());
    result
}

fn install_anew(server: TestServer) -> Result<(), Missing> {
    let bin_dir = server.installation()?.bin_dir;
    let missing = |problem: String| Missing { server, looked: Vec::new(), problem: Some(problem) };
    let pg_config = bin_dir.join("pg_config");
    let asked = Command::new(&pg_config).arg("--pkglibdir").output();
    let libraries = match asked {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => return Err(missing(format!("{} does not run", pg_config.display()))),
    };
    let sources = ["Makefile", "src", "fullbore.control"];
    let newest = sources.iter().map(|name| changed(&checkout().join("extension").join(name)));
    if changed(&Path::new(&libraries).join("fullbore.so")) > newest.max().flatten() {
        return Ok(());
    }
    let pg_config = pg_config.to_str().expect("UTF-8");
    let output = run_fullbore(&["extension", "install", "--pg-config", pg_config]);
    if output.code == 0 {
        return Ok(());
    }
    let has_means = !NO_MEANS.iter().any(|words| output.stderr.contains(words));
    assert!(!has_means, "the extension can't be installed for {server:?}: {}", output.stderr);
    Err(missing(output.stderr))
}

/// When a file, or the newest one of a folder, was changed last.
fn changed(path: &Path) -> Option<SystemTime> {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().filter_map(|entry| changed(&entry.path())).max(),
        Err(_) => fs::metadata(path).and_then(|data| data.modified()).ok(),
    }
}
