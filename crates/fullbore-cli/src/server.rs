//! `fullbore server` and `fullbore psql`: the embedded server.

use std::os::unix::process::CommandExt;

use fullbore_postgres::server::{Embedded, ServerError};

use crate::args::{PsqlArgs, ServerAction, ServerArgs};
use crate::exit::Ended;
use crate::words::complain;

pub fn run(args: &ServerArgs) -> Ended {
    report(act(args.action))
}

/// Becomes psql.
pub fn psql(args: &PsqlArgs) -> Ended {
    report(Embedded::open().and_then(|embedded| {
        embedded.ensure_started()?;
        let program = embedded.cluster().installation.program("psql");
        let error = std::process::Command::new(program)
            .arg(embedded.url("postgres"))
            .args(&args.args)
            .exec();
        complain(&format!("psql can't be started: {error}"), None);
        Ok(Ended::Failed)
    }))
}

fn report(result: Result<Ended, ServerError>) -> Ended {
    result.unwrap_or_else(|error| {
        complain(&error.to_string(), error.hint().as_deref());
        Ended::Failed
    })
}

fn act(action: ServerAction) -> Result<Ended, ServerError> {
    let embedded = Embedded::open()?;
    match action {
        ServerAction::Start => {
            let started = embedded.ensure_started()?;
            eprintln!("{}", if started { "started" } else { "runs already" });
            println!("{}", embedded.url("postgres"));
        }
        ServerAction::Stop => {
            embedded.stop()?;
            eprintln!("stopped");
        }
        ServerAction::Status => {
            let status = embedded.status();
            match status.pid {
                Some(pid) => println!("running, process {pid}"),
                None => println!("not running"),
            }
            println!("PostgreSQL {}", status.installed);
            println!("data folder {}", status.data_dir.display());
            println!("log file    {}", status.log_file.display());
        }
        ServerAction::Url => println!("{}", embedded.url("postgres")),
    }
    Ok(Ended::Loaded)
}
