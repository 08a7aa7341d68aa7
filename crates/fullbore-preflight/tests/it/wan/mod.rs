//! The WAN lab is what it says it is: five checks, without which nothing measured over it counts.
//!
//! They are about time by their nature. So each looks at what noise can't improve: the smallest round
//! trip, a rate that a window forbids to be exceeded, counts.

mod icmp;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fullbore_pgwire::tcp_info::{TcpInfo, tcp_info};
use fullbore_testing::skip;
use fullbore_testing::wan::{Counted, Wan, WanOptions};
use socket2::{Domain, SockRef, Socket, Type};

macro_rules! wan_or_skip {
    ($options:expr) => {
        match Wan::start(&$options) {
            Ok(wan) => wan,
            Err(reason) => skip!("{reason}"),
        }
    };
}

/// One lab at a time: they would take each other's cores.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whatever had to wait for a core at the wrong moment is tried again: a machine that others use is
/// busy for seconds at a time.
fn one_of_some(mut attempt: impl FnMut() -> Result<(), String>) {
    const TRIES: usize = 8;
    let said: Vec<_> = (0..TRIES).map_while(|_| attempt().err()).collect();
    assert!(said.len() < TRIES, "{said:?}");
}

/// What a sender saw at one moment.
struct Sample {
    at: Duration,
    info: TcpInfo,
}

/// What came of a transfer from the near host to the far one.
struct Transfer {
    samples: Vec<Sample>,
    /// Bytes received at the end of each interval.
    received: Vec<(Duration, u64)>,
}

/// Sends as fast as it goes for a time; looks at it at each interval.
fn transfer(
    wan: &Wan,
    time: Duration,
    every: Duration,
    control: &str,
    buffer: Option<usize>,
) -> Transfer {
    let listener = wan.far.inside(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        if let Some(bytes) = buffer {
            socket.set_recv_buffer_size(bytes).expect("set");
        }
        // Any port: that of the transfer before may not be free yet.
        let address = std::net::SocketAddr::from((wan.far.address, 0));
        socket.bind(&address.into()).expect("an address of its own");
        socket.listen(1).expect("listening");
        TcpListener::from(socket)
    });
    let address = listener.local_addr().expect("bound");
    let stream = wan.near.inside(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_tcp_congestion(control.as_bytes()).expect("this kernel has it");
        socket.connect(&address.into()).expect("it listens");
        TcpStream::from(socket)
    });
    let (accepted, _) = listener.accept().expect("connected");
    let began = Instant::now();
    thread::scope(|scope| {
        let reader = scope.spawn(move || read_all(accepted, began, every));
        let writer = scope.spawn(|| {
            let mut stream = &stream;
            stream.set_write_timeout(Some(Duration::from_millis(50))).expect("a time");
            let buffer = vec![0; 256 << 10];
            while began.elapsed() < time {
                // A timeout is a full window, and no error.
                let _ = stream.write(&buffer);
            }
            let _ = stream.shutdown(std::net::Shutdown::Write);
        });
        let mut samples = Vec::new();
        while began.elapsed() < time {
            samples.push(Sample { at: began.elapsed(), info: tcp_info(&stream).expect("told") });
            thread::sleep(every);
        }
        writer.join().expect("it wrote");
        Transfer { samples, received: reader.join().expect("it read") }
    })
}

fn read_all(mut stream: TcpStream, began: Instant, every: Duration) -> Vec<(Duration, u64)> {
    let (mut total, mut received) = (0, Vec::new());
    let mut buffer = vec![0; 256 << 10];
    loop {
        let count = stream.read(&mut buffer).expect("data or its end");
        if count == 0 {
            return received;
        }
        total += count as u64;
        let now = began.elapsed();
        match received.last_mut() {
            Some((at, bytes)) if now < *at + every => *bytes = total,
            _ => received.push((now, total)),
        }
    }
}

