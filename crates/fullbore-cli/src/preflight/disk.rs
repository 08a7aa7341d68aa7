//! `fullbore preflight disk`.

use std::io::{self, Write};

use fullbore_preflight::Error;
use fullbore_preflight::disk::{
    Cell, EngineChoice, EngineName, Knee, Operation, PathKind, PathReport, Report, Request,
    run as measure,
};

use super::args::{DiskArgs, Engine};
use super::show;
use super::sizes::short;
use crate::table::Table;
use crate::words::{Screen, bytes, counted, grouped};

pub fn run(args: &DiskArgs) -> Result<(), Error> {
    let operations = match (args.read, args.write) {
        (true, _) => vec![Operation::Read],
        (_, true) => vec![Operation::Write],
        _ => vec![Operation::Read, Operation::Write],
    };
    let request = Request {
        paths: args.paths.clone(),
        operations,
        block_bytes: args.block.clone(),
        depths: args.depth.clone(),
        cell_seconds: args.seconds,
        scratch_bytes: args.size,
        engine: match args.engine {
            Engine::Auto => EngineChoice::Auto,
            Engine::IoUring => EngineChoice::IoUring,
            Engine::Threads => EngineChoice::Threads,
        },
    };
    let report = measure(&request, &mut |report, cell| {
        let names = names(report, &cell.paths);
        tell!(
            "{} {names}: {} x {}: {}/s",
            word(cell.operation),
            short(cell.block_bytes as u64),
            cell.depth,
            bytes(cell.bytes_per_second as u64)
        );
    })?;
    show(args.answer.json, &report, print)
}

fn word(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "write",
    }
}

fn names(report: &Report, paths: &[usize]) -> String {
    let names: Vec<_> =
        paths.iter().map(|index| report.paths[*index].path.display().to_string()).collect();
    names.join(" + ")
}

fn print(report: &Report) -> io::Result<()> {
    let mut out = Screen;
    let engine = match report.engine {
        EngineName::IoUring => "io_uring",
        EngineName::Threads => "threads",
    };
    write!(out, "direct I/O by {engine}")?;
    match &report.engine_reason {
        Some(reason) => writeln!(out, " ({reason})")?,
        None => writeln!(out)?,
    }
    for path in &report.paths {
        writeln!(out, "{}: {}", path.path.display(), about(path))?;
    }
    for knee in &report.knees {
        let cells: Vec<&Cell> = report
            .cells
            .iter()
            .filter(|cell| cell.paths == knee.paths && cell.operation == knee.operation)
            .collect();
        writeln!(out, "\n{} {}", word(knee.operation), names(report, &knee.paths))?;
        matrix(&cells, knee).print(&mut out)?;
        writeln!(
            out,
            "knee: {} x {}, {}/s (best: {}/s)",
            short(knee.block_bytes as u64),
            knee.depth,
            bytes(knee.bytes_per_second as u64),
            bytes(knee.best_bytes_per_second as u64)
        )?;
        if let [_, _, ..] = knee.paths.as_slice() {
            let at_knee =
                |cell: &&&Cell| (cell.block_bytes, cell.depth) == (knee.block_bytes, knee.depth);
            for cell in cells.iter().filter(at_knee) {
                for (path, rate) in cell.paths.iter().zip(&cell.path_bytes_per_second) {
                    let name = report.paths[*path].path.display();
                    writeln!(out, "  {name}: {}/s", bytes(*rate as u64))?;
                }
            }
        }
    }
    Ok(())
}

fn about(path: &PathReport) -> String {
    let mut text = match path.kind {
        PathKind::File => format!("a file of {}, only read", bytes(path.bytes)),
        PathKind::Device => format!("a device of {}, only read", bytes(path.bytes)),
        PathKind::Folder => format!("a folder, with a scratch file of {}", bytes(path.bytes)),
    };
    if let Some(extents) = &path.extents {
        let more = if extents.truncated { " and more" } else { "" };
        text += &format!(
            "; in {}{more}, {} each on average",
            counted(extents.fragments as u64, "fragment"),
            bytes(extents.fragment_bytes)
        );
    } else if let (PathKind::File, Some(reason)) = (path.kind, &path.extents_reason) {
        text += &format!("; its layout on the device is unknown: {reason}");
    }
    if let Some(rate) = path.first_write_bytes_per_second {
        text += &format!("; first written at {}/s", bytes(rate as u64));
    }
    text
}

fn matrix(cells: &[&Cell], knee: &Knee) -> Table {
    let head =
        ["block", "in flight", "MB/s", "CPU s/GB", "p50 us", "p95 us", "p99 us", "max us", ""];
    let mut table = Table::new(&head, 1);
    for cell in cells {
        let is_knee = (cell.block_bytes, cell.depth) == (knee.block_bytes, knee.depth);
        let us = |value: f64| grouped(value.round() as u64);
        table.add(vec![
            short(cell.block_bytes as u64),
            cell.depth.to_string(),
            grouped((cell.bytes_per_second / 1e6).round() as u64),
            format!("{:.3}", cell.cpu_seconds_per_gigabyte),
            us(cell.latency_us.p50),
            us(cell.latency_us.p95),
            us(cell.latency_us.p99),
            us(cell.latency_us.max),
            if is_knee { "knee".into() } else { String::new() },
        ]);
    }
    table
}
