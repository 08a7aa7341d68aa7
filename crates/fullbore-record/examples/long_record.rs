//! Writes the record of some hours by a simulated clock, through the recorder that every run has: what
//! such a record comes to in bytes, and what its report costs a browser, is tested with it.
//!
//! `cargo run -p fullbore-record --example long_record -- FOLDER HOURS`

use std::path::PathBuf;

use fullbore_record::diagnose::{Circumstances, verdict};
use fullbore_record::observe::clock::Activity;
use fullbore_record::observe::socket::Hold;
use fullbore_record::observe::{
    Moment, Observation, ServerTimes, Settings, ThreadTimes, WaitClass,
};
use fullbore_record::terms::Method;
use fullbore_record::{Event, Phase, Recorder, TableMethod, TableTotals};

const STREAMS: usize = 8;
const PARSERS: usize = 8;
const TABLES: [(&str, u64); 3] = [("lineitem", 10_000), ("orders", 3_000), ("partsupp", 2_000)];
/// Bytes of source of a piece.
const PIECE: u64 = 1 << 30;
/// Bytes of source that a stream sends in a fifth of a second, when nothing holds it up.
const STEP: u64 = 15_000_000;

/// What streams' backends wait for, in the mean, out of a hundred.
const WAITS: [(Option<WaitClass>, u64); 7] = [
    (Some(WaitClass::Cpu), 55),
    (Some(WaitClass::Client), 14),
    (Some(WaitClass::Wal), 12),
    (Some(WaitClass::DataFile), 9),
    (Some(WaitClass::Extension), 4),
    (Some(WaitClass::Other), 5),
    (None, 1),
];
const ACTIVITIES: [(Activity, u64); 3] =
    [(Activity::Sending, 70), (Activity::Starved, 20), (Activity::Answering, 10)];

const HOLDS: [(Hold, u64); 4] =
    [(Hold::Nothing, 40), (Hold::ReceiveWindow, 30), (Hold::Path, 25), (Hold::SendBuffer, 5)];