/// Everything that a line took has come out again, or it says where it is.
fn adds_up(wan: &Wan) {
    for line in [wan.there(), wan.back()] {
        let get = Counted::get;
        let (taken, out) =
            (get(&line.taken), get(&line.delivered) + get(&line.dropped) + get(&line.lost));
        assert!(out <= taken, "{out} of {taken}");
        assert_eq!(get(&line.refused), 0, "a device did not take a packet");
    }
    for host in [&wan.near, &wan.far] {
        assert_eq!(host.device_drops(), 0, "{} dropped by itself", host.namespace);
    }
}

#[test]
fn a_ping_takes_the_round_trip() {
    let _alone = alone();
    for rtt_ms in [10.0, 90.0, 180.0] {
        let wan = wan_or_skip!(WanOptions { rtt_ms, ..WanOptions::default() });
        one_of_some(|| {
            let times = wan.near.inside(|| icmp::ping(wan.far.address, 5));
            let least = times.iter().min().expect("five of them").as_secs_f64() * 1e3;
            match (least - rtt_ms).abs() <= 1.0 {
                true => Ok(()),
                false => Err(format!("{least} ms for {rtt_ms} ms: {times:?}")),
            }
        });
        adds_up(&wan);
    }
}

#[test]
fn a_window_of_a_fixed_size_is_what_one_round_trip_carries() {
    let rtt = 0.09;
    let _alone = alone();
    let wan = wan_or_skip!(WanOptions { rtt_ms: rtt * 1e3, ..WanOptions::default() });
    let time = Duration::from_secs(4);
    let steady = |at: Duration| at > Duration::from_secs(1) && at < time * 15 / 16;
    one_of_some(|| {
        // Of a buffer of 64 KiB the kernel makes one of 128, and offers a part of that.
        let done = transfer(&wan, time, Duration::from_millis(50), "cubic", Some(64 << 10));
        let offered = done.samples.iter().map(|sample| sample.info.snd_wnd).max();
        let window = offered.expect("samples");
        assert!((32 << 10..=128 << 10).contains(&window), "{window}");
        let part: Vec<_> = done.received.iter().filter(|(at, _)| steady(*at)).collect();
        let (first, last) = (part.first().expect("data"), part.last().expect("data"));
        let rate = (last.1 - first.1) as f64 / (last.0 - first.0).as_secs_f64();
        let most = f64::from(window) / rtt;
        if rate >= most * 1.05 {
            return Err(format!("{rate} B/s, {most} is what the window allows"));
        }
        // A reader that waits for a core offers less for a while, and a line that does takes longer:
        // both are seen by the sender, and what they leave is carried.
        let seen: Vec<_> = done.samples.iter().filter(|sample| steady(sample.at)).collect();
        let mean = |of: fn(&TcpInfo) -> u32| {
            seen.iter().map(|sample| f64::from(of(&sample.info))).sum::<f64>() / seen.len() as f64
        };
        let trip = mean(|info| info.rtt) / 1e6;
        let left = mean(|info| info.snd_wnd) / trip;
        let share = rate / left;
        if share >= 0.9 { Ok(()) } else { Err(format!("{share} of {left} B/s, trips of {trip} s")) }
    });
    adds_up(&wan);
}

#[test]
fn slow_start_doubles_with_each_round_trip() {
    let _alone = alone();
    let rtt = Duration::from_millis(180);
    let wan = wan_or_skip!(WanOptions { rtt_ms: 180.0, ..WanOptions::default() });
    one_of_some(|| {
        let done = transfer(&wan, rtt * 7, Duration::from_millis(5), "reno", None);
        // In the middle between two bursts of acknowledgements.
        let at = |trips: f64| {
            let moment = rtt.mul_f64(trips);
            let sample = done.samples.iter().find(|sample| sample.at >= moment);
            f64::from(sample.expect("a sample").info.snd_cwnd)
        };
        let growths = [1.0, 2.0, 3.0, 4.0].map(|trips| at(trips + 0.7) / at(trips - 0.3));
        let doubles = growths.iter().all(|growth| (1.7..2.3).contains(growth));
        if doubles { Ok(()) } else { Err(format!("growth by round trip: {growths:?}")) }
    });
    adds_up(&wan);
}

