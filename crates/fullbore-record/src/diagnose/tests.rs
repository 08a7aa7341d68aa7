//! Verdicts on windows made by hand, each with one cause.

use super::*;
use crate::observe::clock::{Spent, Times};
use crate::observe::host::HostTimes;
use crate::observe::socket::{Hold, SocketTimes};
use crate::observe::{Moment, ServerTimes, WaitClass};

const SECONDS: u64 = 10;

fn times(spent: &[(Activity, u64, u64)]) -> Times {
    Times(spent.iter().map(|(a, ms, cpu_ms)| (*a, Spent { ms: *ms, cpu_ms: *cpu_ms })).collect())
}

fn stream(spent: &[(Activity, u64, u64)], waits: &[(Activity, WaitClass, u64)]) -> ThreadTimes {
    ThreadTimes {
        times: times(spent),
        moments: waits
            .iter()
            .map(|(activity, wait, count)| Moment {
                table: 0,
                activity: *activity,
                wait: Some(*wait),
                held: None,
                count: *count,
            })
            .collect(),
        ..ThreadTimes::default()
    }
}

fn parser(spent: &[(Activity, u64, u64)]) -> ThreadTimes {
    ThreadTimes { times: times(spent), ..ThreadTimes::default() }
}

/// Two processors for so long, of which so much was idle, ours, and the server's.
fn host(idle: u64, own: u64, server: u64, window: &mut Observation) {
    window.host = HostTimes {
        all_ms: 2 * SECONDS * 1000,
        idle_ms: idle,
        own_cpu_ms: own,
        ..HostTimes::default()
    };
    window.server = Some(ServerTimes { cpu_ms: server, ..ServerTimes::default() });
}

fn here() -> Circumstances {
    Circumstances { server_is_here: true, tables: 1, has_one_session: false }
}

use Activity::{Answering, Blocked, Idle, Parsing, Queueing, Reading, Sending, Starved};

/// A stream that is held up while it sends, its backend in such a wait.
fn held_up(wait: WaitClass) -> Observation {
    let one = stream(&[(Sending, 9_000, 500), (Starved, 1_000, 0)], &[(Sending, wait, 90)]);
    let mut window = Observation {
        streams: vec![one.clone(), one],
        parsers: vec![parser(&[(Parsing, 2_000, 2_000), (Blocked, 8_000, 0)])],
        ..Observation::default()
    };
    host(1_000, 3_000, 16_000, &mut window);
    window
}

#[test]
fn a_stream_waits_for_what_its_backend_waits_for() {
    for (wait, limit) in [
        (WaitClass::Cpu, Limit::DatabaseCpu),
        (WaitClass::Wal, Limit::Wal),
        (WaitClass::DataFile, Limit::DatabaseDisk),
        (WaitClass::Extension, Limit::ExtensionLock),
        (WaitClass::Lock, Limit::LockWait),
    ] {
        let verdict = verdict(&held_up(wait), &here());
        assert_eq!(verdict.limit, limit, "{verdict:?}");
        assert_eq!(verdict.sure, Sureness::High);
        assert!((0.8..0.9).contains(&verdict.share), "{verdict:?}");
        let times = verdict.at_most_times.expect("a bound");
        assert!((times - 1.0 / (1.0 - verdict.share)).abs() < 1e-9);
        assert_eq!(verdict.tables[0].expect("a table").limit, limit);
        assert_eq!(verdict.streams[1].expect("a stream").limit, limit);
    }
    let away = Circumstances { server_is_here: false, ..here() };
    assert_eq!(verdict(&held_up(WaitClass::Client), &away).limit, Limit::Congestion);
    assert_eq!(verdict(&held_up(WaitClass::Client), &here()).limit, Limit::ClientCpu);
}

/// A stream that has nothing to send, and what its parsers do.
fn starved(parsers: Vec<ThreadTimes>) -> Observation {
    let one = stream(
        &[(Starved, 9_000, 0), (Sending, 1_000, 600)],
        &[(Starved, WaitClass::Client, 90), (Sending, WaitClass::Cpu, 10)],
    );
    let mut window = Observation { streams: vec![one], parsers, ..Observation::default() };
    host(1_000, 18_000, 800, &mut window);
    window
}

#[test]
fn a_stream_without_rows_waits_for_what_the_parsers_do() {
    let reading = starved(vec![
        parser(&[(Reading, 8_000, 400), (Parsing, 1_500, 1_500)]),
        parser(&[(Queueing, 7_000, 0), (Parsing, 2_500, 2_500)]),
    ]);
    assert_eq!(verdict(&reading, &here()).limit, Limit::SourceDisk);
    let parsing = starved(vec![parser(&[(Reading, 900, 800), (Parsing, 9_000, 8_900)]); 2]);
    assert_eq!(verdict(&parsing, &here()).limit, Limit::ClientCpu);
    // Who has no processor reads slowly too.
    let mut crowded = vec![parser(&[(Reading, 4_000, 1_500), (Parsing, 5_500, 2_500)]); 2];
    crowded.iter_mut().for_each(|parser| parser.run_queue_ms = 5_500);
    assert_eq!(verdict(&starved(crowded), &here()).limit, Limit::ClientCpu);
}

