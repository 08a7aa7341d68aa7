//! Formats numbers, times and verdicts for people.

use fullbore_record::ceilings::Achieved;
use fullbore_record::diagnose::{HostShare, Limit, NetworkSeen, Sureness, Verdict};
use fullbore_record::terms::Form;
use fullbore_record::{Event, Tried};

/// 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// 1 row, 2 rows.
pub fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Bytes to the power of ten that suits them.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ if value < 9.995 => format!("{value:.2} {}", UNITS[unit]),
        _ if value < 99.95 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// Seconds as people say them.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 60.0 => format!("{s:.2} s"),
        s if s < 3600.0 => format!("{}:{:02} min", s as u64 / 60, s as u64 % 60),
        s => format!("{}:{:02} h", s as u64 / 3600, s as u64 % 3600 / 60),
    }
}

/// The bottleneck of a run, its share of the load's time, what came next, and what removing it could bring.
pub fn sentence(verdict: &Verdict) -> String {
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    let shares = || verdict.shares.iter().filter(|share| share.share >= 0.005).take(3);
    let words = verdict.limit.words();
    if verdict.limit == Limit::None {
        return format!("bottleneck: {words}");
    }
    if verdict.limit == Limit::Mixed {
        let shares =
            shares().map(|share| format!("{} ({})", share.limit.words(), percent(share.share)));
        return format!("bottleneck: {}", shares.collect::<Vec<_>>().join(", "));
    }
    let is_phase = verdict.phases.first().is_some_and(|phase| phase.phase == verdict.limit.name());
    let mut others: String = match is_phase {
        true => {
            let others = verdict.phases[1..].iter().filter(|phase| phase.share >= 0.005).take(2);
            others.map(|it| format!("; {} {}", phase_words(&it.phase), percent(it.share))).collect()
        }
        false => shares()
            .filter(|share| share.limit != verdict.limit)
            .map(|share| format!("; {} {}", share.limit.words(), percent(share.share)))
            .collect(),
    };
    if verdict.sure == Sureness::Low {
        others.push_str("; uncertain");
    }
    let gain = verdict.at_most_times.filter(|times| *times >= 1.05).map(gain);
    let gain = gain.map(|gain| format!(". Without it: up to {gain} faster"));
    format!(
        "bottleneck: {words} ({} of {}{others}){}",
        percent(verdict.share),
        if is_phase { "the time" } else { "load time" },
        gain.unwrap_or_default()
    )
}

/// A part of a run's time in words.
fn phase_words(phase: &str) -> String {
    if phase == "rows" { "loading rows".to_owned() } else { limit_words(phase) }
}

/// An event that is reported alike wherever it is: on the terminal, by `runs show`, on a page.
pub fn said(event: &Event) -> Option<String> {
    Some(match event {
        Event::Notice { notice } => notice.clone(),
        Event::RateChanged { bytes_per_second } => rate_limit(*bytes_per_second),
        Event::StreamsSettled { streams, tried, limit, .. } => settled(*streams, tried, *limit),
        Event::FormChanged { form, limit } => form_changed(*form, *limit),
        Event::EndpointDown { endpoint, reason } => endpoint_down(endpoint, reason),
        Event::EndpointUp { endpoint, seconds } => endpoint_up(endpoint, *seconds),
        _ => return None,
    })
}

/// Another limit of what a load sends.
fn rate_limit(bytes_per_second: Option<u64>) -> String {
    match bytes_per_second {
        Some(rate) => format!("limited to {}/s", bytes(rate)),
        None => "no longer limited".to_owned(),
    }
}

/// The form that rows have on their way from now on, and what the bottleneck was before.
fn form_changed(form: Form, limit: Limit) -> String {
    let rows = match form {
        Form::Plain => "rows are no longer compressed".to_owned(),
        Form::Text => "rows are sent as text, which is shorter".to_owned(),
        Form::Lz4 | Form::Zstd => format!("rows are compressed by {}", form.name()),
    };
    match limit {
        Limit::None => rows,
        limit => format!("{rows}; bottleneck: {}", limit.words()),
    }
}

/// An endpoint whose connections break.
fn endpoint_down(endpoint: &str, reason: &str) -> String {
    format!("endpoint {endpoint} is down, its pieces go by the others: {reason}")
}

