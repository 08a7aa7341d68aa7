//! A WAN lab for scripts: says on stdout, as one JSON object, where its two hosts are, and stands until
//! its standard input ends or its time is over; then it says what it has counted.
//!
//! `fullbore-wan RTT_MS [RATE_MBIT [QUEUE_BYTES [LOSS [SECONDS]]]]`; a rate of 0 is no limit.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use fullbore_testing::wan::{Counted, Wan, WanOptions};

fn main() -> ExitCode {
    let numbers: Result<Vec<f64>, _> = std::env::args().skip(1).map(|arg| arg.parse()).collect();
    let Some(numbers) = numbers.ok().filter(|numbers| (1..=5).contains(&numbers.len())) else {
        eprintln!("usage: fullbore-wan RTT_MS [RATE_MBIT [QUEUE_BYTES [LOSS [SECONDS]]]]");
        return ExitCode::from(2);
    };
    let at = |index: usize| numbers.get(index).copied();
    let default = WanOptions::default();
    let options = WanOptions {
        rtt_ms: numbers[0],
        rate_mbit: at(1).filter(|rate| *rate > 0.0),
        queue_bytes: at(2).map_or(default.queue_bytes, |bytes| bytes as u64),
        loss: at(3).unwrap_or(0.0),
        ..default
    };
    let wan = match Wan::start(&options) {
        Ok(wan) => wan,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        r#"{{"near":"{}","near_address":"{}","far":"{}","far_address":"{}"}}"#,
        wan.near.namespace, wan.near.address, wan.far.namespace, wan.far.address
    );
    let _ = io::stdout().flush();
    let (end, ended) = channel();
    thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        let _ = end.send(());
    });
    let _ = ended.recv_timeout(Duration::from_secs_f64(at(4).unwrap_or(600.0)));
    for (name, line) in [("there", wan.there()), ("back", wan.back())] {
        println!(
            r#"{{"line":"{name}","taken":{},"delivered":{},"dropped":{},"lost":{},"refused":{},"busy_share":{:.3}}}"#,
            Counted::get(&line.taken),
            Counted::get(&line.delivered),
            Counted::get(&line.dropped),
            Counted::get(&line.lost),
            Counted::get(&line.refused),
            Counted::get(&line.busy_us) as f64 / Counted::get(&line.wall_us).max(1) as f64
        );
    }
    ExitCode::SUCCESS
}
