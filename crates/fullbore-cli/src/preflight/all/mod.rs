//! `fullbore preflight all`: what limits this very job, and how long it will take.
//!
//! [`data`] checks the files; [`read`], [`encoded`] (parse, encode), [`send`] and [`replay`] (the database)
//! measure each part of the path alone; [`measured`] loads a part of the job for real. Everything is
//! written to a scratch schema with copies of the job's tables.

mod data;
mod encoded;
mod measured;
mod read;
mod replay;
mod report;
mod send;
mod server;
mod space;
mod total;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fullbore::check::{refuse_databases, refuse_given};
use fullbore::destinations::{Destinations, parsed_only};
use fullbore::{Ended, assemble, ceilings, kept};
use fullbore_load::job::{Job, RejectLimit};
use fullbore_load::plan::{Completion, Plan, Planned};
use fullbore_load::sink::Sink;
use fullbore_read::discover::read_once;
use fullbore_read::error::{Error, Result};
use fullbore_record::ceilings::{Ceilings, MeasuredTable, Stage};
use fullbore_record::now_unix_ms;
use fullbore_record::terms::Verify;

use super::args::AllArgs;
use crate::load::job::job_of;
use crate::load::signals::listen_for_signals;
use crate::words::{bytes, complain, warn};
use data::Finding;
use encoded::Encoded;
use measured::{Bounds, Measured};
use report::Report;

pub fn run(args: &AllArgs) -> Ended {
    let mut report = Report::default();
    let ended = match measure_all(args, &mut report) {
        Ok(()) if report.stops() => Ended::Usage,
        // Of the way to the rows' end nothing is known.
        Ok(()) if report.unmeasured.is_some() => Ended::Failed,
        Ok(()) => Ended::Loaded,
        Err(Error::Interrupted) => {
            complain(&Error::Interrupted.to_string(), None);
            return Ended::Stopped;
        }
        // What a load would end with, too.
        Err(error) => {
            report.findings.push(Finding::of_error(&error));
            Ended::Usage
        }
    };
    report.print(args.load.answer.json);
    ended
}

fn measure_all(args: &AllArgs, report: &mut Report) -> Result<()> {
    check(args)?;
    let mut job = job_of(&args.load)?;
    check_sources(&job)?;
    // A measurement leaves no trace in tables of others.
    for lookup in job.tables.iter_mut().flat_map(|table| &mut table.lookups) {
        *lookup = lookup.reading_only();
    }
    if job.tables.iter().any(|table| !table.order_by.is_empty()) {
        report.notes.push(
            "measured without --order-by, which sorts all rows first and loads them by one session: the \
             load takes longer"
                .into(),
        );
    }
    listen_for_signals();
    let folder = tempfile::TempDir::new()
        .map_err(|source| Error::Write { path: std::env::temp_dir(), source })?;
    let bounds = Bounds { seconds: args.time, bytes: args.bytes };
    let to = Destinations::open(&job, &warn)?.for_measuring()?;
    if let Some(server) = to.server() {
        server.check_writable()?;
    }
    let reject_dir = folder.path().to_path_buf();
    let draft = assemble(&job, to.server(), reject_dir.clone(), None)?;
    let Planned { plan, targets, .. } = draft.finish(Completion::default());
    if plan.tables.iter().all(|table| table.bytes == Some(0)) {
        return Err(Error::usage_with_hint(
            "the files contain no rows to measure",
            "use files like the ones to load",
        ));
    }
    if job.verify == Verify::Full {
        report
            .notes
            .push("measured without --verify full, which needs more CPU on both sides".into());
    }
    let plan = to_measure(plan, &reject_dir);
    report.describe(&job, &plan, to.server());
    report.scan = data::scan(&plan)?;
    report.findings.append(&mut report.scan.findings);
    report.findings.extend(space::of_client()?);
    if report.stops() {
        return Ok(());
    }
    let say = |what: &str, stage: &Stage| {
        if !args.load.silence.quiet {
            tell!("{what}: {}/s", bytes(stage.bytes_per_second as u64));
        }
    };
    let read = read::run(&plan, bounds)?;
    say("read", &read.stage);
    // Bad rows that are allowed must not end a measurement.
    let plan = Arc::new(Plan { max_rejects: RejectLimit::Percent(100.0), ..plan });
    let parse = measured::run(&plan, &parsed_only(), bounds, None, &Arc::default())?;
    say("parse", &parse.stage);
    report.ceilings = Ceilings {
        measured_unix_ms: now_unix_ms(),
        fullbore: env!("CARGO_PKG_VERSION").into(),
        job: job.identity()?,
        target: kept::target_of(&job, to.server()),
        machine: kept::machine(),
        server: None,
        tables: methods_of(&plan),
        used: Some(plan.used()),
        cores: kept::cores(),
        server_is_here: false,
        read: Some(read.stage.clone()),
        parse: Some(parse.stage),
        ..Ceilings::default()
    };
    let is_server = to.server().is_some();
    let measured = match to.server() {
        Some(server) => {
            let scene = server::Scene { job: &job, server, bounds, reject_dir: &reject_dir };
            scene.measure(&targets, &say, report)?
        }
        None => {
            report.about.insert(
                0,
                "the destination is not a server; a load into a server may be slower".into(),
            );
            None
        }
    };
    let encode = match measured {
        Some(encode) => encode,
        None => {
            let sink = to.into_sink(targets, None, None);
            let encode = encode(&plan, sink.as_sink(), bounds)?;
            say("encode", &encode.stage);
            report.ceilings.encode = Some(encode.stage.clone());
            encode
        }
    };
    if is_server && report.ceilings.database.is_none() && !report.stops() {
        let reason = report.server_notes.pop().unwrap_or_else(|| "no rate was found".into());
        report.unmeasured = Some(reason);
    }
    report.total = total::source_bytes(&plan, &encode.tables);
    report.cached = read.cached;
    if let Some(space) = &mut report.space {
        report.findings.extend(space.judge(report.total));
    }
    // Half a way would be taken for the ceiling of the whole.
    if !report.stops() && report.unmeasured.is_none() {
        report.kept_in = ceilings::keep(&report.ceilings)
            .map_err(|error| report.notes.push(format!("could not save the ceilings: {error}")))
            .ok();
    }
    Ok(())
}

