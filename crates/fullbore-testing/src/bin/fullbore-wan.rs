//! A WAN lab for scripts: says on stdout, as one JSON object, where its two hosts are, and stands until
//! its standard input ends or its time is over; then it says what it has counted.
//!
//! `fullbore-wan RTT_MS [RATE_MBIT [QUEUE_BYTES [LOSS [SECONDS [MTU]]]]]`; a rate of 0 is no limit. Figures with commas
//! make several paths: `90 100,50`. On standard input, `cut N` cuts a path, counted from 0, `mend N` mends it, and
//! `lose N` loses the next packet with data there.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use fullbore_testing::wan::{Counted, Host, Wan, WanOptions};

fn main() -> ExitCode {
    let given: Result<Vec<Vec<f64>>, _> = std::env::args()
        .skip(1)
        .map(|arg| arg.split(',').map(str::parse).collect::<Result<Vec<f64>, _>>())
        .collect();
    let Some(given) = given.ok().filter(|given| (1..=6).contains(&given.len())) else {
        eprintln!("usage: fullbore-wan RTT_MS [RATE_MBIT [QUEUE_BYTES [LOSS [SECONDS [MTU]]]]]");
        return ExitCode::from(2);
    };
    let paths = given.iter().map(Vec::len).max().unwrap_or(1);
    // A single figure is every path's.
    let at = |index: usize, path: usize| {
        given.get(index).and_then(|of_paths| of_paths.get(path).or(of_paths.last()).copied())
    };
    let default = WanOptions::default();
    let options: Vec<WanOptions> = (0..paths)
        .map(|path| WanOptions {
            rtt_ms: at(0, path).unwrap_or_default(),
            rate_mbit: at(1, path).filter(|rate| *rate > 0.0),
            queue_bytes: at(2, path).map_or(default.queue_bytes, |bytes| bytes as u64),
            loss: at(3, path).unwrap_or(0.0),
            mtu: at(5, path).map_or(default.mtu, |mtu| mtu as u32),
            ..default
        })
        .collect();
    let wan = match Wan::start_paths(&options) {
        Ok(wan) => wan,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        r#"{{"near":"{}","near_address":"{}","near_addresses":{},"far":"{}","far_address":"{}","far_addresses":{}}}"#,
        wan.near.namespace,
        wan.near.address,
        addresses(&wan.near),
        wan.far.namespace,
        wan.far.address,
        addresses(&wan.far)
    );
    let _ = io::stdout().flush();
    obey(&wan, Duration::from_secs_f64(at(4, 0).unwrap_or(600.0)));
    for path in 0..wan.paths() {
        for (name, line) in [("there", wan.there_by(path)), ("back", wan.back_by(path))] {
            println!(
                r#"{{"path":{path},"line":"{name}","taken":{},"delivered":{},"dropped":{},"lost":{},"cut":{},"refused":{},"wire_bytes":{},"busy_share":{:.3}}}"#,
                Counted::get(&line.taken),
                Counted::get(&line.delivered),
                Counted::get(&line.dropped),
                Counted::get(&line.lost),
                Counted::get(&line.cut),
                Counted::get(&line.refused),
                Counted::get(&line.wire_bytes),
                Counted::get(&line.busy_us) as f64 / Counted::get(&line.wall_us).max(1) as f64
            );
        }
    }
    ExitCode::SUCCESS
}

/// Does as it is told until there is an end.
fn obey(wan: &Wan, time: Duration) {
    let (say, said) = channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if say.send(line).is_err() {
                break;
            }
        }
    });
    let end = Instant::now() + time;
    loop {
        match said.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                let (word, path) = line.trim().split_once(' ').unwrap_or_default();
                match path.parse::<usize>() {
                    Ok(path) if path < wan.paths() => match word {
                        "cut" => wan.cut(path, true),
                        "mend" => wan.cut(path, false),
                        "lose" => wan.lose(path, 1),
                        _ => eprintln!("none of `cut N`, `mend N` and `lose N`: {line}"),
                    },
                    _ => eprintln!("there is no such path: {line}"),
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn addresses(host: &Host) -> String {
    let quoted: Vec<String> = host.addresses.iter().map(|address| format!("{address:?}")).collect();
    let quoted: Vec<String> = quoted.iter().map(|address| format!("\"{address}\"")).collect();
    format!("[{}]", quoted.join(","))
}
