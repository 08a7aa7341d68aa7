//! Ends a test's server and removes its files, however the test process ends.
//!
//! Destructors do not run for statics, nor after a kill. So a small shell process, outside the
//! tests' process group, holds the reading end of a pipe whose writing end only the test process
//! has: when that closes, for whatever reason, the shell stops the server and cleans up.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use fullbore_server::{Installation, RunAs};

/// `$1` is the cluster's folder, `$2` is pg_ctl. A pid file may outlive its server, so /proc is
/// asked whether the process lives in our data folder before it is stopped.
const SCRIPT: &str = r#"
cat > /dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2> /dev/null)
if [ -n "$pid" ] && [ "$(readlink "/proc/$pid/cwd")" = "$1/data" ]; then
    "$2" stop -D "$1/data" -m immediate -w
fi
rm -rf "$1"
"#;

/// Cleans up when dropped, and when the process ends without dropping it.
#[derive(Debug)]
pub struct Reaper {
    folder: PathBuf,
    shell: Child,
}

impl Reaper {
    /// Watches over `folder`, which will hold a data folder `data`; both belong to `run_as`.
    pub fn watch(folder: &Path, installation: &Installation, run_as: &RunAs) -> io::Result<Self> {
        let shell = run_as
            .command(Path::new("/bin/sh"))
            .args(["-c", SCRIPT, "reaper"])
            .arg(folder)
            .arg(installation.program("pg_ctl"))
            .stdin(Stdio::piped())
            // Inherited, they would keep `cargo test | less` waiting.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C goes to the whole group of the tests.
            .process_group(0)
            .spawn()?;
        Ok(Self { folder: folder.to_path_buf(), shell })
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
        // Root's tests may have left files there that the server's user can't remove.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
