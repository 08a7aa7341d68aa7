//! One cell of the matrix: one setting, on one path or on several at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::Operation;
use super::buffers::Buffers;
use super::engine::{Done, EngineName, Stop, Work, latencies};
use super::target::Target;
use crate::cpu::process_seconds;
use crate::error::{Error, Result};
use crate::limits::{FILL_BLOCK_BYTES, FILL_DEPTH};

#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub operation: Operation,
    pub block_bytes: usize,
    pub depth: usize,
    pub time: Duration,
}

/// What one setting gave.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// Indexes into the report's paths.
    pub paths: Vec<usize>,
    pub operation: Operation,
    pub block_bytes: usize,
    /// I/Os in flight on each path.
    pub depth: usize,
    pub bytes: u64,
    pub seconds: f64,
    /// Of all paths together.
    pub bytes_per_second: f64,
    /// Of each path.
    pub path_bytes_per_second: Vec<f64>,
    /// CPU of this machine's, in user code and in the kernel on its behalf.
    pub cpu_seconds_per_gigabyte: f64,
    pub latency_us: Latency,
    /// What it took to have everything on the device for sure, after the last write.
    pub sync_seconds: Option<f64>,
}

/// Percentiles of the time from the beginning to the end of an I/O, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

impl Latency {
    fn of(nanoseconds: &Histogram<u64>) -> Self {
        let us = |value: u64| value as f64 / 1e3;
        Self {
            p50: us(nanoseconds.value_at_quantile(0.50)),
            p95: us(nanoseconds.value_at_quantile(0.95)),
            p99: us(nanoseconds.value_at_quantile(0.99)),
            max: us(nanoseconds.max()),
        }
    }
}

/// Measures one setting; `None` where a block does not fit into one of the paths, or is no multiple
/// of its smallest unit.
pub fn measure(
    targets: &[&Target],
    paths: &[usize],
    setting: Setting,
    engine: EngineName,
) -> Result<Option<Cell>> {
    let Setting { operation, block_bytes, depth, time } = setting;
    let fits = |target: &&Target| {
        target.bytes >= block_bytes as u64 && block_bytes.is_multiple_of(target.alignment)
    };
    if !targets.iter().all(fits) {
        return Ok(None);
    }
    let works: Vec<Work> = targets
        .iter()
        .map(|target| work_on(target, operation, block_bytes, depth, Stop::After(time)))
        .collect();
    // Filled beforehand: that is no part of what is measured.
    let buffers = targets.iter().map(|target| buffers_for(target, block_bytes, depth)).collect();
    let cpu = process_seconds();
    let done = side_by_side(targets, &works, buffers, engine)?;
    let cpu = process_seconds() - cpu;
    let sync_seconds = match operation {
        Operation::Read => None,
        Operation::Write => Some(sync(targets)?),
    };
    let mut latency = latencies();
    done.iter().for_each(|done| latency += &done.latency);
    let bytes: u64 = done.iter().map(|done| done.bytes).sum();
    let seconds = done.iter().map(|done| done.time.as_secs_f64()).fold(0.0, f64::max);
    let rates: Vec<f64> =
        done.iter().map(|done| done.bytes as f64 / done.time.as_secs_f64().max(1e-9)).collect();
    Ok(Some(Cell {
        paths: paths.to_vec(),
        operation,
        block_bytes,
        depth,
        bytes,
        seconds,
        bytes_per_second: bytes as f64 / seconds.max(1e-9),
        path_bytes_per_second: rates,
        cpu_seconds_per_gigabyte: cpu / (bytes as f64 / 1e9).max(1e-9),
        latency_us: Latency::of(&latency),
        sync_seconds,
    }))
}

/// Writes a scratch file for the first time, and returns the rate. Otherwise reads would find holes,
/// and the first writes would be of another kind than those after them.
pub fn fill(target: &Target, engine: EngineName) -> Result<f64> {
    let blocks = target.bytes / FILL_BLOCK_BYTES as u64;
    let stop = Stop::AfterBlocks(blocks);
    let mut work = work_on(target, Operation::Write, FILL_BLOCK_BYTES, FILL_DEPTH, stop);
    work.first_block = 0;
    let buffers = buffers_for(target, FILL_BLOCK_BYTES, FILL_DEPTH);
    let began = Instant::now();
    let done = engine
        .run(&work, buffers)
        .map_err(|error| target.failed("write a scratch file in", error))?;
    sync(&[target])?;
    Ok(done.bytes as f64 / began.elapsed().as_secs_f64().max(1e-9))
}

/// Other bytes at each call, for each path and each setting.
fn buffers_for(target: &Target, block_bytes: usize, depth: usize) -> Buffers {
    Buffers::new(depth, block_bytes, target.alignment, next_number())
}

/// A number that is never used twice.
fn next_number() -> u64 {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

fn work_on(
    target: &Target,
    operation: Operation,
    block_bytes: usize,
    depth: usize,
    stop: Stop,
) -> Work {
    let blocks = target.bytes / block_bytes as u64;
    Work {
        file: target.raw_fd(),
        operation,
        block_bytes,
        depth,
        blocks,
        // Each setting starts elsewhere: what a cache below us kept of the last one is of less use.
        first_block: next_number().wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks,
        stop,
    }
}

/// All paths at once, each by a thread of its own.
fn side_by_side(
    targets: &[&Target],
    works: &[Work],
    buffers: Vec<Buffers>,
    engine: EngineName,
) -> Result<Vec<Done>> {
    let start = Barrier::new(works.len());
    let results: Vec<_> = thread::scope(|scope| {
        let handles: Vec<_> = works
            .iter()
            .zip(buffers)
            .map(|(work, buffers)| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    engine.run(work, buffers)
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("an engine does not panic")).collect()
    });
    let what = match works.first().map(|work| work.operation) {
        Some(Operation::Write) => "write a scratch file in",
        _ => "read",
    };
    results
        .into_iter()
        .zip(targets)
        .map(|(result, target)| result.map_err(|error| target.failed(what, error)))
        .collect()
}

fn sync(targets: &[&Target]) -> Result<f64> {
    let began = Instant::now();
    for target in targets {
        target.sync().map_err(|source| Error::Path {
            what: "sync a scratch file in",
            path: target.path.clone(),
            source,
            hint: None,
        })?;
    }
    Ok(began.elapsed().as_secs_f64())
}
