//! `fullbore runs list`: the runs of this machine, or those that a database's ledger knows.

use fullbore_core::error::Result;
use fullbore_core::record::list_runs;
use fullbore_postgres::ledger::runs::{LedgerRun, State, Which};

use super::args::LedgerArgs;
use super::say;
use super::take_back::Opened;
use crate::state::runs_dir;
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
