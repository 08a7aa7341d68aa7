//! `preflight net HOST:PORT`: sends to a listener by one setting after the other.

use std::net::TcpStream;
use std::time::Duration;

use fullbore_pgwire::tcp_info::tcp_info;

use super::advice::{Goal, advise};
use super::control::{Control, introduce};
use super::handshake::Purpose;
use super::kernel::this_side;
use super::limit::Limit;
use super::message::{FromClient, FromListener, Measurement, Received, Side};
use super::predict::{cap, mathis, receive_share, streams_for};
use super::report::{Cell, Need, Report, Stream, common, parts, stream};
use super::send::{SendSetting, Sent, connect_all, send_all};
use super::socket::{SocketOptions, connect, resolve};
use super::token::Token;
use crate::error::{Error, Result};
use crate::knee::knee;
use crate::limits::{
    CELL_SECONDS_MAX, CELLS_MAX, DRAIN_TIME_MAX, MESSAGE_BYTES_MAX, SAMPLE_INTERVAL_MIN,
    SAMPLES_MAX, STREAMS_MAX, WINDOW_BYTES_MAX,
};

const PROBE_WINDOW_BYTES: usize = 64 << 10;
/// So many, for the window to be what it stays.
const PROBE_ROUND_TRIPS: f64 = 12.0;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Request {
    pub address: String,
    pub token: Token,
    pub streams: Vec<usize>,
    /// `None`: the kernel's own way with windows.
    pub windows: Vec<Option<usize>>,
    pub message_bytes: Vec<usize>,
    /// `None`: the system's.
    pub congestions: Vec<Option<String>>,
    pub cell_seconds: f64,
    /// Of all settings together.
    pub bytes_max: u64,
    pub target_bytes_per_second: Option<f64>,
}

/// One setting of the matrix.
#[derive(Debug, Clone)]
struct Setting {
    streams: usize,
    window: Option<usize>,
    message_bytes: usize,
    congestion: Option<String>,
}

/// Measures all settings; `watch` hears of each when it is done.
pub fn run(request: &Request, watch: &mut dyn FnMut(&Cell)) -> Result<Report> {
    check(request)?;
    let settings = settings(request);
    let addresses = resolve(&request.address)?;
    let mut stream = connect(&addresses, &SocketOptions::default()).map_err(|source| {
        Error::Network {
            what: "connect to",
            address: request.address.clone(),
            source,
            hint: Some(
                "start `fullbore preflight net --listen` on the other host, and let its port through \
                 the firewall"
                    .into(),
            ),
        }
    })?;
    // What answered is what all streams go to.
    let addresses = stream.peer_addr().map(|address| vec![address]).unwrap_or(addresses);
    let _ = stream.set_nodelay(true);
    introduce(&mut stream, &request.address, &request.token, Purpose::Control)?;
    let mut control = Control::new(stream, request.address.clone());
    let client = this_side(control.stream());
    control.send(&FromClient::Hello { side: client.clone() })?;
    let (session, listener) = match control.receive(Duration::ZERO)? {
        FromListener::Hello { session, side } => (session, side),
        FromListener::Refused { message } => return Err(refused(request, message)),
        _ => return Err(control.out_of_turn()),
    };
    let rtt_seconds = round_trip(control.stream());
    // One more for the probe.
    let bytes_max = request.bytes_max / (settings.len() + 1) as u64;
    let plain = SendSetting {
        address: request.address.clone(),
        addresses,
        token: request.token.clone(),
        options: SocketOptions::default(),
        message_bytes: PROBE_WINDOW_BYTES,
        bytes_max,
    };
    let receive_share = probe(request, &mut control, session, &plain, rtt_seconds)?
        .unwrap_or_else(|| receive_share(&listener));
    let mut cells = Vec::new();
    for (number, setting) in settings.iter().enumerate() {
        let measurement = Measurement {
            cell: number as u32,
            streams: setting.streams,
            window_bytes: setting.window,
            seconds: request.cell_seconds,
            bytes_max,
        };
        let send = SendSetting {
            options: SocketOptions {
                window_bytes: setting.window,
                congestion: setting.congestion.clone(),
            },
            message_bytes: setting.message_bytes,
            bytes_max: bytes_max / setting.streams as u64,
            ..plain.clone()
        };
        let (sent, received) = measure(request, &mut control, session, measurement, &send)?;
        let predicted = cap(&client, &listener, setting.window, rtt_seconds, receive_share);
        let cell = cell_of(setting, &sent, received, predicted.map(|cap| cap.bytes_per_second));
        watch(&cell);
        cells.push(cell);
    }
    control.send(&FromClient::Bye)?;
    Ok(report(request, client, listener, (rtt_seconds, receive_share), cells))
}

