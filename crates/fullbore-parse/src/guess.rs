//! A guessed type accepts only values that it preserves.
//!
//! A type given by the user or the target accepts what the server accepts: `00501` becomes 501. A guessed
//! integer type must refuse `00501`, or it would silently turn codes into numbers.

use super::types::FieldType;
use super::{floats, numbers, temporal, text};

/// Whether a guessed type gives a value back as it was written, as far as its digits matter. Types that
/// are never guessed take everything.
pub fn gives_back(field_type: &FieldType, value: &[u8]) -> bool {
    match field_type {
        FieldType::Boolean => matches!(
            value,
            b"t" | b"f" | b"true" | b"false" | b"TRUE" | b"FALSE" | b"True" | b"False"
        ),
        FieldType::Int64 => !is_code(value) && is_int64(value),
        FieldType::NumericText { .. } => !is_code(value) && numbers::is_plain_decimal(value, None),
        FieldType::Float64 => {
            let digits = value.strip_prefix(b"-").unwrap_or(value);
            !starts_like_code(digits)
                && !value.starts_with(b"+")
                && floats::float64(value).is_some_and(|float| is_same_number(value, float))
        }
        FieldType::Date => temporal::date(value).is_some(),
        FieldType::Timestamp => temporal::timestamp(value).is_some(),
        FieldType::TimestampTz { .. } => temporal::timestamp_tz(value, false).is_some(),
        FieldType::Time => temporal::time(value).is_some(),
        FieldType::Uuid => text::uuid(value).is_some(),
        _ => true,
    }
}

fn is_int64(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok_and(|v| v.parse::<i64>().is_ok())
}

/// `00123`, `+4930123` and `-0` are no numbers: these would lose their zeros and their sign.
pub fn is_code(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.strip_prefix(b"+").is_some_and(is_number)
        || starts_like_code(digits)
        || digits.len() < value.len() && is_zero(digits)
}

fn starts_like_code(digits: &[u8]) -> bool {
    digits.len() > 1 && digits[0] == b'0' && digits[1].is_ascii_digit()
}

fn is_zero(digits: &[u8]) -> bool {
    digits.contains(&b'0') && digits.iter().all(|byte| matches!(byte, b'0' | b'.'))
}

/// Whether a double, as the server prints it, is the number that was written: all of its digits.
fn is_same_number(written: &[u8], float: f64) -> bool {
    if !float.is_finite() {
        return true;
    }
    let printed = format!("{float:e}");
    match (Digits::of(written), Digits::of(printed.as_bytes())) {
        (Some(written), Some(printed)) => written == printed,
        _ => false,
    }
}

/// A number as its digits without zeros around them, and the power of ten of the last.
#[derive(PartialEq, Eq)]
struct Digits {
    digits: Vec<u8>,
    power: i64,
}

impl Digits {
    fn of(text: &[u8]) -> Option<Self> {
        let text = text.strip_prefix(b"-").unwrap_or(text);
        let (number, exponent) = match memchr::memchr2(b'e', b'E', text) {
            Some(at) => (&text[..at], std::str::from_utf8(&text[at + 1..]).ok()?.parse().ok()?),
            None => (text, 0i64),
        };
        let places = number.iter().rev().position(|byte| *byte == b'.').unwrap_or(0) as i64;
        let mut digits: Vec<u8> = number.iter().copied().filter(u8::is_ascii_digit).collect();
        let mut power = exponent - places;
        while digits.last() == Some(&b'0') {
            digits.pop();
            power += 1;
        }
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..zeros);
        if digits.is_empty() {
            power = 0;
        }
        Some(Self { digits, power })
    }
}

/// Whether [`gives_back`] must be asked of a value that a type's parser took; `following` are bytes from
/// the value on, whatever comes after it. Mostly it need not.
#[inline(always)]
pub fn may_be_changed(field_type: &FieldType, following: [u8; 2], length: usize) -> bool {
    let [first, second] = following;
    let is_digit = second.wrapping_sub(b'0') <= 9;
    let is_code = first == b'0' && length > 1 && is_digit || first == b'-' && second == b'0';
    match field_type {
        FieldType::Int64 | FieldType::NumericText { .. } => is_code,
        // 15 digits come back from a double, whatever they are.
        FieldType::Float64 => is_code || length > 16,
        // Words such as `yes` and `1`.
        FieldType::Boolean => !matches!(first, b't' | b'f' | b'T' | b'F'),
        _ => false,
    }
}

/// Whether a type's parser takes nothing that [`gives_back`] refuses.
pub fn parses_what_it_gives_back(field_type: &FieldType) -> bool {
    use FieldType::{Date, Text, Time, Timestamp, Uuid};
    matches!(field_type, Date | Text { .. } | Time | Timestamp | Uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were_written() {
        let numeric = FieldType::NumericText { limits: None };
        for (field_type, back, changed) in [
            (
                &FieldType::Int64,
                &["0", "-5", "501", "9223372036854775807"][..],
                &["00501", "+5", "-0", "5.0", "1_000", " 5", "0x1F", "9223372036854775808"][..],
            ),
            (
                &numeric,
                &["1.50", "0.5", ".5", "-0.25", "12"],
                &["00.5", "-0.0", "1e3", "+1.5", "1,5"],
            ),
            (
                &FieldType::Float64,
                &["1e-05", "0.1000", "-2.5E10", "123456789.25", "1e300"],
                &["0.12345678901234567890", "00.5", "12345678901234567891"],
            ),
            (&FieldType::Date, &["2024-02-29"], &["2024-2-9", "29.02.2024", "2024-02-30"]),
            (&FieldType::Timestamp, &["2024-02-29 10:00:00.5"], &["2024-02-29 10:00:00.1234567"]),
            (&FieldType::Boolean, &["t", "False"], &["yes", "1", "on", "no"]),
        ] {
            for value in back {
                assert!(gives_back(field_type, value.as_bytes()), "{field_type:?} {value}");
            }
            for value in changed {
                assert!(!gives_back(field_type, value.as_bytes()), "{field_type:?} {value}");
            }
        }
    }

    #[test]
    fn what_is_not_asked_of_comes_back() {
        let numeric = FieldType::NumericText { limits: None };
        for value in [
            "0",
            "00",
            "05",
            "-0",
            "-05",
            "0.5",
            "-0.5",
            "5",
            "12345678901234567",
            "0.1234567890123456",
            "1e5",
            "yes",
            "t",
            "10",
        ] {
            let bytes = value.as_bytes();
            let following = [bytes[0], *bytes.get(1).unwrap_or(&b',')];
            for field_type in [&FieldType::Int64, &numeric, &FieldType::Float64] {
                let is_taken = match field_type {
                    FieldType::Float64 => floats::float64(bytes).is_some(),
                    _ => numbers::is_plain_decimal(bytes, None),
                };
                if is_taken && !may_be_changed(field_type, following, bytes.len()) {
                    let is_whole = !value.contains('.');
                    let asked = *field_type != FieldType::Int64 || is_whole;
                    assert!(!asked || gives_back(field_type, bytes), "{field_type:?} {value}");
                }
            }
        }
    }
}