#[test]
fn a_backend_that_still_has_work_is_waited_for() {
    let mut window = starved(vec![parser(&[(Parsing, 9_000, 8_900)]); 2]);
    for moment in &mut window.streams[0].moments {
        moment.wait = Some(WaitClass::DataFile);
    }
    assert_eq!(verdict(&window, &here()).limit, Limit::DatabaseDisk);
}

#[test]
fn idle_processors_want_more_streams_and_foreign_work_is_named() {
    let mut parsing = starved(vec![parser(&[(Parsing, 9_900, 9_900)])]);
    host(9_000, 10_500, 400, &mut parsing);
    assert_eq!(verdict(&parsing, &here()).limit, Limit::TooFewStreams);
    host(200, 5_000, 400, &mut parsing);
    assert_eq!(verdict(&parsing, &here()).limit, Limit::Neighbour);
    let mut sending = held_up(WaitClass::Cpu);
    host(9_000, 1_000, 9_000, &mut sending);
    assert_eq!(verdict(&sending, &here()).limit, Limit::TooFewStreams);
    // What a server elsewhere has free is not known here.
    let away = Circumstances { server_is_here: false, ..here() };
    assert_eq!(verdict(&sending, &away).limit, Limit::DatabaseCpu);
}

#[test]
fn work_that_gets_no_processor_is_not_helped_by_more_streams() {
    // Half of the machine idles, and the backends get a quarter of a processor each.
    let mut database = held_up(WaitClass::Cpu);
    host(9_000, 1_000, 500, &mut database);
    database.streams.iter_mut().for_each(|stream| stream.backend_cpu_ms = Some(2_500));
    assert_eq!(verdict(&database, &here()).limit, Limit::DatabaseCpu);
    database.streams.iter_mut().for_each(|stream| stream.backend_cpu_ms = Some(8_500));
    assert_eq!(verdict(&database, &here()).limit, Limit::TooFewStreams);
    let mut client = starved(vec![parser(&[(Parsing, 9_000, 2_000)]); 2]);
    host(15_000, 4_500, 400, &mut client);
    assert_eq!(verdict(&client, &here()).limit, Limit::ClientCpu);
}

#[test]
fn a_quota_on_this_process_is_its_own_limit_whatever_the_rare_moments_show() {
    let mut window = held_up(WaitClass::DataFile);
    host(15_000, 2_000, 2_000, &mut window);
    window.host.throttled_ms = 8_000;
    assert_eq!(verdict(&window, &here()).limit, Limit::ClientCpu);
    // Nor does it matter that others compute what it may not.
    host(1_000, 2_000, 2_000, &mut window);
    window.host.throttled_ms = 8_000;
    assert_eq!(verdict(&window, &here()).limit, Limit::ClientCpu);
    // A little of it takes a little, and a load that waits for a lock wants no processor.
    window.host.throttled_ms = 1_000;
    assert_eq!(verdict(&window, &here()).limit, Limit::DatabaseDisk);
    let mut locked = held_up(WaitClass::Lock);
    host(19_000, 50, 50, &mut locked);
    locked.host.throttled_ms = 100;
    assert_eq!(verdict(&locked, &here()).limit, Limit::LockWait);
}

#[test]
fn processors_that_this_process_may_not_use_are_not_free() {
    let away = Circumstances { server_is_here: false, ..here() };
    let mut window = starved(vec![parser(&[(Parsing, 9_000, 8_800)]); 2]);
    // Sixteen processors, of which it may use two, and does.
    window.host = HostTimes {
        all_ms: 16 * SECONDS * 1000,
        idle_ms: 14 * SECONDS * 1000,
        own_cpu_ms: 2 * SECONDS * 950,
        ..HostTimes::default()
    };
    assert_eq!(verdict(&window, &away).limit, Limit::TooFewStreams);
    window.host.granted_ms = 2 * SECONDS * 1000;
    assert_eq!(verdict(&window, &away).limit, Limit::ClientCpu);
    window.host.granted_ms = 16 * SECONDS * 1000;
    assert_eq!(verdict(&window, &away).limit, Limit::TooFewStreams);
}

