//! I/Os in flight by io_uring: one thread, however many there are.

use std::io;
use std::mem::ManuallyDrop;
use std::time::Instant;

use io_uring::{IoUring, opcode, squeue, types};

use super::Operation;
use super::buffers::Buffers;
use super::engine::{Done, Work, short};

/// Whether this system lets us have a ring at all (sysctl, seccomp and old kernels don't).
pub fn is_allowed() -> io::Result<()> {
    IoUring::new(1).map(drop)
}

pub fn run(work: &Work, buffers: Buffers) -> io::Result<Done> {
    let mut ring = IoUring::new(u32::try_from(work.depth).expect("bounded by the request"))?;
    // The kernel reads and writes them until each I/O has ended: they are freed only then.
    let mut buffers = ManuallyDrop::new(buffers);
    let mut flight = Flight { begun: vec![Instant::now(); work.depth], blocks: 0, in_flight: 0 };
    let mut done = Done::default();
    let began = Instant::now();
    let result = go_round(work, &mut ring, &buffers, &mut flight, &mut done, began);
    done.time = began.elapsed();
    if flight.in_flight == 0 {
        // SAFETY: no I/O is under way any more, and nobody uses the buffers after this.
        unsafe { ManuallyDrop::drop(&mut buffers) };
    }
    result.map(|()| done)
}

/// Which I/Os are under way.
struct Flight {
    begun: Vec<Instant>,
    blocks: u64,
    in_flight: usize,
}

fn go_round(
    work: &Work,
    ring: &mut IoUring,
    buffers: &Buffers,
    flight: &mut Flight,
    done: &mut Done,
    began: Instant,
) -> io::Result<()> {
    let mut failure = None;
    for slot in 0..work.depth {
        if work.stop.allows(began, Instant::now(), flight.blocks) {
            begin(work, ring, buffers, flight, slot, Instant::now())?;
        }
    }
    while flight.in_flight > 0 {
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            // Interrupted, or for the moment out of memory: what is under way still ends.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
                ) => {}
            Err(error) => return Err(error),
        }
        let now = Instant::now();
        // Taken out first: beginning the next one needs the ring as well.
        let mut ended = [(0, 0); 64];
        loop {
            let mut count = 0;
            for (place, entry) in ended.iter_mut().zip(ring.completion()) {
                *place = (entry.user_data() as usize, entry.result());
                count += 1;
            }
            for (slot, result) in &ended[..count] {
                flight.in_flight -= 1;
                match usize::try_from(*result) {
                    Ok(moved) if moved == work.block_bytes => {
                        done.bytes += moved as u64;
                        let time = now.duration_since(flight.begun[*slot]);
                        done.latency
                            .saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
                    }
                    Ok(moved) => failure = Some(short(work.operation, moved, work.block_bytes)),
                    Err(_) => failure = Some(io::Error::from_raw_os_error(-result)),
                }
                if failure.is_none() && work.stop.allows(began, now, flight.blocks) {
                    begin(work, ring, buffers, flight, *slot, now)?;
                }
            }
            if count < ended.len() {
                break;
            }
        }
    }
    failure.map_or(Ok(()), Err)
}

fn begin(
    work: &Work,
    ring: &mut IoUring,
    buffers: &Buffers,
    flight: &mut Flight,
    slot: usize,
    now: Instant,
) -> io::Result<()> {
    let block = (work.first_block + flight.blocks) % work.blocks;
    let offset = block * work.block_bytes as u64;
    let (file, length) = (types::Fd(work.file), work.block_bytes as u32);
    let buffer = buffers.at(slot);
    if work.operation == Operation::Write {
        buffers.stamp(slot, flight.blocks);
    }
    let entry: squeue::Entry = match work.operation {
        Operation::Read => opcode::Read::new(file, buffer, length).offset(offset).build(),
        Operation::Write => opcode::Write::new(file, buffer, length).offset(offset).build(),
    };
    let entry = entry.user_data(slot as u64);
    // SAFETY: the file outlives the call of `run`; the buffer is this slot's alone, and freed only
    // when nothing is under way.
    let pushed = unsafe { ring.submission().push(&entry) };
    // There are as many places in the ring as slots, so it is never full.
    pushed.map_err(|_| io::Error::other("the ring is full"))?;
    flight.begun[slot] = now;
    flight.blocks += 1;
    flight.in_flight += 1;
    Ok(())
}