/// An endpoint that is used again.
fn endpoint_up(endpoint: &str, down: f64) -> String {
    format!("endpoint {endpoint} is up again after {}", seconds(down))
}

/// The number of streams that `--streams auto` settled on, and what others brought.
fn settled(streams: usize, tried: &[Tried], limit: Limit) -> String {
    let others: Vec<String> = tried
        .iter()
        .map(|tried| format!("{} at {}/s", tried.streams, bytes(tried.bytes_per_second as u64)))
        .collect();
    let limit = match limit {
        Limit::None => String::new(),
        limit => format!("; bottleneck: {}", limit.words()),
    };
    format!("{}: tried {}{limit}", counted(streams as u64, "stream"), others.join(", "))
}

/// A bottleneck by its identifier, in words.
pub fn limit_words(identifier: &str) -> String {
    let limit: Result<Limit, _> = serde_json::from_value(identifier.into());
    limit.map_or_else(|_| identifier.to_owned(), |limit| limit.words().to_owned())
}

/// A change as a signed share: -8.4%.
pub fn percent(change: f64) -> String {
    format!("{:+.1}%", change * 100.0)
}

/// How much of its ceiling a run achieved.
pub fn achieved(achieved: &Achieved) -> String {
    let rate = |bytes_per_second: f64| bytes(bytes_per_second as u64);
    format!(
        "achieved {:.2} of the ceiling: {}/s of {}/s, set by {}",
        achieved.over_ceiling,
        rate(achieved.bytes_per_second),
        rate(achieved.ceiling.bytes_per_second),
        achieved.ceiling.resource.words()
    )
}

/// What the verdict says beside its sentence: tables that something else held back, and pieces that
/// were waited for.
pub fn details(verdict: &Verdict, tables: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, share) in tables.iter().zip(&verdict.tables) {
        // Of a single table all has been said.
        if let Some(share) = share.filter(|share| tables.len() > 1 && share.limit != verdict.limit)
        {
            let percent = share.share * 100.0;
            lines.push(format!(
                "table {name}: {} ({} {percent:.0}%)",
                share.limit.words(),
                share.limit.name()
            ));
        }
    }
    lines.truncate(TABLES_TOLD_MAX);
    lines.extend(verdict.network.as_ref().and_then(network));
    lines.extend(verdict.hosts.iter().take(HOSTS_TOLD_MAX).map(host));
    for straggler in &verdict.stragglers {
        let mut reasons = Vec::new();
        if let Some(times) = straggler.times_slower {
            reasons.push(format!("{times:.1} times the others' time per byte"));
        }
        if let Some(alone) = straggler.alone_seconds {
            reasons.push(format!("the last {} as the only piece", seconds(alone)));
        }
        lines.push(format!(
            "straggler: piece {} of {} ({}) took {}: {}",
            straggler.piece,
            straggler.file,
            bytes(straggler.bytes),
            seconds(straggler.seconds),
            reasons.join(", ")
        ));
    }
    lines
}

/// Tables that something else held back are told, not listed without end; hosts too.
const TABLES_TOLD_MAX: usize = 8;
const HOSTS_TOLD_MAX: usize = 64;

/// What the load did to the network: how much longer round trips were.
fn network(seen: &NetworkSeen) -> Option<String> {
    let longer = seen.rtt_ms - seen.rtt_min_ms;
    // Below it is a host that was busy, not the network.
    let is_longer = longer >= 1.0 && longer >= 0.1 * seen.rtt_min_ms;
    let again = match seen.resent {
        share if share >= 0.000_05 => {
            format!("; {:.2}% of the bytes were sent again", share * 100.0)
        }
        _ => String::new(),
    };
    (is_longer || !again.is_empty()).then(|| {
        format!(
            "network: round trip {:.1} ms, {:.1} ms without this load{again}",
            seen.rtt_ms, seen.rtt_min_ms
        )
    })
}

