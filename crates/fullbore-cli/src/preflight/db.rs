//! `fullbore preflight db`: a server's settings in words, and the rate at which it takes rows.

use std::io::{self, Write};

use fullbore::destinations::connection;
use fullbore_preflight::Error;
use fullbore_preflight::db::{self, Line, Needs, Report};
use serde_json::json;

use super::args::DbArgs;
use super::rate::{self, Rates};
use super::{show, usage_of};
use crate::words::{Screen, bytes, grouped};

pub fn run(args: &DbArgs) -> Result<(), Error> {
    // Where `load` would go, too.
    let options = connection(args.url.as_deref()).map_err(usage_of)?;
    let report = db::run(&options)?;
    let rates = match &args.table {
        Some(table) => Some(rate::run(args, table, &options, &report.facts)?),
        None => None,
    };
    let both = json!({ "server": report, "rates": rates });
    show(args.answer.json, &both, |_| print(&report, rates.as_ref()))
}

fn print(report: &Report, rates: Option<&Rates>) -> io::Result<()> {
    let mut out = Screen;
    let facts = &report.facts;
    writeln!(
        out,
        "PostgreSQL {} at {}, database {}, role {}",
        facts.version, facts.target, facts.database, facts.role
    )?;
    let (changes, kept): (Vec<_>, Vec<_>) =
        report.lines.iter().partition(|line| line.advised.is_some());
    if !changes.is_empty() {
        writeln!(out, "\nrecommended changes for a load")?;
        changes.iter().try_for_each(|line| change(line, &mut out))?;
    }
    writeln!(out, "\nno change needed")?;
    for line in kept {
        writeln!(out, "  {} {}: {}", line.setting, line.value, line.why)?;
    }
    rates.map_or(Ok(()), |rates| print_rates(rates, &mut out))
}

fn change(line: &Line, out: &mut impl Write) -> io::Result<()> {
    let advised = line.advised.as_deref().unwrap_or_default();
    writeln!(out, "  {} is {}, recommended {advised}: {}", line.setting, line.value, line.why)?;
    let when = match line.needs {
        Needs::Restart => ", at the next start",
        Needs::Reload | Needs::Nothing => "",
    };
    for (word, text) in [("price", &line.price), ("set", &line.set), ("undo", &line.undo)] {
        if let Some(text) = text {
            let when = if word == "set" { when } else { "" };
            writeln!(out, "    {word}{when}: {text}")?;
        }
    }
    Ok(())
}

fn print_rates(rates: &Rates, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nrows like those of {}, {}", rates.table, rates.rows_from)?;
    let mut table = crate::table::Table::new(
        &["method", "sessions", "rows/s", "MB/s of text", "seconds", "", ""],
        1,
    );
    for cell in &rates.cells {
        table.add(vec![
            cell.method.to_owned(),
            cell.sessions.to_string(),
            grouped(cell.rows_per_second as u64),
            format!("{:.1}", cell.bytes_per_second / 1e6),
            format!("{:.2}", cell.seconds),
            if cell.is_knee { "knee".into() } else { String::new() },
        ]);
    }
    table.print(out)?;
    for note in &rates.notes {
        writeln!(out, "{note}")?;
    }
    let written: u64 = rates.cells.iter().map(|cell| cell.bytes).sum();
    writeln!(
        out,
        "{} of text were loaded into the scratch schema, which was dropped",
        bytes(written)
    )
}
