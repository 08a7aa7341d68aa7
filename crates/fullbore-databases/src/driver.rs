//! Finds and loads the driver of a database.

use std::path::{Path, PathBuf};

use adbc_core::options::{AdbcVersion, OptionDatabase, OptionValue};
use adbc_core::{Driver, LOAD_FLAG_DEFAULT};
use adbc_driver_manager::{ManagedDatabase, ManagedDriver};
use fullbore_read::error::{Error, Result};

use crate::error::{cannot, refused};
use crate::place::Kind;

const VERSION: AdbcVersion = AdbcVersion::V110;

/// Loads the driver of a database and opens that.
pub fn open(kind: Kind, name: &str, options: &[(String, String)]) -> Result<ManagedDatabase> {
    let mut driver = load(kind, name)?;
    let options = options.iter().map(|(name, value)| {
        (OptionDatabase::from(name.as_str()), OptionValue::String(value.clone()))
    });
    driver.new_database_with_opts(options).map_err(|error| refused(&error))
}

/// By its path, or as ADBC's driver managers find it by name (`ADBC_DRIVER_PATH`, manifests of the user and of the
/// system, the linker's folders), or in a Python package that ships it.
fn load(kind: Kind, name: &str) -> Result<ManagedDriver> {
    // DuckDB is its own driver, whose entry has another name than ADBC's rule gives it.
    let entry = (kind == Kind::DuckDb).then_some(&b"duckdb_adbc_init"[..]);
    if name.contains('/') {
        return ManagedDriver::load_dynamic_from_filename(name, entry, VERSION)
            .map_err(|error| cannot(format!("driver {name}: {}", error.message), hint(kind)));
    }
    let package = format!("adbc_driver_{}", name.trim_start_matches("adbc_driver_"));
    let by_name =
        |name: &str| ManagedDriver::load_from_name(name, entry, VERSION, LOAD_FLAG_DEFAULT, None);
    let error = match by_name(name).or_else(|error| by_name(&package).map_err(|_| error)) {
        Ok(driver) => return Ok(driver),
        Err(error) => error,
    };
    let shipped = site_packages().map(|site| site.join(&package));
    for library in shipped.map(|folder| folder.join(format!("lib{package}.so"))) {
        if library.is_file() {
            return ManagedDriver::load_dynamic_from_filename(library, entry, VERSION)
                .map_err(|error| refused(&error));
        }
    }
    Err(not_found(kind, name, &error.message))
}

/// The folders of Python packages: of the environment that is active, and of the one that the command is in.
fn site_packages() -> impl Iterator<Item = PathBuf> {
    let active = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    let own = std::env::current_exe().ok();
    let own = own.as_deref().and_then(Path::parent).and_then(Path::parent).map(Path::to_owned);
    let versions =
        active.into_iter().chain(own).flat_map(|root| std::fs::read_dir(root.join("lib")));
    versions.flat_map(|entries| entries.flatten()).map(|entry| entry.path().join("site-packages"))
}

fn not_found(kind: Kind, name: &str, why: &str) -> Error {
    let first = why.lines().next().unwrap_or_default();
    cannot(format!("no ADBC driver {name:?} was found ({first})"), hint(kind))
}

fn hint(kind: Kind) -> String {
    let then = "name its folder with ADBC_DRIVER_PATH";
    match kind {
        Kind::DuckDb => format!("install DuckDB's library (libduckdb.so), and {then}"),
        Kind::Sqlite => {
            format!("pip install adbc-driver-sqlite, or {then}")
        }
        Kind::MySql | Kind::Other => {
            format!("install the driver, and {then}, or write adbc:/path/to/driver.so")
        }
    }
}
