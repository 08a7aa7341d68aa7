//! The server alone: rows that are encoded already, sent by so many sessions into the scratch schema.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use fullbore_core::ceilings::Stage;
use fullbore_core::destination::{Destination, Portion, TextRows, Writer};
use fullbore_core::error::{Error, Result};
use fullbore_core::plan::Plan;
use fullbore_preflight::cpu::process_seconds;
use fullbore_preflight::db::cpu::ServerCpu;

use super::kept::{KeptPiece, Rows};
use super::measured::Bounds;
use crate::load::signals::INTERRUPTED;

/// Source bytes behind a row of each table.
pub type BytesPerRow = [f64];

/// Sends what was kept; the rate of the sessions together.
pub fn run(
    plan: &Arc<Plan>,
    destination: &dyn Destination,
    kept: &[KeptPiece],
    sessions: usize,
    bytes_per_row: &BytesPerRow,
    bounds: Bounds,
    server: Option<&ServerCpu>,
) -> Result<Stage> {
    destination.prepare(plan)?;
    let waiting: Mutex<VecDeque<&KeptPiece>> = Mutex::new(kept.iter().collect());
    let sent = AtomicU64::new(0);
    // Sessions are opened beforehand: that is no part of what is measured.
    let mut writers = Vec::new();
    for stream in 0..sessions {
        writers.push(destination.open(plan, stream)?);
    }
    let (began, cpu, server_cpu) =
        (Instant::now(), process_seconds(), server.map(ServerCpu::seconds));
    let rates = std::thread::scope(|scope| {
        let workers: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                scope.spawn(|| -> Result<f64> {
                    let mut own = 0.0;
                    let is_over = || {
                        began.elapsed().as_secs_f64() >= bounds.seconds
                            || sent.load(Ordering::Relaxed) >= bounds.bytes
                            || INTERRUPTED.load(Ordering::Relaxed)
                    };
                    while !is_over() {
                        let next =
                            waiting.lock().unwrap_or_else(|p| p.into_inner()).pop_front();
                        let Some(kept) = next else { break };
                        writer.begin(&kept.piece)?;
                        let (mut portion, mut rows_taken) = (Portion::default(), 0);
                        for rows in &kept.rows {
                            if is_over() {
                                break;
                            }
                            rows_taken += rows.count();
                            portion.rows_sent += rows.count() - send(writer.as_mut(), rows)?;
                        }
                        writer.commit(&portion)?;
                        let bytes = rows_taken as f64 * bytes_per_row[kept.piece.table];
                        own += bytes;
                        sent.fetch_add(bytes as u64, Ordering::Relaxed);
                    }
                    // The last piece of one session must not count as idle time of the others.
                    Ok(own / began.elapsed().as_secs_f64().max(1e-6))
                })
            })
            .collect();
        let rates = workers.into_iter().map(|worker| worker.join().expect("no panic"));
        rates.collect::<Result<Vec<f64>>>()
    })?;
    if INTERRUPTED.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    let bytes = sent.into_inner();
    let gigabytes = (bytes as f64 / 1e9).max(1e-9);
    Ok(Stage {
        bytes_per_second: rates.iter().sum(),
        client_cpu: (process_seconds() - cpu) / gigabytes,
        server_cpu: server
            .zip(server_cpu)
            .map(|(server, before)| (server.seconds() - before) / gigabytes),
        sessions: Some(sessions),
        bytes,
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Sends rows; how many of them the server refused. Which these are is for the trial to tell.
fn send(writer: &mut (dyn Writer + '_), rows: &Rows) -> Result<u64> {
    match rows {
        Rows::Typed { encoded, .. } => writer.write(encoded).map(|()| 0),
        Rows::Text { lines, rows } => {
            let parts = [lines.as_slice()];
            Ok(writer.judge(TextRows { parts: &parts, rows: *rows })?.len() as u64)
        }
    }
}