/// A small window of a fixed size, and how much of a buffer of that size is offered: kernels find
/// that out from the packets that come, so it can't be known before some came.
fn probe(
    request: &Request,
    control: &mut Control,
    session: u64,
    plain: &SendSetting,
    rtt_seconds: f64,
) -> Result<Option<f64>> {
    let measurement = Measurement {
        cell: u32::MAX,
        streams: 1,
        window_bytes: Some(PROBE_WINDOW_BYTES),
        seconds: (PROBE_ROUND_TRIPS * rtt_seconds).clamp(0.3, 3.0),
        bytes_max: plain.bytes_max,
    };
    let (sent, received) = measure(request, control, session, measurement, plain)?;
    let offered = sent[0].samples.last().map_or(0, |info| info.snd_wnd);
    let share = f64::from(offered) / received.streams[0].buffer_bytes.max(1) as f64;
    // Kernels before 5.4 don't tell the window.
    Ok((0.05..=1.0).contains(&share).then_some(share))
}

/// One measurement, from its announcement to its figures.
fn measure(
    request: &Request,
    control: &mut Control,
    session: u64,
    measurement: Measurement,
    send: &SendSetting,
) -> Result<(Vec<Sent>, Received)> {
    let time = Duration::from_secs_f64(measurement.seconds);
    let cell = measurement.cell;
    let count = measurement.streams;
    control.send(&FromClient::Prepare { measurement })?;
    match control.receive(Duration::ZERO)? {
        FromListener::Ready => {}
        FromListener::Refused { message } => return Err(refused(request, message)),
        _ => return Err(control.out_of_turn()),
    }
    let purposes =
        (0..count as u32).map(|stream| Purpose::Stream { session, cell, stream }).collect();
    let streams = connect_all(send, purposes)?;
    control.send(&FromClient::Go)?;
    let interval = (time / SAMPLES_MAX as u32).max(SAMPLE_INTERVAL_MIN);
    let sent = send_all(send, &streams, time, interval)?;
    match control.receive(time + DRAIN_TIME_MAX)? {
        FromListener::Done { received } if received.streams.len() == count => Ok((sent, received)),
        FromListener::Refused { message } => Err(refused(request, message)),
        _ => Err(control.out_of_turn()),
    }
}

fn cell_of(setting: &Setting, sent: &[Sent], received: Received, predicted: Option<f64>) -> Cell {
    let each: Vec<Stream> = sent
        .iter()
        .zip(&received.streams)
        .map(|(sent, theirs)| stream(sent, theirs, &received))
        .collect();
    let (ramp_seconds, ramp_bytes_per_second, steady_seconds, bytes_per_second) = parts(&received);
    let gigabytes =
        (received.streams.iter().map(|stream| stream.bytes).sum::<u64>() as f64 / 1e9).max(1e-9);
    let send_cpu: f64 = sent.iter().map(|sent| sent.cpu_seconds).sum();
    let receive_cpu: f64 = received.streams.iter().map(|stream| stream.cpu_seconds).sum();
    let mean = |of: fn(&Stream) -> f64| each.iter().map(of).sum::<f64>() / each.len().max(1) as f64;
    let mss = each.iter().map(|stream| u64::from(stream.mss_bytes)).max().unwrap_or(0);
    Cell {
        streams: setting.streams,
        window_bytes: setting.window,
        message_bytes: setting.message_bytes,
        congestion: sent.iter().find_map(|sent| sent.congestion.clone()).unwrap_or_default(),
        ramp_seconds,
        ramp_bytes_per_second,
        steady_seconds,
        bytes_per_second,
        predicted_stream_bytes_per_second: predicted,
        loss_cap_bytes_per_second: mathis(
            mss,
            mean(|stream| stream.rtt_us) / 1e6,
            mean(|stream| stream.signals.retransmitted_share),
        ),
        send_cpu_seconds_per_gigabyte: send_cpu / gigabytes,
        receive_cpu_seconds_per_gigabyte: receive_cpu / gigabytes,
        limit: common(&each),
        each,
        interval_seconds: received.interval_seconds,
        totals: received.totals,
    }
}

