//! `fullbore runs`: what was loaded, from the records.

use std::io::Write;

use fullbore_core::error::{Error, Result};
use fullbore_core::record::{Event, list_runs, read_events};

use crate::args::{RunsAction, RunsArgs};
use crate::exit::Ended;
use crate::state::runs_dir;
use crate::words::{bytes, complain, grouped, seconds};

pub fn run(args: &RunsArgs) -> Ended {
    let result = match &args.action {
        RunsAction::List { json } => list(*json),
        RunsAction::Show { run, json } => show(run, *json),
    };
    match result {
        Ok(()) => Ended::Loaded,
        Err(error) => {
            complain(&error.to_string(), error.hint());
            Ended::Usage
        }
    }
}

/// Prints a line; a reader that has gone away is no error.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn list(json: bool) -> Result<()> {
    let runs = list_runs(&runs_dir()?)?;
    if json {
        say(format_args!("{}", serde_json::to_string(&runs).expect("plain data becomes JSON")));
        return Ok(());
    }
    for run in runs {
        say(format_args!(
            "{}  {:<10} {:>15} rows {:>9} {:>9}  {}",
            run.run_id,
            run.state,
            grouped(run.rows),
            bytes(run.bytes),
            seconds(run.seconds),
            run.tables.join(", ")
        ));
    }
    Ok(())
}

fn show(run: &str, json: bool) -> Result<()> {
    let runs_dir = runs_dir()?;
    let id = match run {
        "last" => list_runs(&runs_dir)?.into_iter().next().map(|run| run.run_id),
        // An id is a name in the folder and nothing else.
        id if id.chars().all(|c| c.is_ascii_alphanumeric()) => Some(id.to_owned()),
        _ => None,
    };
    let missing =
        || Error::usage_with_hint(format!("there is no run {run:?}"), "see `fullbore runs list`");
    let run_dir = runs_dir.join(id.ok_or_else(missing)?);
    if !run_dir.is_dir() {
        return Err(missing());
    }
    let entries = read_events(&run_dir)?;
    for entry in entries {
        if json {
            say(format_args!(
                "{}",
                serde_json::to_string(&entry).expect("plain data becomes JSON")
            ));
            continue;
        }
        let at = format!("{:>9.2} s ", entry.at);
        match entry.event {
            Event::RunStarted { run_id, fullbore, streams, parsers, pieces, tables, .. } => {
                say(format_args!(
                    "{at} run {run_id} of fullbore {fullbore}: {} in {pieces} planned pieces, \
                     {streams} streams, {parsers} parsers",
                    tables.join(", ")
                ));
            }
            Event::Sample { .. } => {}
            Event::PieceCommitted { piece, stream, rows, .. } => {
                say(format_args!(
                    "{at} piece {piece} committed by stream {stream}: {} rows",
                    grouped(rows)
                ));
            }
            Event::PhaseFinished { phase } => {
                say(format_args!("{at} {} took {}", phase.name, seconds(phase.seconds)));
            }
            Event::RunFinished { rows, rejected, .. } => {
                say(format_args!(
                    "{at} loaded {} rows, {} rejected",
                    grouped(rows),
                    grouped(rejected)
                ));
            }
            Event::RunFailed { error, rows_kept, left_behind } => {
                say(format_args!("{at} failed: {error}; {} rows kept", grouped(rows_kept)));
                for name in left_behind {
                    say(format_args!("{:>11} left behind: {name}", ""));
                }
            }
        }
    }
    Ok(())
}
