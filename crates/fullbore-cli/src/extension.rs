//! `fullbore extension`: the server's half of the direct method, built, installed and looked for.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use clap::{Args, Subcommand};
use fullbore::Ended;
use fullbore_pgwire::{ConnectionOptions, Environment, Session};
use fullbore_postgres::direct::check;
use fullbore_read::error::{DestinationFailure, Error, Result};

use crate::words::complain;

/// The sources, by their place in the extension's folder.
const SOURCES: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/extension_sources.rs"));

/// Lines of a failed build that are shown.
const LINES_SHOWN: usize = 20;

#[derive(Debug, Args)]
pub struct ExtensionArgs {
    #[command(subcommand)]
    pub action: ExtensionAction,
}

#[derive(Debug, Subcommand)]
pub enum ExtensionAction {
    /// Build and install the extension for a server on this machine
    Install {
        /// pg_config of the server
        #[arg(long, value_name = "PATH")]
        pg_config: PathBuf,
    },
    /// Check whether a database is ready for direct loads
    Check {
        /// Database and role
        url: String,
    },
}

pub fn run(args: &ExtensionArgs) -> Ended {
    let result = match &args.action {
        ExtensionAction::Install { pg_config } => install(pg_config),
        ExtensionAction::Check { url } => check(url),
    };
    result.unwrap_or_else(|error| {
        complain(&error.to_string(), error.hint());
        match error {
            // A server that can't be asked is another answer than one that lacks something.
            Error::Destination { kind: DestinationFailure::Refused, .. } => Ended::Usage,
            _ => Ended::Failed,
        }
    })
}

fn failed(message: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::Destination {
        message: message.into(),
        hint: Some(hint.into()),
        kind: DestinationFailure::Other,
    }
}

/// Builds the extension for a server and puts it into that server's folders.
fn install(pg_config: &Path) -> Result<Ended> {
    // It is asked from another folder, too; a plain name is looked for in PATH.
    let pg_config = &match pg_config.components().count() {
        1 => pg_config.to_owned(),
        _ => std::path::absolute(pg_config)
            .map_err(|source| Error::Read { path: pg_config.to_owned(), source })?,
    };
    let version = asked(pg_config, "--version")?;
    let headers = asked(pg_config, "--includedir-server")?;
    if !Path::new(&headers).join("postgres.h").is_file() {
        return Err(failed(
            format!("could not find the headers of {version} in {headers}"),
            "install the server's development package, such as postgresql-server-dev-18",
        ));
    }
    let folder = Folder::new()?;
    for (name, content) in SOURCES {
        let path = folder.path.join(name);
        let parent = path.parent().expect("a file is in a folder");
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, content))
            .map_err(|source| Error::Write { path, source })?;
    }
    let compiler = build(&folder.path, pg_config, &version)?;
    let libraries = asked(pg_config, "--pkglibdir")?;
    let installed = make(&folder.path, pg_config, &compiler, &["install"])?;
    if !installed.status.success() {
        return Err(failed(
            format!("could not install the extension in {libraries}:\n{}", tail(&installed)),
            "run this as a user who can write to PostgreSQL's directories",
        ));
    }
    answer!("installed for {version} in {libraries}");
    answer!("next, as a superuser in each database to load into: CREATE EXTENSION fullbore");
    Ok(Ended::Loaded)
}

/// Builds with the first compiler that can, and returns it: flags that the server was built with
/// need not be known to every one.
fn build(folder: &Path, pg_config: &Path, version: &str) -> Result<String> {
    let compilers = match env::var("CC").ok().filter(|named| !named.is_empty()) {
        Some(named) => vec![named],
        None => vec![asked(pg_config, "--cc")?, "cc".into(), "clang".into(), "gcc".into()],
    };
    let mut last = None;
    for (at, compiler) in compilers.iter().enumerate() {
        if compilers[..at].contains(compiler) || !is_there(compiler) {
            continue;
        }
        let built = make(folder, pg_config, compiler, &["clean", "all"])?;
        if built.status.success() {
            return Ok(compiler.clone());
        }
        last = Some(format!("with {compiler}:\n{}", tail(&built)));
    }
    Err(match last {
        Some(output) => failed(
            format!("could not build the extension for {version} {output}"),
            "set the variable CC to another compiler",
        ),
        None => failed(
            format!("no C compiler found (looked for {})", compilers.join(", ")),
            "install clang or gcc, or set the variable CC to a compiler",
        ),
    })
}

fn is_there(compiler: &str) -> bool {
    let program = compiler.split_whitespace().next().unwrap_or_default();
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn make(folder: &Path, pg_config: &Path, compiler: &str, goals: &[&str]) -> Result<Output> {
    let mut command = Command::new("make");
    command.current_dir(folder).args(goals);
    command.arg(format!("PG_CONFIG={}", pg_config.display())).arg(format!("CC={compiler}"));
    // A make that we run under hands its own flags on.
    for name in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL"] {
        command.env_remove(name);
    }
    command.output().map_err(|error| {
        failed(format!("could not run make: {error}"), "install make, and a C compiler")
    })
}

/// What `pg_config` says.
fn asked(pg_config: &Path, option: &str) -> Result<String> {
    let output = Command::new(pg_config).arg(option).output();
    match output {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => Err(failed(
            format!("{} {option} failed: {}", pg_config.display(), tail(&output)),
            "name the pg_config of the server to install for with --pg-config PATH",
        )),
        Err(error) => Err(failed(
            format!("could not run {}: {error}", pg_config.display()),
            "name the pg_config of the server to install for with --pg-config PATH",
        )),
    }
}

fn tail(output: &Output) -> String {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

/// A folder to build in, gone with its value.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new() -> Result<Self> {
        let name = format!("fullbore-extension-{}", std::process::id());
        let path = env::temp_dir().join(name);
        fs::create_dir(&path).map_err(|source| Error::Write { path: path.clone(), source })?;
        Ok(Self { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Says what a database lacks for direct loads by this role.
fn check(url: &str) -> Result<Ended> {
    let refused = |error: fullbore_pgwire::ConnectionError| Error::Destination {
        message: error.to_string(),
        hint: error.hint().map(str::to_owned),
        kind: DestinationFailure::Refused,
    };
    let options =
        ConnectionOptions::resolve(Some(url), &Environment::of_process()).map_err(refused)?;
    let mut session = Session::connect(&options).map_err(refused)?.pinned();
    let missing = check::missing(&mut session).map_err(refused)?;
    if missing.is_empty() {
        // That it can be loaded into this server is shown by loading it.
        let version = check::loaded_version(&mut session).map_err(refused)?;
        answer!("ready: extension {version}, protocol {}", fullbore_postgres::direct::PROTOCOL);
        return Ok(Ended::Loaded);
    }
    for check::Missing { what, remedy, .. } in missing {
        answer!("missing: {what}");
        answer!("  {remedy}");
    }
    Ok(Ended::Failed)
}
