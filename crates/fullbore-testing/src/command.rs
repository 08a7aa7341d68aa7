//! Running the `fullbore` command as its users do.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// How a command ended, and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The exit code; 128 and the signal's number where one ended it, as a shell says it.
    pub code: i32,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
}

/// Runs `fullbore` with these arguments to its end.
pub fn run_fullbore<S: AsRef<OsStr>>(args: &[S]) -> Output {
    let mut command = fullbore_command();
    command.args(args);
    output_of(command)
}

/// The `fullbore` command, for tests that set its folder, variables or stdin.
pub fn fullbore_command() -> Command {
    let mut command = Command::new(fullbore_path());
    command.stdin(Stdio::null());
    // The developer's own settings must not decide what a test sees.
    for (name, _) in env::vars_os() {
        let is_named = name == "FULLBORE_TO" || name == "DATABASE_URL";
        if is_named || name.as_encoded_bytes().starts_with(b"PG") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs any command to its end.
pub fn output_of(mut command: Command) -> Output {
    use std::os::unix::process::ExitStatusExt;
    let output = command.output().unwrap_or_else(|error| {
        panic!("{} does not run: {error}", command.get_program().display())
    });
    let status = output.status;
    Output {
        code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Cargo names the binary to tests of its own crate; other crates' tests find it beside the
/// folder they run from, `target/<profile>/deps`.
fn fullbore_path() -> PathBuf {
    for name in ["FULLBORE_BIN", "CARGO_BIN_EXE_fullbore"] {
        if let Some(path) = env::var_os(name).filter(|v| !v.is_empty()) {
            return path.into();
        }
    }
    let test = env::current_exe().unwrap_or_default();
    let built = test
        .ancestors()
        .skip(1)
        .take(3)
        .map(|folder| folder.join("fullbore"))
        .find(|path| path.is_file());
    built.unwrap_or_else(|| {
        panic!(
            "no fullbore near {}: run cargo build -p fullbore-cli first, or name it in \
             FULLBORE_BIN",
            test.display()
        )
    })
}
