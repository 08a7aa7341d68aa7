//! `fullbore server` and `fullbore psql`: the embedded server. What looks at other servers too is in
//! [`orphans`].

use std::os::unix::process::CommandExt;

use clap::{Args, Subcommand};
use fullbore::Ended;
use fullbore_server::{Embedded, SUPERUSER, ServerError};

use crate::args::output::AnswerArgs;
use crate::orphans;
use crate::words::complain;

#[derive(Debug, Args)]
pub struct ServerArgs {
    #[command(subcommand)]
    pub action: ServerAction,
}

#[derive(Debug, Subcommand)]
pub enum ServerAction {
    /// Start the server
    Start,
    /// Stop the server
    Stop,
    /// Show whether it runs, and its data directory
    Status,
    /// Print the URL
    Url,
    /// List orphaned files of any server, as crashes leave them; removes nothing
    Orphans {
        /// Database of the server
        url: String,
        #[command(flatten)]
        answer: AnswerArgs,
    },
}

#[derive(Debug, Args)]
pub struct PsqlArgs {
    /// Database [default: postgres], and arguments for psql
    #[arg(value_name = "DATABASE|ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<String>,
}

/// Variables of a session, not of where it goes.
const KEPT: [&str; 5] = ["PGTZ", "PGDATESTYLE", "PGOPTIONS", "PGCLIENTENCODING", "PGAPPNAME"];

pub fn run(args: &ServerArgs) -> Ended {
    match &args.action {
        ServerAction::Start => report(start()),
        ServerAction::Stop => report(stop()),
        ServerAction::Status => report(status()),
        ServerAction::Url => report(url()),
        ServerAction::Orphans { url, answer } => orphans::run(url, answer.json),
    }
}

/// Becomes psql.
pub fn psql(args: &PsqlArgs) -> Ended {
    report(Embedded::open().and_then(|embedded| {
        embedded.ensure_started()?;
        let program = embedded.cluster().installation.program("psql");
        let (database, args) = match args.args.split_first() {
            Some((first, others)) if !first.starts_with('-') => (first.as_str(), others),
            _ => ("postgres", args.args.as_slice()),
        };
        let mut psql = std::process::Command::new(program);
        // What aims or guards other connections would lead elsewhere, the URL's host or not.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PG") && !KEPT.iter().any(|kept| name == *kept)
            {
                psql.env_remove(name);
            }
        }
        // By variables, so that psql's own options mean what they mean.
        let cluster = embedded.cluster();
        psql.env("PGHOST", &cluster.socket_dir).env("PGPORT", cluster.port.to_string());
        psql.env("PGUSER", SUPERUSER).env("PGDATABASE", database);
        let error = psql.args(args).exec();
        complain(&format!("could not start psql: {error}"), None);
        Ok(Ended::Failed)
    }))
}

fn report(result: Result<Ended, ServerError>) -> Ended {
    result.unwrap_or_else(|error| {
        complain(&error.to_string(), error.hint().as_deref());
        Ended::Failed
    })
}

fn start() -> Result<Ended, ServerError> {
    let embedded = Embedded::open()?;
    let started = embedded.ensure_started()?;
    tell!("{}", if started { "started" } else { "already running" });
    answer!("{}", embedded.url("postgres"));
    Ok(Ended::Loaded)
}

fn stop() -> Result<Ended, ServerError> {
    Embedded::open()?.stop()?;
    tell!("stopped");
    Ok(Ended::Loaded)
}

fn status() -> Result<Ended, ServerError> {
    let status = Embedded::open()?.status();
    match status.pid {
        Some(pid) => answer!("running, process {pid}"),
        None => answer!("not running"),
    }
    answer!("PostgreSQL {}", status.installed);
    answer!("data folder {}", status.data_dir.display());
    answer!("log file    {}", status.log_file.display());
    Ok(Ended::Loaded)
}

fn url() -> Result<Ended, ServerError> {
    answer!("{}", Embedded::open()?.url("postgres"));
    Ok(Ended::Loaded)
}
