//! `fullbore runs verify`: what a run has loaded against what it read.

use fullbore::Ended;
use fullbore::state::id_of;
use fullbore_load::job::Count;
use fullbore_postgres::ledger::runs::LedgerRun;
use fullbore_postgres::verify::run::Report;
use fullbore_read::error::Result;

use super::args::VerifyArgs;
use super::folders::say;
use super::recount;
use super::take_back::Opened;
use crate::words::{counted, print_json, seconds};

pub fn verify(args: &VerifyArgs) -> Result<Ended> {
    let id = id_of(&args.run)?;
    let opened = Opened::at(&args.ledger, Some(&id))?;
    let runs = opened.runs(&id)?;
    let mut ended = Ended::Loaded;
    for run in &runs {
        match of_run(args, &opened, run)? {
            Ended::Loaded => {}
            other => ended = other,
        }
    }
    Ok(ended)
}

fn of_run(args: &VerifyArgs, opened: &Opened, run: &LedgerRun) -> Result<Ended> {
    let sessions = match args.streams {
        Some(Count::Fixed(sessions)) => sessions,
        _ => std::thread::available_parallelism().map_or(2, usize::from),
    };
    let began = std::time::Instant::now();
    let anew = match &args.against {
        Some(files) => Some(recount::recount(opened, run, files)?),
        None => None,
    };
    let read = began.elapsed().as_secs_f64();
    let report = opened.postgres.verify_run(&opened.schema, run, anew, sessions)?;
    let summed = began.elapsed().as_secs_f64() - read;
    if args.answer.json {
        let mut object = serde_json::to_value(&report).expect("plain data becomes JSON");
        object["equal"] = report.findings.is_empty().into();
        object["seconds"] = serde_json::json!({ "read": read, "sum": summed });
        print_json(&object);
    } else {
        tell(&report, args.against.is_some(), summed);
    }
    Ok(if report.findings.is_empty() { Ended::Loaded } else { Ended::Failed })
}

fn tell(report: &Report, is_anew: bool, summed: f64) {
    let run = &report.run_id;
    for finding in &report.findings {
        say(format_args!("{finding}"));
    }
    let with = if is_anew { "its files" } else { "the rows that were read" };
    if report.findings.is_empty() {
        say(format_args!(
            "run {run} matches {with}: every value of {} in {}, {}",
            counted(report.rows, "row"),
            counted(report.pieces, "piece"),
            counted(report.columns, "column")
        ));
    } else {
        say(format_args!("run {run} no longer matches {with}"));
    }
    for left in &report.not_covered {
        say(format_args!("not covered: {left}"));
    }
    say(format_args!("the server took {}", seconds(summed)));
}