/// What a host did, and what held it back.
fn host(host: &HostShare) -> String {
    let mut words = format!(
        "host {}: {} in {} ({}/s)",
        host.host,
        bytes(host.bytes),
        seconds(host.seconds),
        bytes((host.bytes as f64 / host.seconds.max(1e-9)) as u64)
    );
    if let Some(share) = host.limit {
        words.push_str(&format!(", {} {:.0}%", share.limit.words(), share.share * 100.0));
    }
    if let Some(times) = host.times_slower {
        words.push_str(&format!("; slow: {times:.1} times the others' time per byte"));
    }
    if let Some(alone) = host.alone_seconds {
        words.push_str(&format!("; the last {} as the only host", seconds(alone)));
    }
    words
}

/// A factor, in words.
fn gain(times: f64) -> String {
    match times {
        ..10.0 => format!("{times:.1}x"),
        ..100.0 => format!("{times:.0}x"),
        _ => "100x".into(),
    }
}

#[cfg(test)]
mod tests {
    use fullbore_record::diagnose::{PhaseShare, Share, Straggler};

    use super::*;

    /// A verdict without anything further.
    fn verdict(limit: Limit, share: f64) -> Verdict {
        Verdict {
            limit,
            share,
            runner_up: None,
            sure: Sureness::High,
            shares: Vec::new(),
            phases: Vec::new(),
            at_most_times: None,
            streams: Vec::new(),
            tables: Vec::new(),
            stragglers: Vec::new(),
            hosts: Vec::new(),
            network: None,
        }
    }

    #[test]
    fn the_bottleneck_is_said_in_words() {
        let shares = [(Limit::DatabaseDisk, 0.57), (Limit::TooFewStreams, 0.43)];
        let shares = shares.map(|(limit, share)| Share { limit, share });
        let mut verdict = Verdict {
            shares: shares.to_vec(),
            at_most_times: Some(2.32),
            ..verdict(Limit::DatabaseDisk, 0.57)
        };
        assert_eq!(
            sentence(&verdict),
            "bottleneck: server data disk (57% of load time; too few streams 43%). Without it: up \
             to 2.3x faster"
        );
        verdict.at_most_times = Some(1.01);
        verdict.sure = Sureness::Low;
        verdict.shares.truncate(1);
        assert_eq!(
            sentence(&verdict),
            "bottleneck: server data disk (57% of load time; uncertain)"
        );
    }

    #[test]
    fn what_comes_after_the_rows_is_said_of_the_whole_time() {
        let phase = |phase: &str, share| PhaseShare { phase: phase.into(), share };
        let verdict = Verdict {
            runner_up: Some(Limit::DatabaseCpu),
            shares: vec![Share { limit: Limit::DatabaseCpu, share: 1.0 }],
            phases: vec![phase("indexes", 0.6), phase("rows", 0.3), phase("statistics", 0.1)],
            at_most_times: Some(2.5),
            ..verdict(Limit::Indexes, 0.6)
        };
        assert_eq!(
            sentence(&verdict),
            "bottleneck: building indexes (60% of the time; loading rows 30%; gathering statistics \
             10%). Without it: up to 2.5x faster"
        );
    }

    #[test]
    fn details_name_tables_and_files() {
        let share = |limit, share| Some(Share { limit, share });
        let straggler = Straggler {
            table: 1,
            piece: 7,
            stream: 0,
            file: "slow.csv".into(),
            bytes: 48_000_000,
            seconds: 12.0,
            times_slower: Some(4.13),
            alone_seconds: Some(3.5),
        };
        let verdict = Verdict {
            tables: vec![share(Limit::DatabaseCpu, 0.8), share(Limit::SourceDisk, 0.6)],
            stragglers: vec![straggler],
            ..verdict(Limit::DatabaseCpu, 0.7)
        };
        assert_eq!(
            details(&verdict, &["a", "b"]),
            [
                "table b: source storage (source_disk 60%)",
                "straggler: piece 7 of slow.csv (48.0 MB) took 12.00 s: 4.1 times the others' time \
                 per byte, the last 3.50 s as the only piece",
            ]
        );
        assert_eq!(details(&verdict, &["b"]).len(), 1, "of a single table all has been said");
    }

    #[test]
    fn numbers_are_put_to_people() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(1000, "row"), "1,000 rows");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_520_000_000), "1.52 GB");
        assert_eq!(seconds(61.0), "1:01 min");
        assert_eq!(seconds(7_322.0), "2:02 h");
    }
}