#[test]
fn what_is_dropped_is_what_its_queue_had_no_room_for() {
    let _alone = alone();
    let options = WanOptions {
        rtt_ms: 20.0,
        rate_mbit: Some(50.0),
        queue_bytes: 100_000,
        ..WanOptions::default()
    };
    let wan = wan_or_skip!(options);
    let done = transfer(&wan, Duration::from_secs(3), Duration::from_millis(50), "reno", None);
    let dropped = Counted::get(&wan.there().dropped);
    assert!(dropped > 0, "a queue of two round trips' worth overflows");
    assert_eq!(Counted::get(&wan.there().lost) + Counted::get(&wan.back().dropped), 0);
    let last = &done.samples.last().expect("samples").info;
    // A dropped packet is one segment or several, and the sender has sent each of them again.
    assert!(u64::from(last.total_retrans) >= dropped / 2, "{} of {dropped}", last.total_retrans);
    // The link never carries more than its rate, headers included.
    let (at, bytes) = done.received.last().expect("data");
    assert!(*bytes as f64 <= 50e6 / 8.0 * at.as_secs_f64(), "{bytes} in {at:?}");
    adds_up(&wan);
    // Without an overflow nothing is sent twice.
    let wide = wan_or_skip!(WanOptions { queue_bytes: 64 << 20, ..options });
    one_of_some(|| {
        let done = transfer(&wide, Duration::from_secs(1), Duration::from_millis(50), "reno", None);
        assert_eq!(Counted::get(&wide.there().dropped), 0);
        // A sender whose timer ran out while the line had no core sends again.
        let again = done.samples.last().expect("samples").info.bytes_retrans;
        if again == 0 { Ok(()) } else { Err(format!("{again} bytes sent again")) }
    });
}

#[test]
fn its_own_thread_is_mostly_idle() {
    let _alone = alone();
    let options = WanOptions { rtt_ms: 10.0, rate_mbit: Some(1000.0), ..WanOptions::default() };
    // A lab that is had once is had again.
    drop(wan_or_skip!(options));
    one_of_some(|| {
        let wan = Wan::start(&options).expect("a second lab");
        transfer(&wan, Duration::from_secs(2), Duration::from_millis(50), "cubic", None);
        adds_up(&wan);
        let share = |line: &Counted| {
            Counted::get(&line.busy_us) as f64 / Counted::get(&line.wall_us).max(1) as f64
        };
        let busy = [wan.there(), wan.back()].map(share);
        if busy.iter().all(|share| *share < 0.7) { Ok(()) } else { Err(format!("{busy:?} busy")) }
    });
}

#[test]
fn losses_are_those_that_were_asked_for() {
    let _alone = alone();
    let options = WanOptions { rtt_ms: 10.0, loss: 0.01, seed: 3, ..WanOptions::default() };
    let wan = wan_or_skip!(options);
    // Of a few hundred packets a share says little.
    let mut done = transfer(&wan, Duration::from_secs(2), Duration::from_millis(50), "cubic", None);
    while Counted::get(&wan.there().taken) < 3000 {
        done = transfer(&wan, Duration::from_secs(2), Duration::from_millis(50), "cubic", None);
    }
    let (lost, taken) = (Counted::get(&wan.there().lost), Counted::get(&wan.there().taken));
    let share = lost as f64 / taken as f64;
    assert!((0.005..0.02).contains(&share), "{lost} of {taken}, seed {}", options.seed);
    assert!(done.samples.last().expect("samples").info.total_retrans > 0);
    adds_up(&wan);
}

#[test]
fn the_namespaces_go_with_it() {
    let _alone = alone();
    let wan = wan_or_skip!(WanOptions::default());
    let paths = [&wan.near, &wan.far].map(|host| format!("/run/netns/{}", host.namespace));
    assert!(paths.iter().all(|path| std::path::Path::new(path).exists()));
    let address = wan.near.inside(|| {
        let socket = TcpListener::bind((wan.near.address, 0)).expect("its own address");
        SockRef::from(&socket).local_addr().expect("bound")
    });
    assert!(address.as_socket().is_some());
    drop(wan);
    assert!(!paths.iter().any(|path| std::path::Path::new(path).exists()));
}