#[test]
fn on_the_way_the_socket_says_what_holds_the_bytes() {
    let away = Circumstances { server_is_here: false, ..here() };
    for (hold, limit) in [
        (Hold::SendBuffer, Limit::SendWindow),
        (Hold::ReceiveWindow, Limit::ReceiveCap),
        (Hold::Queue, Limit::Congestion),
        (Hold::Path, Limit::FlowCap),
        (Hold::Nothing, Limit::ClientCpu),
    ] {
        let mut window = held_up(WaitClass::Client);
        host(1_000, 18_000, 0, &mut window);
        for moment in window.streams.iter_mut().flat_map(|stream| &mut stream.moments) {
            moment.held = Some(hold);
        }
        let found = verdict(&window, &away);
        assert_eq!(found.limit, limit, "{found:?}");
        let sum: f64 = found.shares.iter().map(|share| share.share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "the shares add up: {sum}");
        // Behind a backend that works the way is not what is waited for.
        for moment in window.streams.iter_mut().flat_map(|stream| &mut stream.moments) {
            moment.wait = Some(WaitClass::Wal);
        }
        assert_eq!(verdict(&window, &away).limit, Limit::Wal);
    }
}

#[test]
fn a_path_that_loses_packets_is_full_between_the_losses_too() {
    let away = Circumstances { server_is_here: false, ..here() };
    let mut window = held_up(WaitClass::Client);
    for stream in &mut window.streams {
        stream.moments.iter_mut().for_each(|moment| moment.held = Some(Hold::Path));
        let socket = SocketTimes { busy_ms: 9_000, sent_bytes: 9_000_000, ..Default::default() };
        stream.socket = Some(SocketTimes { resent_bytes: 40_000, ..socket });
    }
    assert_eq!(verdict(&window, &away).limit, Limit::Congestion);
    for socket in window.streams.iter_mut().filter_map(|stream| stream.socket.as_mut()) {
        socket.resent_bytes = 4_000;
    }
    assert_eq!(verdict(&window, &away).limit, Limit::FlowCap);
}

#[test]
fn streams_without_work_are_a_tail_or_never_had_any() {
    let mut window = held_up(WaitClass::Cpu);
    window.streams[1] = stream(&[(Sending, 1_000, 50), (Idle, 40_000, 0)], &[]);
    assert_eq!(verdict(&window, &here()).limit, Limit::LongTail);
    window.streams[1] = stream(&[(Idle, 10_000, 0)], &[]);
    let one = verdict(&window, &here());
    assert_eq!((one.limit, one.streams[1]), (Limit::DatabaseCpu, None));
}

#[test]
fn without_a_leader_it_is_mixed_and_without_time_it_is_none() {
    let mut window = held_up(WaitClass::Cpu);
    window.streams = vec![stream(
        &[(Sending, 5_000, 0), (Answering, 4_800, 0)],
        &[(Sending, WaitClass::Cpu, 50), (Answering, WaitClass::Wal, 48)],
    )];
    let mixed = verdict(&window, &here());
    assert_eq!((mixed.limit, mixed.runner_up), (Limit::Mixed, Some(Limit::DatabaseCpu)));
    assert_eq!(verdict(&Observation::default(), &here()).limit, Limit::None);
    window.streams = vec![stream(&[(Sending, 200, 10)], &[(Sending, WaitClass::Cpu, 2)])];
    assert_eq!(verdict(&window, &here()).limit, Limit::None);
}

#[test]
fn a_server_that_could_not_be_asked_makes_it_less_sure() {
    let mut window = held_up(WaitClass::Cpu);
    for stream in &mut window.streams {
        stream.moments.iter_mut().for_each(|moment| moment.wait = None);
    }
    let verdict = verdict(&window, &here());
    assert_eq!((verdict.limit, verdict.sure), (Limit::DatabaseCpu, Sureness::Low));
}

#[test]
fn a_pause_frees_no_processors() {
    let mut window = held_up(WaitClass::Cpu);
    assert_eq!(verdict(&window, &here()).limit, Limit::DatabaseCpu);
    // As long again, for which the run was held, and the machine idle.
    for stream in &mut window.streams {
        stream.times.0.insert(Activity::Held, Spent { ms: SECONDS * 1000, cpu_ms: 0 });
    }
    window.host.all_ms *= 2;
    window.host.idle_ms += 2 * SECONDS * 1000;
    assert_eq!(verdict(&window, &here()).limit, Limit::DatabaseCpu);
    // A stream whose work is done can't be held, and idles meanwhile: nobody waits for the others so.
    let mut alone = window.clone();
    let held = alone.streams[1].times.0.remove(&Activity::Held).expect("put there");
    alone.streams[1].times.0.insert(Activity::Idle, held);
    let told = verdict(&alone, &here());
    assert_eq!(told.limit, Limit::DatabaseCpu);
    assert!(told.shares.iter().all(|share| share.limit != Limit::LongTail), "{told:?}");
    // So much that idles while it is not held is another matter.
    window.host.idle_ms += SECONDS * 1000;
    window.host.own_cpu_ms /= 2;
    assert_eq!(verdict(&window, &here()).limit, Limit::TooFewStreams);
}
