use std::collections::BTreeMap;

use super::*;
use crate::event::{Phase, TableTotals};
use crate::observe::ThreadTimes;
use crate::observe::clock::{Activity, Spent, Times};
use crate::summaries::PartSummary;
use crate::terms::Verify;

const MEGABYTE: u64 = 1_000_000;

fn load(parts: usize) -> Whole {
    Whole::new(vec!["t".into()], vec![vec![Some(100 * MEGABYTE)]; parts])
}

fn at(seconds: f64, event: Event) -> Entry {
    Entry { at: seconds, event }
}

fn started(streams: usize, pieces: usize) -> Event {
    Event::RunStarted {
        version: RECORD_VERSION,
        run_id: "a part".into(),
        fullbore: String::new(),
        started_unix_ms: 0,
        streams,
        parsers: 1,
        pieces,
        tables: vec!["t".into()],
        methods: Vec::new(),
    }
}

fn planned(part: &str) -> Event {
    let plan = PlanSummary {
        tables: vec![TableSummary {
            files: 2,
            first_file: "/a".into(),
            bytes: Some(100 * MEGABYTE),
            format: String::new(),
            publish: Publish::Append,
            is_atomic: false,
            lane_reason: None,
            notes: Vec::new(),
        }],
        verify: Verify::Quick,
        max_rejects: "0".into(),
        is_resumable: true,
        cores: 2,
        destination: "db".into(),
        part_of: Some(PartSummary { part: part.into(), whole: "whole".into() }),
        hosts: Vec::new(),
    };
    Event::Planned { plan: Box::new(plan) }
}

fn totals(megabytes: u64) -> Vec<TableTotals> {
    let sent = megabytes * MEGABYTE;
    vec![TableTotals {
        name: "t".into(),
        rows: sent / 100,
        bytes: sent,
        pieces: megabytes / 10,
        rows_sent: sent / 100,
        bytes_sent: sent,
        bytes_expected: Some(100 * MEGABYTE),
        ..TableTotals::default()
    }]
}

fn sample(megabytes: u64) -> Event {
    Event::Sample { tables: totals(megabytes), streams_active: 1 }
}

/// Streams that have been sending for so long.
fn observed(streams: usize, ms: u64) -> Event {
    let spent = BTreeMap::from([(Activity::Sending, Spent { ms, cpu_ms: ms / 2 })]);
    let thread = ThreadTimes { times: Times(spent), ..ThreadTimes::default() };
    let observation = Observation { streams: vec![thread; streams], ..Observation::default() };
    Event::Observed { observation: Box::new(observation) }
}

fn finished(megabytes: u64) -> Event {
    Event::RunFinished {
        rows: megabytes * MEGABYTE / 100,
        rejected: 0,
        bytes: megabytes * MEGABYTE,
        seconds: 1.0,
        phases: vec![Phase { name: "load".into(), seconds: megabytes as f64 }],
        tables: totals(megabytes),
        verified: None,
    }
}

fn sums(event: Event) -> (u64, Option<u64>, usize) {
    let Event::Sample { tables, streams_active } = event else { panic!("{event:?}") };
    (tables[0].bytes_sent / MEGABYTE, tables[0].bytes_expected, streams_active)
}

fn sent_ms(whole: &Whole) -> Vec<u64> {
    let streams = whole.observation().streams;
    streams.iter().map(|stream| stream.times.of(Activity::Sending).ms).collect()
}

