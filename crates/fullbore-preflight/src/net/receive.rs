//! The listener's half of a measurement: streams that are read as fast as they come.

use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fullbore_pgwire::tcp_info::{tcp_info, unread_bytes};
use socket2::SockRef;

use super::message::{Measurement, Received, StreamReceived};
use super::socket::set_low_water;
use crate::cpu::thread_seconds;
use crate::limits::{DRAIN_TIME_MAX, MESSAGE_BYTES_MAX, SAMPLE_INTERVAL_MIN, SAMPLES_MAX};
use crate::steady::steady;

/// What a stream is read into, at a time.
const READ_BYTES: usize = 512 << 10;

/// What has to be there before a reader is woken: a small part of its buffer as it is by then, so that
/// the window is never narrowed by what waits to be read, and of what comes from one look to the next,
/// so that a slow stream is counted as finely as a quick one. Woken for each packet, a reader of
/// 100 Mb/s takes twice the CPU.
const LOW_WATER_SHARE: usize = 8;
const LOW_WATERS_IN_INTERVAL: u64 = 20;
const LOW_WATER_BYTES_MAX: usize = 128 << 10;

fn low_water(buffer_bytes: usize, came_bytes: u64) -> usize {
    let came = usize::try_from(came_bytes / LOW_WATERS_IN_INTERVAL).unwrap_or(usize::MAX);
    (buffer_bytes / LOW_WATER_SHARE).min(came).clamp(1, LOW_WATER_BYTES_MAX)
}

/// A stream that is being read.
pub struct Receiving {
    stream: Arc<TcpStream>,
    bytes: Arc<AtomicU64>,
    reader: JoinHandle<Ended>,
}

/// How a stream ended: when, and with how much CPU.
struct Ended {
    at: Instant,
    cpu_seconds: f64,
}

/// Begins to read.
pub fn begin(stream: TcpStream, window_bytes: Option<usize>) -> std::io::Result<Receiving> {
    if let Some(window) = window_bytes {
        // It has it from the listening socket, but for kernels where that can't be done.
        SockRef::from(&stream).set_recv_buffer_size(window)?;
    }
    stream.set_read_timeout(None)?;
    let stream = Arc::new(stream);
    let bytes = Arc::new(AtomicU64::new(0));
    let reader = {
        let (stream, bytes) = (Arc::clone(&stream), Arc::clone(&bytes));
        thread::Builder::new().name("receive".into()).spawn(move || read(&stream, &bytes))?
    };
    Ok(Receiving { stream, bytes, reader })
}

/// To the end of the stream, or until it is shut down by us.
fn read(mut stream: &TcpStream, bytes: &AtomicU64) -> Ended {
    let mut buffer = vec![0; READ_BYTES];
    let mut total = 0;
    let mut at = Instant::now();
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                total += count as u64;
                bytes.store(total, Ordering::Relaxed);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
        at = Instant::now();
    }
    Ended { at, cpu_seconds: thread_seconds() }
}

/// What one stream was seen to be like.
#[derive(Default)]
struct Seen {
    totals: Vec<u64>,
    window_bytes: u64,
    queue_share_sum: f64,
}

/// Watches all streams from now on to their end, which is near when the time is over.
pub fn watch(streams: Vec<Receiving>, measurement: &Measurement) -> Received {
    let began = Instant::now();
    let time = Duration::from_secs_f64(measurement.seconds);
    let interval = (time / SAMPLES_MAX as u32).max(SAMPLE_INTERVAL_MIN);
    let mut seen: Vec<Seen> = streams.iter().map(|_| Seen::default()).collect();
    let bytes_allowed =
        measurement.bytes_max.saturating_add((measurement.streams * MESSAGE_BYTES_MAX) as u64);
    let mut totals = Vec::new();
    while totals.len() < SAMPLES_MAX && began.elapsed() < time {
        let next = began + interval * (totals.len() as u32 + 1);
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let mut sum = 0;
        for (stream, seen) in streams.iter().zip(&mut seen) {
            sum += sample(stream, seen);
        }
        totals.push(sum);
        // Who sends more than announced is not listened to any longer.
        if sum > bytes_allowed {
            for stream in &streams {
                let _ = stream.stream.shutdown(Shutdown::Both);
            }
            break;
        }
        if streams.iter().all(|stream| stream.reader.is_finished()) {
            break;
        }
    }
    let cut = steady(&totals, interval.as_secs_f64());
    let drained = Instant::now() + DRAIN_TIME_MAX;
    while Instant::now() < drained && !streams.iter().all(|stream| stream.reader.is_finished()) {
        thread::sleep(Duration::from_millis(5));
    }
    let samples = totals.len().max(1) as f64;
    let streams = streams
        .into_iter()
        .zip(seen)
        .map(|(stream, seen)| {
            // What has not ended by now is ended: its reader sees the end of the stream.
            let _ = stream.stream.shutdown(Shutdown::Both);
            let buffer = SockRef::from(&*stream.stream).recv_buffer_size().unwrap_or(0) as u64;
            let ended = stream.reader.join().unwrap_or(Ended { at: began, cpu_seconds: 0.0 });
            let before = cut.from.checked_sub(1).map_or(0, |at| seen.totals[at]);
            let last = seen.totals.last().copied().unwrap_or(0);
            StreamReceived {
                bytes: stream.bytes.load(Ordering::Relaxed),
                steady_bytes: last.saturating_sub(before),
                ended_seconds: ended.at.saturating_duration_since(began).as_secs_f64(),
                cpu_seconds: ended.cpu_seconds,
                window_bytes: seen.window_bytes,
                buffer_bytes: buffer,
                queue_share: seen.queue_share_sum / samples,
            }
        })
        .collect();
    Received { interval_seconds: interval.as_secs_f64(), steady_from: cut.from, totals, streams }
}

fn sample(stream: &Receiving, seen: &mut Seen) -> u64 {
    let bytes = stream.bytes.load(Ordering::Relaxed);
    let came = bytes - seen.totals.last().copied().unwrap_or(0);
    seen.totals.push(bytes);
    if let Ok(info) = tcp_info(&stream.stream) {
        seen.window_bytes = seen.window_bytes.max(info.rcv_wnd.into());
    }
    let buffer = SockRef::from(&*stream.stream).recv_buffer_size().unwrap_or(0);
    set_low_water(&stream.stream, low_water(buffer, came));
    if buffer > 0 {
        seen.queue_share_sum += unread_bytes(&stream.stream) as f64 / buffer as f64;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::low_water;

    #[test]
    fn readers_wait_for_little_of_their_buffer_and_of_what_comes() {
        // 6 MB of buffer, 1 Gb/s looked at ten times a second.
        assert_eq!(low_water(6 << 20, 12_500_000), 128 << 10);
        // A small window is not held up by what waits in it.
        assert_eq!(low_water(64 << 10, 12_500_000), 8 << 10);
        // 10 Mb/s, a deep buffer.
        assert_eq!(low_water(6 << 20, 125_000), 6250);
        // Nothing came: woken by the first byte.
        assert_eq!(low_water(6 << 20, 0), 1);
    }
}
