//! `preflight disk`: how fast paths are read and written past the page cache, by block size and I/Os
//! in flight.
//!
//! A file is read and never written. A folder gets a scratch file that has no name, so it is gone
//! however the process ends. Every path is measured alone, then all of them at once.

mod buffers;
mod cell;
mod engine;
mod extents;
mod target;
mod threads;
mod uring;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use cell::Cell;
pub use engine::EngineName;
pub use extents::Extents;

use crate::error::{Error, Result};
use crate::knee::knee;
use crate::limits::{
    BLOCK_BYTES_MAX, BUFFER_BYTES_MAX, CELL_SECONDS_MAX, CELLS_MAX, DEPTH_MAX, FILL_BLOCK_BYTES,
};
use target::Target;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Request {
    pub paths: Vec<PathBuf>,
    pub operations: Vec<Operation>,
    pub block_bytes: Vec<usize>,
    pub depths: Vec<usize>,
    /// How long each setting is measured.
    pub cell_seconds: f64,
    /// Size of the scratch file in a folder.
    pub scratch_bytes: u64,
    pub engine: EngineChoice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    Read,
    Write,
}

/// How I/Os are kept in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineChoice {
    /// io_uring; threads where the system forbids it.
    Auto,
    IoUring,
    Threads,
}

/// What was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub engine: EngineName,
    /// Why it is not io_uring, where that was not asked for.
    pub engine_reason: Option<String>,
    pub paths: Vec<PathReport>,
    pub cells: Vec<Cell>,
    pub knees: Vec<Knee>,
}

/// What is known of one path.
#[derive(Debug, Clone, Serialize)]
pub struct PathReport {
    pub path: PathBuf,
    pub kind: PathKind,
    /// Bytes that reads and writes go round in.
    pub bytes: u64,
    /// Smallest unit of direct I/O.
    pub alignment: usize,
    /// How the file lies on its device, where the file system tells; not for scratch files.
    pub extents: Option<Extents>,
    /// Why nothing is known of the extents.
    pub extents_reason: Option<String>,
    /// Rate at which a scratch file was written for the first time, into new blocks.
    pub first_write_bytes_per_second: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathKind {
    File,
    Device,
    Folder,
}

/// The smallest setting, in bytes in flight, that reaches nearly the best rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Knee {
    /// Indexes into the report's paths: one, or all that were measured at once.
    pub paths: Vec<usize>,
    pub operation: Operation,
    pub block_bytes: usize,
    pub depth: usize,
    pub bytes_per_second: f64,
    pub best_bytes_per_second: f64,
}

/// Measures everything; `watch` hears of each setting when it is done.
pub fn run(request: &Request, watch: &mut dyn FnMut(&Report, &Cell)) -> Result<Report> {
    check(request)?;
    let (engine, engine_reason) = engine::choose(request.engine)?;
    let writes = request.operations.contains(&Operation::Write);
    check_room(request)?;
    let targets = request
        .paths
        .iter()
        .map(|path| Target::open(path, request.scratch_bytes))
        .collect::<Result<Vec<_>>>()?;
    if request.operations == [Operation::Write]
        && let Some(target) = targets.iter().find(|target| !target.may_write())
    {
        return Err(Error::refused(
            format!("{} is never written to: it is not a folder", target.path.display()),
            "name the folder it is in, which gets a scratch file; or use --read",
        ));
    }
    let mut report = Report {
        engine,
        engine_reason,
        paths: targets.iter().map(Target::report).collect::<Result<_>>()?,
        cells: Vec::new(),
        knees: Vec::new(),
    };
    for (target, path) in targets.iter().zip(&mut report.paths) {
        if target.kind == PathKind::Folder {
            path.first_write_bytes_per_second = Some(cell::fill(target, engine)?);
        }
    }
    for group in groups(targets.len()) {
        let members: Vec<&Target> = group.iter().map(|index| &targets[*index]).collect();
        for operation in &request.operations {
            if *operation == Operation::Write && !(writes && members.iter().all(|t| t.may_write()))
            {
                continue;
            }
            let first = report.cells.len();
            for block_bytes in &request.block_bytes {
                for depth in &request.depths {
                    let setting = cell::Setting {
                        operation: *operation,
                        block_bytes: *block_bytes,
                        depth: *depth,
                        time: Duration::from_secs_f64(request.cell_seconds),
                    };
                    if let Some(cell) = cell::measure(&members, &group, setting, engine)? {
                        watch(&report, &cell);
                        report.cells.push(cell);
                    }
                }
            }
            report.knees.extend(knee_of(&report.cells[first..]));
        }
    }
    Ok(report)
}

/// Each path alone, then all at once.
fn groups(paths: usize) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = (0..paths).map(|index| vec![index]).collect();
    if paths > 1 {
        groups.push((0..paths).collect());
    }
    groups
}

