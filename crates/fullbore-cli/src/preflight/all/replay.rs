//! The server alone: rows that are encoded already, sent by so many sessions into the scratch schema.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use fullbore_load::plan::Plan;
use fullbore_load::sink::{Portion, Sink, TextRows, Writer};
use fullbore_preflight::cpu::process_seconds;
use fullbore_preflight::db::cpu::ServerCpu;
use fullbore_read::error::{Error, Result};
use fullbore_record::ceilings::Stage;

use super::encoded::{KeptPiece, Rows};
use super::measured::Bounds;
use crate::load::signals::INTERRUPTED;

/// How the rows that were kept are sent.
pub struct Replay<'a> {
    pub plan: &'a Arc<Plan>,
    pub sink: &'a dyn Sink,
    pub kept: &'a [KeptPiece],
    /// Source bytes behind a row of each table.
    pub bytes_per_row: &'a [f64],
    pub bounds: Bounds,
    pub server: Option<&'a ServerCpu>,
    /// Takes away what was sent; `None` where the same rows can be sent once more.
    pub empty: Option<&'a dyn Fn() -> Result<()>>,
}

/// One thread's share of a pass.
struct Share {
    bytes: f64,
    /// Until it had nothing left: the last piece of one must not count as idle time of the others.
    seconds: f64,
}

impl Replay<'_> {
    /// The rate of so many sessions: all rows are sent, again and again until a bound is reached; no
    /// longer than twice that, with what is taken away in between.
    /// Also how many source bytes are in the tables then.
    pub fn run(&self, sessions: usize) -> Result<(Stage, u64)> {
        let mut sum = Stage { sessions: Some(sessions), ..Stage::default() };
        let (mut client_cpu, mut server_cpu) = (0.0, self.server.map(|_| 0.0));
        let (mut rated, mut there) = (0.0, 0);
        let started = Instant::now();
        let is_late = || started.elapsed().as_secs_f64() >= 2.0 * self.bounds.seconds;
        self.sink.prepare(self.plan)?;
        // Sessions are opened beforehand: that is no part of what is measured.
        let mut writers = Vec::new();
        for stream in 0..sessions {
            writers.push(self.sink.open(self.plan, stream)?);
        }
        loop {
            let (began, cpu) = (Instant::now(), process_seconds());
            let before = self.server.map(ServerCpu::seconds);
            let left = Bounds {
                seconds: self.bounds.seconds - sum.seconds,
                bytes: self.bounds.bytes.saturating_sub(sum.bytes),
            };
            let shares = self.pass(&mut writers, left)?;
            let seconds = began.elapsed().as_secs_f64().max(1e-6);
            client_cpu += process_seconds() - cpu;
            for (sum, (server, before)) in server_cpu.iter_mut().zip(self.server.zip(before)) {
                *sum += server.seconds() - before;
            }
            let rate: f64 = shares.iter().map(|share| share.bytes / share.seconds).sum();
            rated += rate * seconds;
            sum.seconds += seconds;
            let bytes = shares.iter().map(|share| share.bytes).sum::<f64>() as u64;
            sum.bytes += bytes;
            there += bytes;
            if INTERRUPTED.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            if sum.seconds >= self.bounds.seconds || sum.bytes >= self.bounds.bytes || is_late() {
                break;
            }
            if let Some(empty) = self.empty {
                empty()?;
                there = 0;
                self.sink.prepare(self.plan)?;
            }
        }
        let gigabytes = (sum.bytes as f64 / 1e9).max(1e-9);
        let stage = Stage {
            bytes_per_second: rated / sum.seconds,
            client_cpu: client_cpu / gigabytes,
            server_cpu: server_cpu.map(|cpu| cpu / gigabytes),
            ..sum
        };
        Ok((stage, there))
    }

    /// Sends all rows once, or until a bound is reached.
    fn pass(&self, writers: &mut [Box<dyn Writer + '_>], bounds: Bounds) -> Result<Vec<Share>> {
        let waiting: Mutex<VecDeque<&KeptPiece>> = Mutex::new(self.kept.iter().collect());
        let sent = AtomicU64::new(0);
        let began = Instant::now();
        let is_over = || {
            began.elapsed().as_secs_f64() >= bounds.seconds
                || sent.load(Ordering::Relaxed) >= bounds.bytes
                || INTERRUPTED.load(Ordering::Relaxed)
        };
        let work = |writer: &mut (dyn Writer + '_)| -> Result<Share> {
            let mut bytes = 0.0;
            // Who was late to begin measures something, too.
            while bytes == 0.0 || !is_over() {
                let next = waiting.lock().unwrap_or_else(|p| p.into_inner()).pop_front();
                let Some(kept) = next else { break };
                writer.begin(&kept.piece)?;
                let mut portion = Portion::default();
                for rows in &kept.rows {
                    if bytes > 0.0 && is_over() {
                        break;
                    }
                    portion.rows_sent += rows.count() - send(writer, rows)?;
                    let source = rows.count() as f64 * self.bytes_per_row[kept.piece.table];
                    sent.fetch_add(source as u64, Ordering::Relaxed);
                    bytes += source;
                }
                writer.commit(&portion)?;
            }
            Ok(Share { bytes, seconds: began.elapsed().as_secs_f64().max(1e-6) })
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                writers.iter_mut().map(|writer| scope.spawn(|| work(writer.as_mut()))).collect();
            workers
                .into_iter()
                .map(|worker| worker.join().expect("sending does not panic"))
                .collect()
        })
    }
}

/// Sends rows; how many of them the server refused. Which these are is for the trial to tell.
fn send(writer: &mut (dyn Writer + '_), rows: &Rows) -> Result<u64> {
    match rows {
        Rows::Typed { encoded, .. } => writer.write(encoded).map(|()| 0),
        Rows::Text { lines, rows } => {
            let parts = [lines.as_slice()];
            let text = TextRows { parts: &parts, rows: *rows };
            let refusals = writer.judging().map(|judging| judging.judge(text)).transpose()?;
            Ok(refusals.map_or(*rows, |refusals| refusals.len() as u64))
        }
    }
}
