//! How numbers, times and verdicts are put to people.

use fullbore_record::ceilings::Achieved;
use fullbore_record::diagnose::{Limit, Sureness, Verdict};

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

/// What held a run back, how much, and how sure that is.
pub fn sentence(verdict: &Verdict) -> String {
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    let shares: Vec<String> = verdict
        .shares
        .iter()
        .filter(|share| share.share >= 0.005)
        .take(3)
        .map(|share| format!("{} {}", share.limit.name(), percent(share.share)))
        .collect();
    let words = verdict.limit.words();
    if verdict.limit == Limit::None {
        return format!("bottleneck: {words}");
    }
    if verdict.limit == Limit::Mixed {
        let shares = verdict.shares.iter().filter(|share| share.share >= 0.005).take(3);
        let shares: Vec<String> = shares
            .map(|share| format!("{} ({})", share.limit.words(), percent(share.share)))
            .collect();
        return format!("bottleneck: {}", shares.join(", "));
    }
    let sure = match verdict.sure {
        Sureness::Low => ", not sure",
        Sureness::Medium => "",
        Sureness::High => ", sure",
    };
    let bound = match verdict.at_most_times {
        Some(times) => format!(". Without it: rows move at most {}", gain(times)),
        None => String::new(),
    };
    format!("bottleneck: {words} ({}{sure}){bound}", shares.join(", "))
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
    for straggler in &verdict.stragglers {
        let mut reasons = Vec::new();
        if let Some(times) = straggler.times_slower {
            reasons.push(format!("{times:.1} times as long per byte as the others"));
        }
        if let Some(alone) = straggler.alone_seconds {
            reasons.push(format!("the last {} of it alone", seconds(alone)));
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

/// Tables that something else held back are told, not listed without end.
const TABLES_TOLD_MAX: usize = 8;

/// How fast so many times is.
fn gain(times: f64) -> String {
    match times {
        ..3.0 => format!("{:.0}% faster", (times - 1.0) * 100.0),
        ..100.0 => format!("{times:.0} times as fast"),
        _ => "100 times as fast".into(),
    }
}

#[cfg(test)]
mod tests {
    use fullbore_record::diagnose::{Share, Straggler};

    use super::*;

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
            limit: Limit::DatabaseCpu,
            share: 0.7,
            runner_up: None,
            sure: Sureness::High,
            shares: Vec::new(),
            at_most_times: None,
            streams: Vec::new(),
            tables: vec![share(Limit::DatabaseCpu, 0.8), share(Limit::SourceDisk, 0.6)],
            stragglers: vec![straggler],
        };
        assert_eq!(
            details(&verdict, &["a", "b"]),
            [
                "table b: the disk of the source (source_disk 60%)",
                "straggler: piece 7 of slow.csv (48.0 MB) took 12.00 s: 4.1 times as long per byte as \
                 the others, the last 3.50 s of it alone",
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
