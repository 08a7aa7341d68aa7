//! `fullbore preflight net`: both sides of it, and its words.

use std::io::{self, Write};
use std::time::Duration;

use fullbore_preflight::Error;
use fullbore_preflight::net::advice::{Advice, End};
use fullbore_preflight::net::limit::Limit;
use fullbore_preflight::net::message::Side;
use fullbore_preflight::net::predict::{Cap, CapSide};
use fullbore_preflight::net::report::{Cell, Need, Stream};
use fullbore_preflight::net::{
    Event, ListenOptions, Listener, Report, Request, Token, run as measure,
};

use super::args::NetArgs;
use super::show;
use super::sizes::short;
use crate::table::Table;
use crate::words::{Screen, bytes, counted, print_json};

const TOKEN_VARIABLE: &str = "FULLBORE_PREFLIGHT_TOKEN";

pub fn run(args: &NetArgs) -> Result<(), Error> {
    let token = token(args)?;
    match (&args.listen, &args.peer) {
        (Some(address), _) => listen(args, address, token),
        (None, Some(peer)) => send(args, peer, token),
        (None, None) => Err(Error::refused("no host", "give HOST:PORT, or --listen ADDR:PORT")),
    }
}

fn token(args: &NetArgs) -> Result<Option<Token>, Error> {
    let text = match (&args.token, &args.token_file) {
        (Some(token), _) => Some(token.clone()),
        (None, Some(file)) => Some(std::fs::read_to_string(file).map_err(|source| {
            Error::Path { what: "read the token from", path: file.clone(), source, hint: None }
        })?),
        (None, None) => std::env::var(TOKEN_VARIABLE).ok().filter(|text| !text.is_empty()),
    };
    text.as_deref().map(Token::parse).transpose()
}

fn listen(args: &NetArgs, address: &str, token: Option<Token>) -> Result<(), Error> {
    let ours = token.is_none();
    let token = token.map_or_else(Token::generate, Ok)?;
    let options = ListenOptions {
        time: Duration::from_secs(args.listen_for),
        bytes_max: args.max_bytes,
        once: args.once,
    };
    let listener = Listener::bind(address, token.clone(), options)?;
    let found = listener.address().map_err(|source| Error::System { what: "listen", source })?;
    // Only one that was made up here has to be told; others are known to who gave them.
    let shown = if ours { token.reveal() } else { "as given" };
    if args.answer.json {
        print_json(&serde_json::json!({ "address": found.to_string(), "token": shown }));
    } else {
        let mut out = Screen;
        let _ = writeln!(out, "listening on {found} for at most {} s", args.listen_for);
        let _ = writeln!(out, "token {shown}");
        let _ = out.flush();
        tell!("on the other host: fullbore preflight net HOST:{} --token TOKEN", found.port());
    }
    listener.serve(&mut |event| match event {
        Event::Began { peer } => tell!("{peer} started a measurement"),
        Event::Ended { peer, bytes: size, trouble: None } => {
            tell!("{peer} finished a measurement: {} received", bytes(size));
        }
        Event::Ended { peer, trouble: Some(trouble), .. } => {
            tell!("{peer} disconnected: {trouble}")
        }
        Event::Stranger { peer } => tell!("{peer} was refused: wrong token"),
    })
}

fn send(args: &NetArgs, peer: &str, token: Option<Token>) -> Result<(), Error> {
    let token = token.ok_or_else(|| {
        Error::refused(
            "no token was given",
            format!("use the token that the listener printed, with --token, --token-file or {TOKEN_VARIABLE}"),
        )
    })?;
    let congestions = if args.congestion.is_empty() {
        vec![None]
    } else {
        args.congestion.iter().cloned().map(Some).collect()
    };
    let request = Request {
        address: peer.to_owned(),
        token,
        streams: args.streams.clone(),
        windows: args.window.iter().map(|window| window.0).collect(),
        message_bytes: args.message.clone(),
        congestions,
        cell_seconds: args.seconds,
        bytes_max: args.max_bytes,
        target_bytes_per_second: args.target_rate,
    };
    let report = measure(&request, &mut |cell| {
        tell!(
            "{}, window {}, message {}, {}: {}/s",
            counted(cell.streams as u64, "stream"),
            window(cell.window_bytes),
            short(cell.message_bytes as u64),
            cell.congestion,
            bytes(cell.bytes_per_second as u64)
        );
    })?;
    show(args.answer.json, &report, print)
}

fn window(bytes: Option<usize>) -> String {
    bytes.map_or_else(|| "auto".into(), |bytes| short(bytes as u64))
}

fn print(report: &Report) -> io::Result<()> {
    let mut out = Screen;
    writeln!(out, "{}: round trip {:.2} ms", report.address, report.rtt_us / 1e3)?;
    for (name, side) in [("here", &report.client), ("there", &report.listener)] {
        writeln!(out, "{name}: {}", about(side))?;
    }
    for cap in &report.caps {
        writeln!(out, "{}", cap_line(cap))?;
    }
    writeln!(out)?;
    matrix(report).print(&mut out)?;
    if let Some(cell) = report.knee.and_then(|at| report.cells.get(at)) {
        writeln!(
            out,
            "knee: {}, window {}: {}/s",
            counted(cell.streams as u64, "stream"),
            window(cell.window_bytes),
            bytes(cell.bytes_per_second as u64)
        )?;
    }
    if let Some(need) = &report.need {
        writeln!(out, "{}", need_line(need))?;
    }
    writeln!(out, "\neach stream")?;
    streams(report).print(&mut out)?;
    if !report.advice.is_empty() {
        writeln!(out, "\nadvice")?;
        for line in &report.advice {
            advice(line, &mut out)?;
        }
    }
    Ok(())
}

