//! `fullbore server orphans`: names the files that no catalog knows.

use std::io::{self, Write};

use fullbore::Ended;
use fullbore_pgwire::{ConnectionError, ConnectionOptions, Environment, Session};
use fullbore_postgres::orphans::{Found, UnknownRelation, find};
use fullbore_read::error::{DestinationFailure, Error, Result};

use crate::words::{Screen, bytes, complain, counted, print_json};

/// Ends with 1 where there are orphans, so that a script notices, and with 2 where nothing could be
/// found out.
pub fn run(url: &str, json: bool) -> Ended {
    match look(url) {
        Ok(found) => {
            // A reader that has gone away is no error.
            if json {
                print_json(&found);
            } else {
                let _ = print(&found);
            }
            if found.orphans.is_empty() { Ended::Loaded } else { Ended::Failed }
        }
        Err(error) => {
            complain(&error.to_string(), error.hint());
            Ended::Usage
        }
    }
}

fn look(url: &str) -> Result<Found> {
    let refused = |error: ConnectionError| Error::Destination {
        message: error.to_string(),
        hint: error.hint().map(str::to_owned),
        kind: DestinationFailure::Refused,
    };
    let options =
        ConnectionOptions::resolve(Some(url), &Environment::of_process()).map_err(refused)?;
    find(&mut Session::connect(&options).map_err(refused)?.pinned())
}

fn print(found: &Found) -> io::Result<()> {
    let database = &found.database;
    match found.orphans.len() as u64 {
        0 => writeln!(Screen, "no orphans of database {database}")?,
        many => {
            writeln!(Screen, "{} of database {database}:", counted(many, "orphan"))?;
            list(&found.orphans)?;
        }
    }
    let mut stderr = io::stderr();
    for (relations, what) in [
        (
            &found.in_progress,
            "changed since the oldest running transaction began, possibly by a load in progress",
        ),
        (&found.removed_soon, "empty: the next checkpoint removes them"),
        (&found.temporary, "temporary tables: the server removes them when it starts"),
    ] {
        if !relations.is_empty() {
            let count = counted(relations.len() as u64, "relation");
            writeln!(Screen, "no orphans: {count}, {what}")?;
        }
    }
    if !found.orphans.is_empty() {
        writeln!(
            stderr,
            "Nothing was removed. To remove orphans: end all loads, run CHECKPOINT and run this \
             command again. Make a\nbackup, stop the server, and move the files that are still \
             listed out of its data directory. Start the\nserver, and delete the files once \
             everything works."
        )?;
    }
    writeln!(
        stderr,
        "Other databases of the server were not checked: run this command with the URL of each."
    )
}

fn list(relations: &[UnknownRelation]) -> io::Result<()> {
    for UnknownRelation { path, files, bytes: size, modified } in relations {
        writeln!(
            Screen,
            "  {path}  {}  changed {modified}  {}: {}",
            bytes(*size),
            counted(files.len() as u64, "file"),
            files.join(" ")
        )?;
    }
    Ok(())
}
