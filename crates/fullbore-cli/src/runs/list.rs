//! `fullbore runs list`: the runs of this machine, or those that a database's ledger knows.

use fullbore::state::runs_dir;
use fullbore_parse::calendar::civil;
use fullbore_postgres::ledger::runs::{LedgerRun, State, Which};
use fullbore_read::error::Result;
use fullbore_record::{RunSummary, list_runs};

use super::args::LedgerArgs;
use super::folders::say;
use super::take_back::Opened;
use crate::words::{bytes, grouped, print_json, seconds};

pub fn list(json: bool, ledger: &LedgerArgs) -> Result<()> {
    if ledger.is_given() {
        return list_of_ledger(json, ledger);
    }
    let runs = list_runs(&runs_dir()?)?;
    if json {
        print_json(&runs);
        return Ok(());
    }
    for run in runs {
        say(format_args!(
            "{}  {}  {:<10} {:>15} rows {:>9} {:>9}  {}{}",
            run.run_id,
            utc(run.started_unix_ms),
            run.state.name(),
            grouped(run.rows),
            bytes(run.bytes),
            seconds(run.seconds),
            run.tables.join(", "),
            from_and_to(&run)
        ));
    }
    Ok(())
}

/// Which files a run was of, and where their rows went, as far as its record says.
fn from_and_to(run: &RunSummary) -> String {
    let files = match run.files {
        0 => String::new(),
        1 => format!(" from {}", run.first_file),
        more => format!(" from {more} files, the first {}", run.first_file),
    };
    match run.destination.as_str() {
        "" => files,
        to => format!("{files} to {to}"),
    }
}

/// A moment to the second, in UTC.
fn utc(unix_ms: u64) -> String {
    let (days, seconds) = (unix_ms / 86_400_000, unix_ms / 1000 % 86_400);
    let (year, month, day) = civil(days as i64);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

fn list_of_ledger(json: bool, ledger: &LedgerArgs) -> Result<()> {
    let opened = Opened::at(ledger, None)?;
    let runs = opened.postgres.ledger_runs(&opened.schema, &Which::All)?;
    runs.iter().try_for_each(|run| say_run(&opened, run, json))
}

/// A run as the ledger has it, on one line.
pub fn say_run(opened: &Opened, run: &LedgerRun, json: bool) -> Result<()> {
    let state = state(opened, run)?;
    let tables: Vec<String> = run.tables.iter().map(|table| table.target.to_string()).collect();
    // What is wrong with it is told by those who would do something with it.
    let part = opened.postgres.part_of(&opened.schema, &run.run_id).ok().flatten();
    let part = part.map(|part| format!("{}/{}", part.number, part.of));
    if json {
        print_json(&serde_json::json!({
            "run_id": run.run_id, "state": state, "rows": run.rows_committed,
            "rejected": run.rejected, "bytes": run.bytes_committed,
            "pieces": run.pieces_committed, "pieces_planned": run.pieces.len(),
            "tables": tables, "host": run.host, "started": run.started, "part": part,
        }));
        return Ok(());
    }
    say(format_args!(
        "{}  {state:<10} {:>15} rows in {} of {} pieces  {}  {}  {}{}",
        run.run_id,
        grouped(run.rows_committed),
        run.pieces_committed,
        // Those of compressed files are cut while they are read.
        (run.pieces.len() as u64).max(run.pieces_committed),
        run.started.for_people(),
        run.host.for_people(),
        tables.join(", "),
        part.map_or(String::new(), |part| format!("  part {part}"))
    ));
    Ok(())
}

/// A run that loads is `running` or `stopped`: the ledger's lock tells.
fn state(opened: &Opened, run: &LedgerRun) -> Result<&'static str> {
    let is_running = run.state.is_unfinished() && opened.postgres.is_job_locked(&run.job)?;
    Ok(match run.state {
        _ if is_running => "running",
        State::Preparing | State::Loading => "stopped",
        state => state.name(),
    })
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn moments_are_written_as_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00Z");
        assert_eq!(utc(951_782_399_999), "2000-02-28 23:59:59Z");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00Z");
        assert_eq!(utc(1_735_689_599_000), "2024-12-31 23:59:59Z");
    }
}