fn report(
    request: &Request,
    client: Side,
    listener: Side,
    (rtt_seconds, receive_share): (f64, f64),
    cells: Vec<Cell>,
) -> Report {
    let rates: Vec<f64> = cells.iter().map(|cell| cell.bytes_per_second).collect();
    let best = rates.iter().copied().fold(0.0, f64::max);
    let caps: Vec<_> = request
        .windows
        .iter()
        .filter_map(|window| cap(&client, &listener, *window, rtt_seconds, receive_share))
        .collect();
    let need = request.target_bytes_per_second.map(|target| {
        let by_cap = caps.iter().map(|cap| cap.bytes_per_second).fold(0.0, f64::max);
        let by_rate =
            cells.iter().map(|c| c.bytes_per_second / c.streams as f64).fold(0.0, f64::max);
        Need {
            target_bytes_per_second: target,
            streams_by_cap: streams_for(target, by_cap),
            streams_by_rate: streams_for(target, by_rate),
            reached: best >= target,
        }
    });
    let streams = || cells.iter().flat_map(|cell| &cell.each);
    let goal = Goal {
        rate: request.target_bytes_per_second.unwrap_or(best),
        rtt_seconds,
        streams: request.streams.iter().copied().max().unwrap_or(1),
        loses: streams().any(|stream| {
            stream.signals.retransmitted_share > 0.001 && stream.limit == Limit::Congestion
        }),
        path_mtu: streams().map(|stream| stream.path_mtu).filter(|mtu| *mtu > 0).min(),
    };
    Report {
        address: request.address.clone(),
        advice: advise(&client, &listener, &goal),
        client,
        listener,
        rtt_us: rtt_seconds * 1e6,
        receive_share,
        caps,
        knee: knee(&rates, |at| (cells[at].streams, cells[at].window_bytes.unwrap_or(0), at)),
        cells,
        need,
    }
}

/// The smallest round trip that the kernel has seen on the control connection; it has seen several.
fn round_trip(stream: &TcpStream) -> f64 {
    tcp_info(stream).map_or(0.0, |info| {
        let least = if info.min_rtt == u32::MAX { info.rtt } else { info.min_rtt };
        f64::from(least) / 1e6
    })
}

fn refused(request: &Request, message: String) -> Error {
    Error::Peer { peer: request.address.clone(), message, hint: None }
}

/// Message sizes and congestion controls vary slowest, streams fastest.
fn settings(request: &Request) -> Vec<Setting> {
    let mut settings = Vec::new();
    for congestion in &request.congestions {
        for message_bytes in &request.message_bytes {
            for window in &request.windows {
                for streams in &request.streams {
                    settings.push(Setting {
                        streams: *streams,
                        window: *window,
                        message_bytes: *message_bytes,
                        congestion: congestion.clone(),
                    });
                }
            }
        }
    }
    settings
}

fn check(request: &Request) -> Result<()> {
    let Request { streams, windows, message_bytes, congestions, cell_seconds, .. } = request;
    let cells = streams.len() * windows.len() * message_bytes.len() * congestions.len();
    if cells == 0 || cells > CELLS_MAX {
        return Err(Error::refused(
            format!("{cells} settings can't be measured: it must be 1 to {CELLS_MAX}"),
            "give at least one each, and not too many, with --streams, --window, --message and \
             --congestion",
        ));
    }
    if streams.iter().any(|count| !(1..=STREAMS_MAX).contains(count)) {
        return Err(Error::refused(
            format!("streams must be 1 to {STREAMS_MAX}"),
            "give them with --streams: --streams 1,2,4,8",
        ));
    }
    if windows.iter().flatten().any(|bytes| !(4096..=WINDOW_BYTES_MAX).contains(bytes)) {
        return Err(Error::refused(
            format!("a window must be 4096 to {WINDOW_BYTES_MAX} bytes"),
            "give it with --window: --window auto,1M",
        ));
    }
    if message_bytes.iter().any(|bytes| !(1..=MESSAGE_BYTES_MAX).contains(bytes)) {
        return Err(Error::refused(
            format!("a message must have 1 to {MESSAGE_BYTES_MAX} bytes"),
            "give it with --message: --message 64k,256k",
        ));
    }
    if !(*cell_seconds >= 0.5 && *cell_seconds <= CELL_SECONDS_MAX) {
        return Err(Error::refused(
            format!("{cell_seconds} s is no time to measure one setting for"),
            format!("give 0.5 to {CELL_SECONDS_MAX} with --seconds"),
        ));
    }
    Ok(())
}
