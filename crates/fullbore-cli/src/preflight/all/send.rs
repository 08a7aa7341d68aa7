//! The network alone: bytes to the server that it takes off the connection and drops.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fullbore_pgwire::{ConnectionError, ConnectionOptions, Session};
use fullbore_preflight::cpu::process_seconds;
use fullbore_preflight::db::cpu::ServerCpu;
use fullbore_record::ceilings::Stage;

use super::measured::Bounds;
use crate::load::signals::INTERRUPTED;

/// One value of a row: large, so that the server's work is taking bytes and nothing else.
const VALUE_BYTES: usize = 256 << 10;

const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const TRAILER: &[u8] = &[0xff, 0xff];

/// Whether there is a network to measure: a unix socket is none.
pub fn is_network(session: &mut Session) -> Result<bool, ConnectionError> {
    let rows = session.query("SELECT inet_server_addr() IS NOT NULL AS is_network")?;
    Ok(rows.first().is_some_and(|row| row.flag("is_network")))
}

/// So many sessions send as fast as they can; the rate in bytes of source, each of which is
/// `sent_per_source_byte` on the way.
pub fn run(
    options: &ConnectionOptions,
    sessions: usize,
    sent_per_source_byte: f64,
    bounds: Bounds,
    server: Option<&ServerCpu>,
) -> Result<Stage, ConnectionError> {
    let mut row = Vec::with_capacity(VALUE_BYTES + 6);
    row.extend_from_slice(&1_i16.to_be_bytes());
    row.extend_from_slice(&(VALUE_BYTES as i32).to_be_bytes());
    row.resize(VALUE_BYTES + 6, 0x5a);
    let mut opened = Vec::new();
    for _ in 0..sessions {
        let mut session = Session::connect(options)?.pinned();
        session.execute("CREATE TEMPORARY TABLE fullbore_nothing (bytes bytea)")?;
        opened.push(session);
    }
    let most = (bounds.bytes as f64 * sent_per_source_byte) as u64;
    let sent = AtomicU64::new(0);
    let (began, cpu, server_cpu) =
        (Instant::now(), process_seconds(), server.map(ServerCpu::seconds));
    std::thread::scope(|scope| {
        let workers: Vec<_> = opened
            .iter_mut()
            .map(|session| {
                let (row, sent) = (&row, &sent);
                scope.spawn(move || -> Result<(), ConnectionError> {
                    // Each row is read and then left out.
                    let mut copy = session.copy_in(
                        "COPY pg_temp.fullbore_nothing FROM STDIN (FORMAT binary) WHERE false",
                    )?;
                    copy.send(HEADER)?;
                    while began.elapsed().as_secs_f64() < bounds.seconds
                        && sent.load(Ordering::Relaxed) < most
                        && !INTERRUPTED.load(Ordering::Relaxed)
                    {
                        copy.send(row)?;
                        sent.fetch_add(row.len() as u64, Ordering::Relaxed);
                    }
                    copy.send(TRAILER)?;
                    // What is still in buffers has not arrived.
                    copy.finish().map(drop)
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("sending does not panic"))
    })?;
    let seconds = began.elapsed().as_secs_f64().max(1e-6);
    let bytes = sent.into_inner() as f64 / sent_per_source_byte;
    let gigabytes = (bytes / 1e9).max(1e-9);
    Ok(Stage {
        bytes_per_second: bytes / seconds,
        client_cpu: (process_seconds() - cpu) / gigabytes,
        server_cpu: server
            .zip(server_cpu)
            .map(|(server, before)| (server.seconds() - before) / gigabytes),
        sessions: Some(sessions),
        bytes: bytes as u64,
        seconds,
    })
}