fn about(side: &Side) -> String {
    let of = |name: &str| {
        side.settings.get(name).map_or("not reported", String::as_str).replace('\t', " ")
    };
    format!(
        "Linux {}, {}, {} with mtu {}; tcp_wmem {}, tcp_rmem {}, wmem_max {}, rmem_max {}, \
         tcp_mem {}, congestion control {}",
        side.kernel,
        counted(side.cores.into(), "core"),
        side.interface.as_deref().unwrap_or("an unknown interface"),
        side.mtu.map_or_else(|| "not reported".into(), |mtu| mtu.to_string()),
        of("net.ipv4.tcp_wmem"),
        of("net.ipv4.tcp_rmem"),
        of("net.core.wmem_max"),
        of("net.core.rmem_max"),
        of("net.ipv4.tcp_mem"),
        of("net.ipv4.tcp_congestion_control"),
    )
}

fn cap_line(cap: &Cap) -> String {
    let side = match cap.side {
        CapSide::SendBuffer => "the send buffer here",
        CapSide::ReceiveWindow => "the receive window there",
    };
    format!(
        "one stream, window {}: at most {}/s ({} in {side})",
        window(cap.asked_window_bytes),
        bytes(cap.bytes_per_second as u64),
        bytes(cap.window_bytes)
    )
}

fn need_line(need: &Need) -> String {
    let count = |streams: Option<u64>| streams.map_or("unknown".into(), |n| n.to_string());
    format!(
        "for {}/s: {} stream(s) by the cap of each, {} by the best rate of one; {}",
        bytes(need.target_bytes_per_second as u64),
        count(need.streams_by_cap),
        count(need.streams_by_rate),
        if need.reached { "it was reached" } else { "it was not reached" }
    )
}

fn limit_word(limit: Limit) -> &'static str {
    match limit {
        Limit::SendWindow => "send_window",
        Limit::ReceiveCap => "receive_cap",
        Limit::SlowReceiver => "slow_receiver",
        Limit::Congestion => "congestion",
        Limit::FlowCap => "flow_cap",
        Limit::ClientCpu => "client_cpu",
        Limit::None => "none",
    }
}

fn matrix(report: &Report) -> Table {
    let head = [
        "streams",
        "window",
        "message",
        "control",
        "MB/s",
        "each, min-max",
        "ramp s",
        "ramp MB/s",
        "CPU s/GB here",
        "there",
        "limit",
    ];
    let mut table = Table::new(&head, 4);
    let mb = |rate: f64| format!("{:.1}", rate / 1e6);
    for cell in &report.cells {
        let rates = || cell.each.iter().map(|stream| stream.bytes_per_second);
        table.add(vec![
            cell.streams.to_string(),
            window(cell.window_bytes),
            short(cell.message_bytes as u64),
            cell.congestion.clone(),
            mb(cell.bytes_per_second),
            format!("{}-{}", mb(rates().fold(f64::MAX, f64::min)), mb(rates().fold(0.0, f64::max))),
            format!("{:.1}", cell.ramp_seconds),
            mb(cell.ramp_bytes_per_second),
            format!("{:.2}", cell.send_cpu_seconds_per_gigabyte),
            format!("{:.2}", cell.receive_cpu_seconds_per_gigabyte),
            limit_word(cell.limit).into(),
        ]);
    }
    table
}

fn streams(report: &Report) -> Table {
    let head = [
        "streams", "number", "MB/s", "ended s", "rtt ms", "least", "mtu", "used", "offered",
        "sndbuf", "rcvbuf", "again %", "path %", "rwnd %", "sndbuf %", "limit",
    ];
    let mut table = Table::new(&head, 0);
    for cell in &report.cells {
        for (number, stream) in cell.each.iter().enumerate() {
            table.add(stream_row(cell, number, stream));
        }
    }
    table
}

fn stream_row(cell: &Cell, number: usize, stream: &Stream) -> Vec<String> {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    vec![
        cell.streams.to_string(),
        (number + 1).to_string(),
        format!("{:.1}", stream.bytes_per_second / 1e6),
        format!("{:.1}", stream.ended_seconds),
        format!("{:.2}", stream.rtt_us / 1e3),
        format!("{:.2}", stream.rtt_min_us / 1e3),
        stream.path_mtu.to_string(),
        bytes(stream.window_used_bytes),
        bytes(stream.offered_window_bytes),
        bytes(stream.send_buffer_bytes),
        bytes(stream.receive_buffer_bytes),
        format!("{:.2}", stream.signals.retransmitted_share * 100.0),
        percent(stream.signals.path_share),
        percent(stream.signals.receive_window_share),
        percent(stream.signals.send_buffer_share),
        limit_word(stream.limit).into(),
    ]
}

fn advice(line: &Advice, out: &mut impl Write) -> io::Result<()> {
    let end = match line.end {
        End::Client => "here",
        End::Listener => "there",
    };
    writeln!(
        out,
        "  {end}: {} is {}, recommended {}: {}",
        line.setting,
        line.value.replace('\t', " "),
        line.advised,
        line.why
    )?;
    writeln!(out, "    price: {}; undo: {}", line.price, line.undo)
}
