//! A run, or a part of one, measured: for so long, or for so many bytes, and then stopped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use fullbore_load::plan::Plan;
use fullbore_load::sink::Sink;
use fullbore_preflight::cpu::process_seconds;
use fullbore_preflight::db::cpu::ServerCpu;
use fullbore_read::error::Error;
use fullbore_record::ceilings::Stage;
use fullbore_record::{Event, Recorder, TableTotals};

use crate::load::signals::INTERRUPTED;

/// How much may be measured at once.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub seconds: f64,
    pub bytes: u64,
}

/// How far everything was at a moment.
#[derive(Debug, Clone)]
struct Point {
    at: Instant,
    bytes: u64,
    client_cpu: f64,
    server_cpu: Option<f64>,
}

/// What was measured, and what of each table was handed on until then.
#[derive(Debug, Clone)]
pub struct Measured {
    pub stage: Stage,
    pub tables: Vec<TableTotals>,
}

#[derive(Default)]
struct Seen {
    points: Vec<Point>,
    tables: Vec<TableTotals>,
}

/// Runs a plan into a sink. It is stopped at a bound, and has then left nothing that its
/// `abort` does not take away. `stop` may be set by others.
pub fn run(
    plan: &Arc<Plan>,
    sink: &dyn Sink,
    bounds: Bounds,
    server: Option<&ServerCpu>,
    stop: &Arc<AtomicBool>,
) -> Result<Measured, Error> {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let recorder = {
        let (seen, stop, server) = (seen.clone(), stop.clone(), server.cloned());
        Recorder::told_to(Box::new(move |entry| {
            let tables: &[TableTotals] = match &entry.event {
                Event::RunStarted { .. } => &[],
                Event::Sample { tables, .. } => tables,
                _ => return,
            };
            if stop.load(Ordering::Relaxed) {
                // What comes after it is no part of what is measured.
                return;
            }
            let mut seen = seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let point = Point {
                at: Instant::now(),
                bytes: tables.iter().map(|table| table.bytes_sent).sum(),
                client_cpu: process_seconds(),
                server_cpu: server.as_ref().map(ServerCpu::seconds),
            };
            // It begins when the first rows can move, not when the target is made ready; but what is
            // small may be over before the first sample.
            if point.bytes == 0 {
                seen.points.clear();
            }
            let first = seen.points.first().unwrap_or(&point);
            let is_enough = point.at.duration_since(first.at).as_secs_f64() >= bounds.seconds
                || point.bytes >= bounds.bytes;
            seen.points.push(point);
            seen.tables = tables.to_vec();
            if is_enough || INTERRUPTED.load(Ordering::Relaxed) {
                stop.store(true, Ordering::Relaxed);
            }
        }))
    };
    let result = fullbore_load::run::run(plan, sink, &recorder, stop);
    match result {
        Ok(_) => {}
        Err(failure) if matches!(failure.error, Error::Interrupted) => {
            if INTERRUPTED.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
        }
        Err(failure) => return Err(failure.error),
    }
    let seen = seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let stage = match (seen.points.first(), seen.points.last()) {
        (Some(first), Some(last)) => between(first, last),
        _ => Stage::default(),
    };
    Ok(Measured { stage, tables: seen.tables.clone() })
}

fn between(first: &Point, last: &Point) -> Stage {
    let seconds = last.at.duration_since(first.at).as_secs_f64().max(1e-6);
    let bytes = last.bytes - first.bytes;
    let gigabytes = (bytes as f64 / 1e9).max(1e-9);
    Stage {
        bytes_per_second: bytes as f64 / seconds,
        client_cpu: (last.client_cpu - first.client_cpu) / gigabytes,
        server_cpu: last
            .server_cpu
            .zip(first.server_cpu)
            .map(|(last, first)| (last - first) / gigabytes),
        sessions: None,
        bytes,
        seconds,
    }
}
