//! I/Os in flight by threads, one each: where io_uring is forbidden.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use super::Operation;
use super::buffers::Buffers;
use super::engine::{Done, Work, short};

pub fn run(work: &Work, buffers: &Buffers) -> io::Result<Done> {
    let next = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let began = Instant::now();
    let results = thread::scope(|scope| {
        let handles: Vec<_> = (0..work.depth)
            .map(|number| {
                let (next, failed) = (&next, &failed);
                thread::Builder::new()
                    .name("disk".into())
                    .spawn_scoped(scope, move || one(work, buffers, number, began, next, failed))
            })
            .collect();
        handles
            .into_iter()
            .map(|handle| {
                handle.and_then(|handle| {
                    handle.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
                })
            })
            .collect::<Vec<_>>()
    });
    let mut done = Done { time: began.elapsed(), ..Done::default() };
    for result in results {
        let part = result?;
        done.bytes += part.bytes;
        done.latency += &part.latency;
    }
    Ok(done)
}

/// One I/O after the other, of whatever block is the next.
fn one(
    work: &Work,
    buffers: &Buffers,
    number: usize,
    began: Instant,
    next: &AtomicU64,
    failed: &AtomicBool,
) -> io::Result<Done> {
    let buffer = buffers.at(number).cast::<libc::c_void>();
    let mut done = Done::default();
    let mut now = Instant::now();
    loop {
        let begun = next.fetch_add(1, Ordering::Relaxed);
        if failed.load(Ordering::Relaxed) || !work.stop.allows(began, now, begun) {
            return Ok(done);
        }
        let offset = ((work.first_block + begun) % work.blocks) * work.block_bytes as u64;
        let offset = libc::off_t::try_from(offset).expect("a file is not that long");
        if work.operation == Operation::Write {
            buffers.stamp(number, begun);
        }
        // SAFETY: the buffer is this thread's alone and of this length; the file outlives `run`.
        let moved = unsafe {
            match work.operation {
                Operation::Read => libc::pread(work.file, buffer, work.block_bytes, offset),
                Operation::Write => libc::pwrite(work.file, buffer, work.block_bytes, offset),
            }
        };
        let error = match usize::try_from(moved) {
            Ok(moved) if moved == work.block_bytes => None,
            Ok(moved) => Some(short(work.operation, moved, work.block_bytes)),
            Err(_) => Some(io::Error::last_os_error()),
        };
        if let Some(error) = error {
            failed.store(true, Ordering::Relaxed);
            return Err(error);
        }
        let ended = Instant::now();
        let time = ended.duration_since(now);
        done.latency.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        done.bytes += work.block_bytes as u64;
        now = ended;
    }
}