fn knee_of(cells: &[Cell]) -> Option<Knee> {
    let rates: Vec<f64> = cells.iter().map(|cell| cell.bytes_per_second).collect();
    let at = knee(&rates, |at| {
        // Of two settings with as many bytes in flight, the one with fewer I/Os costs less CPU.
        (cells[at].block_bytes * cells[at].depth, cells[at].depth)
    })?;
    let cell = &cells[at];
    Some(Knee {
        paths: cell.paths.clone(),
        operation: cell.operation,
        block_bytes: cell.block_bytes,
        depth: cell.depth,
        bytes_per_second: cell.bytes_per_second,
        best_bytes_per_second: rates.iter().copied().fold(0.0, f64::max),
    })
}

/// Whether each file system has room for the scratch files of all its folders.
fn check_room(request: &Request) -> Result<()> {
    let folders = request.paths.iter().filter_map(|path| {
        let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_dir)?;
        Some((found.dev(), path))
    });
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for (device, path) in folders {
        let count = counts.entry(device).or_default();
        *count += 1;
        target::check_free(path, request.scratch_bytes.saturating_mul(*count))?;
    }
    Ok(())
}

fn check(request: &Request) -> Result<()> {
    let Request { paths, operations, block_bytes, depths, cell_seconds, scratch_bytes, .. } =
        request;
    if paths.is_empty() || operations.is_empty() || block_bytes.is_empty() || depths.is_empty() {
        return Err(Error::refused(
            "there is nothing to measure",
            "name a path, and at least one block size and depth",
        ));
    }
    if let Some(block) = block_bytes.iter().find(|block| !block.is_multiple_of(512) || **block == 0)
    {
        return Err(Error::refused(
            format!("a block of {block} bytes can't be read past the page cache"),
            "give --block in multiples of 512 bytes, better 4096: --block 64k,1M",
        ));
    }
    let (block_max, depth_max) =
        (block_bytes.iter().max().copied().unwrap_or(0), depths.iter().max().copied().unwrap_or(0));
    if block_max > BLOCK_BYTES_MAX {
        return Err(Error::refused(
            format!("a block of {block_max} bytes is more than {BLOCK_BYTES_MAX}"),
            "give smaller ones with --block",
        ));
    }
    if depth_max > DEPTH_MAX || depths.contains(&0) {
        return Err(Error::refused(
            format!("I/Os in flight must be 1 to {DEPTH_MAX}"),
            "give them with --depth: --depth 1,4,16",
        ));
    }
    let buffers = block_max.saturating_mul(depth_max).saturating_mul(paths.len());
    if buffers > BUFFER_BYTES_MAX {
        return Err(Error::refused(
            format!(
                "{} path(s) x {depth_max} I/Os of {block_max} bytes need {buffers} bytes of memory, \
                 more than {BUFFER_BYTES_MAX}",
                paths.len()
            ),
            "give a smaller --block or --depth, or fewer paths at once",
        ));
    }
    if !(*cell_seconds > 0.0 && *cell_seconds <= CELL_SECONDS_MAX) {
        return Err(Error::refused(
            format!("{cell_seconds} s is no time to measure one setting for"),
            format!("give more than 0 and at most {CELL_SECONDS_MAX} with --seconds"),
        ));
    }
    if block_bytes.len() * depths.len() * (paths.len() + 1) * 2 > CELLS_MAX {
        return Err(Error::refused(
            format!("these are more than {CELLS_MAX} settings"),
            "give fewer with --block and --depth",
        ));
    }
    let smallest = block_max.max(FILL_BLOCK_BYTES) as u64;
    if *scratch_bytes < smallest {
        return Err(Error::refused(
            format!(
                "a scratch file of {scratch_bytes} bytes is smaller than one block of {smallest}"
            ),
            "give a larger --size",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_alone_then_all() {
        assert_eq!(groups(1), [vec![0]]);
        assert_eq!(groups(2), [vec![0], vec![1], vec![0, 1]]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_option() {
        let good = Request {
            paths: vec!["/tmp".into()],
            operations: vec![Operation::Read],
            block_bytes: vec![1 << 20],
            depths: vec![4],
            cell_seconds: 1.0,
            scratch_bytes: 64 << 20,
            engine: EngineChoice::Auto,
        };
        check(&good).expect("a request that is sound");
        type Spoil = fn(&mut Request);
        let refused: [(&str, Spoil); 7] = [
            ("--block", |r| r.block_bytes = vec![1000]),
            ("--block", |r| r.block_bytes = vec![128 << 20]),
            ("--depth", |r| r.depths = vec![0]),
            ("--depth", |r| r.depths = vec![1025]),
            ("--seconds", |r| r.cell_seconds = f64::NAN),
            ("--size", |r| r.scratch_bytes = 1000),
            ("--block", |r| (r.block_bytes, r.depths) = (vec![64 << 20], vec![17])),
        ];
        for (option, spoil) in refused {
            let mut request = good.clone();
            spoil(&mut request);
            let error = check(&request).expect_err(option);
            assert!(error.is_usage() && error.hint().is_some_and(|hint| hint.contains(option)));
        }
    }
}