/// Options of a load that mean nothing to a measurement are refused, not passed over.
fn check(args: &AllArgs) -> Result<()> {
    let load = &args.load;
    let refused = [
        (load.resume, "--resume"),
        (load.dry_run, "--dry-run"),
        (load.ceilings.is_some(), "--ceilings"),
        (load.log.log_file.is_some(), "--log-file"),
        (load.reject_dir.is_some(), "--reject-dir"),
        (load.live.is_some(), "--live"),
    ];
    refuse_given(&refused, "applies to `fullbore load`, not to preflight", "")?;
    if !(args.time > 0.0 && args.time <= 3600.0) {
        return Err(Error::usage_with_hint(
            "--time must be more than 0 and at most 3600",
            "--time 5",
        ));
    }
    Ok(())
}

/// What can be read only once is for the load.
fn check_sources(job: &Job) -> Result<()> {
    refuse_databases(job)?;
    for source in job.tables.iter().flat_map(|table| &table.sources) {
        if let Some(file) = read_once(source)? {
            return Err(Error::usage_with_hint(
                format!("{} can be read only once, and the load needs it", file.path.display()),
                "measure with a regular file of the same kind, such as a part of the data",
            ));
        }
    }
    Ok(())
}

/// A plan of which any beginning is like the whole: the pieces of all tables side by side.
fn to_measure(plan: Plan, folder: &Path) -> Plan {
    let mut done = vec![0_u64; plan.tables.len()];
    let mut whole = vec![0_u64; plan.tables.len()];
    for piece in &plan.pieces {
        whole[piece.table] += piece.bytes.max(1);
    }
    let mut placed: Vec<_> = plan
        .pieces
        .into_iter()
        .map(|piece| {
            let size = piece.bytes.max(1);
            done[piece.table] += size;
            let middle = done[piece.table] as f64 - size as f64 / 2.0;
            (middle / whole[piece.table] as f64, piece)
        })
        .collect();
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    Plan {
        pieces: placed.into_iter().map(|(_, piece)| piece).collect(),
        tables_at_once: true,
        run_dir: folder.to_path_buf(),
        reject_dir: folder.to_path_buf(),
        ..plan
    }
}

fn methods_of(plan: &Plan) -> Vec<MeasuredTable> {
    let tables = plan.tables.iter();
    tables.map(|table| MeasuredTable { name: table.name.clone(), method: table.method }).collect()
}

/// Reading, parsing and encoding, the encoded rows thrown away.
fn encode(plan: &Arc<Plan>, sink: &dyn Sink, bounds: Bounds) -> Result<Measured> {
    let stop: Arc<AtomicBool> = Arc::default();
    measured::run(plan, &Encoded::thrown_away(sink), bounds, None, &stop)
}