/// The same numbers each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one_of<T: Copy>(&mut self, weights: &[(T, u64)]) -> T {
        let mut at = self.below(weights.iter().map(|(_, weight)| weight).sum());
        for (value, weight) in weights {
            if at < *weight {
                return *value;
            }
            at -= weight;
        }
        weights[0].0
    }
}

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("a folder for the run"));
    let hours = std::env::args().nth(2).expect("hours").parse::<u64>().expect("a number");
    let recorder = Recorder::create(&folder, None).expect("the record can be written");
    let mut chance = Chance(7);
    let settings = Settings {
        values: [
            ("server_version_num", "180006"),
            ("max_wal_size", "16GB"),
            ("wal_level", "replica"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        has_one_session: false,
        is_here: false,
        volumes: None,
    };
    recorder.record_at(
        0.0,
        Event::RunStarted {
            version: 1,
            run_id: "10b015ec04d5".into(),
            fullbore: env!("CARGO_PKG_VERSION").into(),
            started_unix_ms: 1_790_000_000_000,
            streams: STREAMS,
            parsers: PARSERS,
            pieces: 17_000,
            tables: TABLES.iter().map(|(name, _)| (*name).to_owned()).collect(),
            methods: TABLES
                .iter()
                .map(|_| TableMethod {
                    method: Method::Copy,
                    reason: "the server has no extension".into(),
                })
                .collect(),
        },
    );
    recorder.record_at(0.0, Event::ServerSettings { settings });
    let mut tables: Vec<TableTotals> = TABLES
        .iter()
        .map(|(name, share)| TableTotals {
            name: (*name).to_owned(),
            bytes_expected: Some(share * 1_000_000_000),
            ..TableTotals::default()
        })
        .collect();
    let mut seen = Observation {
        streams: vec![ThreadTimes::default(); STREAMS],
        parsers: vec![ThreadTimes::default(); PARSERS],
        server: Some(ServerTimes::default()),
        ..Observation::default()
    };
    let mut works_for = [0_usize; STREAMS];
    let mut of_piece = [0_u64; STREAMS];
    let mut since = [0.0; STREAMS];
    let mut pieces = 0;
    for tick in 0..hours * 3600 * 5 {
        let at = tick as f64 / 5.0;
        for stream in 0..STREAMS {
            // Checkpoints slow it down.
            let slowed = if tick % 1500 < 200 { 40 } else { 100 };
            let bytes = STEP * slowed / 100 * (50 + chance.below(100)) / 100;
            let table = works_for[stream];
            tables[table].bytes_sent += bytes;
            tables[table].rows_sent += bytes / 127;
            of_piece[stream] += bytes;
            if of_piece[stream] >= PIECE {
                let bytes = std::mem::take(&mut of_piece[stream]);
                let rows = bytes / 127;
                tables[table].bytes += bytes;
                tables[table].rows += rows;
                tables[table].pieces += 1;
                let (piece, seconds) = (pieces, at - since[stream]);
                since[stream] = at;
                recorder.record_at(
                    at,
                    Event::PieceCommitted {
                        piece,
                        table,
                        stream,
                        endpoint: None,
                        rows,
                        bytes,
                        seconds,
                    },
                );
                pieces += 1;
                let weights: Vec<_> =
                    TABLES.iter().enumerate().map(|(n, (_, w))| (n, *w)).collect();
                works_for[stream] = chance.one_of(&weights);
            }
        }
        recorder.record_at(at, Event::Sample { tables: tables.clone(), streams_active: STREAMS });
        if tick % 5 == 0 {
            observe(&mut seen, &works_for, at, &mut chance);
            recorder.record_at(at, Event::Observed { observation: Box::new(seen.clone()) });
        }
    }
    let end = (hours * 3600) as f64;
    let verdict =
        verdict(&seen, &Circumstances { tables: TABLES.len(), ..Circumstances::default() });
    let advice = vec!["more sessions, if the server has processors free: --streams 16".to_owned()];
    recorder.record_at(end, Event::Verdict { verdict, advice });
    let sum = |count: fn(&TableTotals) -> u64| tables.iter().map(count).sum();
    recorder.record_at(
        end,
        Event::RunFinished {
            rows: sum(|table| table.rows),
            rejected: 0,
            bytes: sum(|table| table.bytes),
            seconds: end,
            phases: vec![Phase { name: "load".into(), seconds: end }],
            tables: tables.clone(),
            verified: None,
        },
    );
}

/// Another second of all threads, of the server and of this machine.
fn observe(seen: &mut Observation, works_for: &[usize], at: f64, chance: &mut Chance) {
    for (stream, thread) in seen.streams.iter_mut().enumerate() {
        for _ in 0..10 {
            let activity = chance.one_of(&ACTIVITIES);
            spend(thread, activity, 100, chance.below(40));
            let (table, wait) = (works_for[stream], chance.one_of(&WAITS));
            let held = Some(chance.one_of(&HOLDS));
            let alike = |m: &&mut Moment| {
                (m.table, m.activity, m.wait, m.held) == (table, activity, wait, held)
            };
            match thread.moments.iter_mut().find(alike) {
                Some(moment) => moment.count += 1,
                None => thread.moments.push(Moment { table, activity, wait, held, count: 1 }),
            }
            if let Some(class) = wait.filter(|wait| *wait != WaitClass::Cpu) {
                *seen.waits.entry(format!("{class:?}:Of{class:?}Kind")).or_default() += 1;
            }
        }
        thread.run_queue_ms += chance.below(30);
        let socket = thread.socket.get_or_insert_default();
        socket.busy_ms += 400 + chance.below(500);
        socket.receive_window_ms += chance.below(300);
        socket.send_buffer_ms += chance.below(50);
        socket.sent_bytes += 70_000_000 + chance.below(9_000_000);
        socket.resent_bytes += chance.below(3_000);
        socket.rtt_us = 800 + chance.below(400);
        socket.rtt_min_us = 790;
    }
    for thread in &mut seen.parsers {
        spend(thread, Activity::Parsing, 400, 390);
        spend(thread, Activity::Reading, 80, 30);
        spend(thread, Activity::Queueing, 20, 0);
        spend(thread, Activity::Blocked, 500, 0);
        thread.run_queue_ms += chance.below(10);
    }
    if let Some(server) = &mut seen.server {
        server.wal_bytes += 300_000_000 + chance.below(100_000_000);
        server.written_bytes += 250_000_000 + chance.below(200_000_000);
        server.checkpoints_timed = at as u64 / 300;
    }
    seen.host.all_ms += 16_000;
    seen.host.idle_ms += 9_000 + chance.below(2_000);
    seen.host.own_cpu_ms += 4_500;
    seen.host.read_bytes += 480_000_000;
}

fn spend(thread: &mut ThreadTimes, activity: Activity, ms: u64, cpu_ms: u64) {
    let spent = thread.times.0.entry(activity).or_default();
    spent.ms += ms;
    spent.cpu_ms += cpu_ms;
}