#[test]
fn parts_are_added_up() {
    let mut whole = load(2);
    for (part, host) in [(1, "a"), (2, "b")] {
        whole.begin(part, host, 0.0);
        whole.take(part, at(0.0, started(part, 10)));
    }
    let events = whole.take(1, at(0.0, planned("1/2")));
    assert!(matches!(&events[0], Event::RunStarted { run_id, .. } if run_id == "whole"));
    let events = whole.take(2, at(0.0, planned("2/2")));
    let [Event::Planned { plan }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((plan.tables[0].files, plan.cores), (4, 4));
    let hosts: Vec<_> = plan.hosts.iter().map(|host| (host.host.as_str(), host.streams)).collect();
    assert_eq!(hosts, [("a", 1), ("b", 2)]);
    assert_eq!(sums(whole.sample()), (0, Some(200 * MEGABYTE), 0), "as the driver listed them");
    whole.take(1, at(1.0, sample(10)));
    whole.take(2, at(1.0, sample(30)));
    assert_eq!(sums(whole.sample()), (40, Some(200 * MEGABYTE), 2));
    let piece = Event::PieceCommitted {
        piece: 3,
        table: 0,
        stream: 1,
        endpoint: None,
        rows: 1,
        bytes: 1,
        seconds: 1.0,
    };
    let events = whole.take(2, at(1.0, piece));
    let [Event::PieceCommitted { piece: 13, stream: 2, .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    whole.take(1, at(5.0, finished(100)));
    whole.take(2, at(5.0, finished(100)));
    let Event::RunFinished { rows, phases, verified, .. } = whole.finished(5.0) else { panic!() };
    assert_eq!((rows, phases.len(), phases[0].seconds), (2_000_000, 1, 100.0));
    assert_eq!(verified, None, "nothing is claimed of parts that were not verified");
}

#[test]
fn counters_of_a_place_go_on_with_the_next_attempt() {
    let mut whole = load(2);
    whole.begin(1, "a", 0.0);
    for event in [started(1, 10), sample(20), observed(1, 100), observed(1, 500)] {
        whole.take(1, at(1.0, event));
    }
    whole.begin(2, "b", 0.0);
    for event in [started(1, 10), sample(20), observed(1, 100), observed(1, 300)] {
        whole.take(2, at(1.0, event));
    }
    assert_eq!(sent_ms(&whole), [500, 300]);
    // Its worker is lost, and another goes on there.
    whole.end(1, 2.0);
    assert_eq!(sent_ms(&whole), [500, 300]);
    whole.begin(1, "a", 3.0);
    for event in [observed(1, 10), observed(1, 200)] {
        whole.take(1, at(1.0, event));
    }
    assert_eq!(sent_ms(&whole), [700, 300]);
    // Elsewhere it has another place.
    whole.begin(1, "c", 4.0);
    whole.take(1, at(1.0, observed(1, 50)));
    assert_eq!(sent_ms(&whole), [700, 300, 50]);
    assert_eq!(sums(whole.sample()).0, 40, "what was sent is not counted twice");
}

#[test]
fn the_slow_host_is_named() {
    let mut whole = load(4);
    for (part, seconds) in [(1, 10.0), (2, 11.0), (3, 9.0), (4, 31.0)] {
        whole.begin(part, &format!("src{part}"), 0.0);
        whole.take(part, at(0.0, started(1, 10)));
        whole.take(part, at(0.0, observed(1, 0)));
        whole.take(part, at(seconds, observed(1, 1000)));
        whole.take(part, at(seconds, finished(100)));
        whole.end(part, seconds);
    }
    let (verdict, _) = whole.verdict(31.0);
    let slow: Vec<_> = verdict.hosts.iter().map(|host| host.times_slower).collect();
    assert_eq!(slow, [None, None, None, Some(3.1)]);
    assert_eq!(verdict.hosts[3].alone_seconds, Some(20.0));
    assert_eq!(verdict.hosts[0].alone_seconds, None);
    assert_eq!((verdict.hosts[0].bytes, verdict.hosts[0].seconds), (100 * MEGABYTE, 10.0));
}

#[test]
fn what_another_driver_had_loaded_is_told_apart() {
    let mut whole = load(1);
    whole.resume();
    whole.begin(1, "a", 0.0);
    whole.take(1, at(0.0, planned("1/1")));
    let resumed = Event::RunResumed {
        started_unix_ms: 0,
        pieces_committed: 3,
        rows_committed: 300_000,
        fullbore: None,
        streams: Some(2),
        parsers: None,
    };
    whole.take(1, at(0.0, resumed));
    whole.take(1, at(0.1, sample(30)));
    whole.take(1, at(1.0, sample(50)));
    assert_eq!(whole.before(), (300_000, 30 * MEGABYTE));
    assert_eq!(whole.verdict(1.0).0.hosts[0].bytes, 20 * MEGABYTE);
    assert_eq!(whole.rows_kept(), 500_000);
}

#[test]
fn a_part_that_the_load_does_not_have_is_passed_over() {
    let mut whole = load(1);
    for number in [0, 2, usize::MAX] {
        whole.begin(number, "a", 0.0);
        assert!(whole.take(number, at(0.0, sample(1))).is_empty());
        whole.end(number, 1.0);
    }
    assert_eq!(whole.streams(), 0);
}
