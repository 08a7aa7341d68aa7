//! How numbers and errors are put to people.

/// Says what went wrong, and what to do about it.
pub fn complain(message: &str, hint: Option<&str>) {
    eprintln!("fullbore: {message}");
    if let Some(hint) = hint {
        eprintln!("  hint: {hint}");
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

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
