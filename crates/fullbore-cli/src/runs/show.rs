//! `fullbore runs show`: what happened in a run.

use fullbore::state::{folder_of, id_of};
use fullbore_read::error::Result;
use fullbore_record::{Event, read_events};

use super::args::LedgerArgs;
use super::folders::say;
use super::list;
use super::take_back::Opened;
use crate::words::{
    achieved, bytes, counted, details, grouped, print_json, said, seconds, sentence,
};

pub fn show(run: &str, json: bool, ledger: &LedgerArgs) -> Result<()> {
    if !ledger.is_given() {
        return show_record(run, json);
    }
    // The record of a run that was begun elsewhere is not here, but the ledger knows it.
    let id = id_of(run)?;
    if folder_of(&id).is_ok() {
        show_record(&id, json)?;
    }
    let opened = Opened::at(ledger, Some(&id))?;
    list::say_run(&opened, &opened.run(&id)?, json)
}

fn show_record(run: &str, json: bool) -> Result<()> {
    let entries = read_events(&folder_of(run)?)?;
    let mut names = Vec::new();
    for entry in entries {
        if json {
            print_json(&entry);
            continue;
        }
        let at = format!("{:>9.2} s ", entry.at);
        if let Some(words) = said(&entry.event) {
            say(format_args!("{at} {words}"));
            continue;
        }
        match entry.event {
            Event::RunStarted { run_id, fullbore, streams, parsers, pieces, tables, .. } => {
                say(format_args!(
                    "{at} run {run_id} of fullbore {fullbore}: {} in {pieces} planned pieces, \
                     {streams} streams, {parsers} parsers",
                    tables.join(", ")
                ));
                names = tables;
            }
            Event::Sample { .. }
            | Event::Planned { .. }
            | Event::Observed { .. }
            | Event::ServerSettings { .. }
            // These were said.
            | Event::Notice { .. }
            | Event::RateChanged { .. }
            | Event::StreamsSettled { .. }
            | Event::FormChanged { .. }
            | Event::EndpointDown { .. }
            | Event::EndpointUp { .. } => {}
            Event::Rejected { rejects } => {
                for kind in rejects.kinds {
                    say(format_args!(
                        "{at} rejected: {}, first: {}",
                        counted(kind.count, "row"),
                        kind.first
                    ));
                }
            }
            Event::Verdict { verdict, advice } => {
                say(format_args!("{at} {}", sentence(&verdict)));
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                for line in details(&verdict, &names) {
                    say(format_args!("{:>11} {line}", ""));
                }
                for line in advice {
                    say(format_args!("{:>11} advice: {line}", ""));
                }
            }
            Event::Ceilings { ceilings } => {
                if let Some(ceiling) = ceilings.lowest() {
                    say(format_args!(
                        "{at} ceiling {}/s, set by {}",
                        bytes(ceiling.bytes_per_second as u64),
                        ceiling.resource.words()
                    ));
                }
            }
            Event::Achieved { achieved: figures } => {
                say(format_args!("{at} {}", achieved(&figures)));
            }
            Event::PieceCommitted { piece, stream, endpoint, rows, .. } => {
                let by = endpoint.map_or_else(String::new, |endpoint| format!(" by {endpoint}"));
                say(format_args!(
                    "{at} piece {piece} committed by stream {stream}{by}: {} rows",
                    grouped(rows)
                ));
            }
            Event::PieceHalved { piece, rest, stream, bytes: of_rest, .. } => {
                say(format_args!(
                    "{at} piece {piece} split: stream {stream} loads {} of it as piece {rest}",
                    bytes(of_rest)
                ));
            }
            Event::PhaseFinished { phase } => {
                say(format_args!("{at} {} took {}", phase.name, seconds(phase.seconds)));
            }
            Event::RunFinished { rows, rejected, verified, .. } => {
                say(format_args!(
                    "{at} loaded {} rows, {} rejected",
                    grouped(rows),
                    grouped(rejected)
                ));
                if let Some(verified) = verified {
                    say(format_args!("{at} verified: {}", verified.level.name()));
                }
            }
            Event::RunResumed { pieces_committed, rows_committed, .. } => {
                say(format_args!(
                    "{at} resumed: {pieces_committed} pieces with {} rows are already committed",
                    grouped(rows_committed)
                ));
            }
            Event::RoundStarted { reason, pieces_committed } => {
                say(format_args!(
                    "{at} restarted after a lost connection, {pieces_committed} pieces committed: \
                     {reason}"
                ));
            }
            Event::StreamsTried { streams, parsers } => {
                say(format_args!("{at} streams {streams}, parsers {parsers}"));
            }
            Event::RunPaused { reason } => say(format_args!("{at} paused: {reason}")),
            Event::RunContinued { seconds: paused } => {
                say(format_args!("{at} continued after a pause of {}", seconds(paused)));
            }
            Event::RunTakenBack { rows_kept: 0 } => say(format_args!("{at} rolled back")),
            Event::RunTakenBack { rows_kept } => {
                say(format_args!("{at} rolled back, except for {} rows", grouped(rows_kept)));
            }
            Event::RunFailed { error, is_kept: true, .. } => {
                say(format_args!("{at} stopped, can be resumed: {error}"));
            }
            Event::RunFailed { error, rows_kept, left_behind, is_kept: false } => {
                say(format_args!("{at} failed: {error}; {} rows kept", grouped(rows_kept)));
                for name in left_behind {
                    say(format_args!("{:>11} not dropped: {name}", ""));
                }
            }
        }
    }
    Ok(())
}
