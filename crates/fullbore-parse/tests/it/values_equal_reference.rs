//! Values: what the fast functions recognise they get right, and canonical text they recognise.

use fullbore_parse::block::Block;
use fullbore_parse::numbers::{self, Span};
use fullbore_parse::{floats, temporal, text};
use proptest::prelude::*;

/// A span over a field that stands in a block as parsers see it, between other text.
fn with_span<T>(field: &str, take: impl FnOnce(Span<'_>) -> T) -> T {
    let before = "987654321,";
    let block = Block::of(format!("{before}{field},123456789\n").as_bytes());
    let start = fullbore_parse::constants::BLOCK_PADDING + before.len();
    take(Span::new(block.padded(), start, start + field.len()))
}

/// Days since 1970-01-01 by walking the years.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = |y: i64| y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    let lengths = [31, 28 + i64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    if !(1..=12).contains(&month) || day < 1 || day > lengths[month as usize - 1] {
        return None;
    }
    let years: i64 = (1..year).map(|y| 365 + i64::from(leap(y))).sum();
    let months: i64 = lengths[..month as usize - 1].iter().sum();
    // 719,162 days from 0001-01-01 to 1970-01-01.
    Some(years + months + day - 1 - 719_162)
}

/// Units of 10^-scale by padding text: no arithmetic shared with the parser.
fn units(field: &str, scale: usize) -> Option<i128> {
    let (sign, digits) = field.strip_prefix('-').map_or(("", field), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    if fraction.len() > scale {
        return None;
    }
    format!("{sign}{whole}{fraction}{}", "0".repeat(scale - fraction.len())).parse().ok()
}

proptest! {
    #![proptest_config(crate::cases(4000))]

    #[test]
    fn integers(value in any::<i64>(), shift in 0u32..63) {
        let value = value >> shift;
        prop_assert_eq!(with_span(&value.to_string(), numbers::integer64), Some(value));
    }

    #[test]
    fn anything_taken_for_an_integer_is_one(field in "[-+0-9 a-f.]{0,22}") {
        if let Some(value) = with_span(&field, numbers::integer64) {
            prop_assert_eq!(field.parse::<i64>(), Ok(value));
        }
    }

    #[test]
    fn decimals(field in "-?[0-9]{0,20}(\\.[0-9]{0,6})?", scale in 0u8..7, precision in 1u8..19) {
        let precision = precision.max(scale);
        let expected = units(&field, scale.into())
            .filter(|units| units.unsigned_abs() < 10u128.pow(precision.into()));
        let found = with_span(&field, |span| numbers::decimal64(span, precision, scale));
        prop_assert_eq!(found.map(i128::from), expected, "{} as ({}, {})", field, precision, scale);
        let wide = with_span(&field, |span| numbers::decimal128(span, 38, scale));
        let expected = units(&field, scale.into()).filter(|u| u.unsigned_abs() < 10u128.pow(38));
        prop_assert_eq!(wide, expected);
    }

    #[test]
    fn what_looks_like_a_decimal_is_one(field in "[-0-9.eE+ ]{0,12}") {
        if with_span(&field, |span| numbers::decimal64(span, 18, 4)).is_some() {
            prop_assert!(units(&field, 4).is_some(), "{}", field);
        }
    }

    #[test]
    fn dates(year in 0i64..10_000, month in 0i64..14, day in 0i64..33) {
        let field = format!("{year:04}-{month:02}-{day:02}");
        let expected = if year == 0 { None } else { days(year, month, day) };
        prop_assert_eq!(temporal::date(field.as_bytes()).map(i64::from), expected, "{}", field);
    }

    #[test]
    fn anything_taken_for_a_date_is_one(field in "[0-9/:-]{10}") {
        if temporal::date(field.as_bytes()).is_some() {
            let parts: Vec<_> = field.split('-').collect();
            prop_assert_eq!(parts.len(), 3);
            prop_assert!(parts.iter().all(|p| p.bytes().all(|b| b.is_ascii_digit())), "{}", field);
        }
    }

    #[test]
    fn timestamps(
        (year, month, day) in (1i64..10_000, 1i64..13, 1i64..29),
        (hour, minute, second) in (0i64..26, 0i64..62, 0i64..62),
        (micros, digits) in (0i64..1_000_000, 0usize..8),
        zone in prop_oneof![Just(None), Just(Some(0i64)), (-15i64..=15).prop_map(|h| Some(h * 60)), (-900i64..900).prop_map(Some)],
    ) {
        let fraction = format!("{micros:06}0")[..digits.min(7)].to_owned();
        let shown = if digits == 0 { String::new() } else { format!(".{fraction}") };
        let field = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{shown}");
        let kept: i64 = format!("{:0<6}", fraction.chars().take(6).collect::<String>()).parse().unwrap_or(0);
        let kept = if digits == 0 { 0 } else { kept };
        let valid = hour < 24 && minute < 60 && second < 60 && digits <= 6;
        let expected = valid.then(|| {
            (days(year, month, day).unwrap() * 86_400 + hour * 3600 + minute * 60 + second) * 1_000_000 + kept
        });
        prop_assert_eq!(temporal::timestamp(field.as_bytes()), expected, "{}", field);
        if let Some(zone) = zone {
            let sign = if zone < 0 { '-' } else { '+' };
            let zoned = format!("{field}{sign}{:02}:{:02}", zone.abs() / 60, zone.abs() % 60);
            let expected = expected.map(|local| local - zone * 60_000_000);
            prop_assert_eq!(temporal::timestamp_tz(zoned.as_bytes(), false), expected, "{}", zoned);
        } else {
            prop_assert_eq!(temporal::timestamp_tz(field.as_bytes(), false), None);
            prop_assert_eq!(temporal::timestamp_tz(field.as_bytes(), true), expected);
        }
    }

    #[test]
    fn floats(value in any::<f64>()) {
        let field = format!("{value:e}");
        let expected = value.is_finite().then_some(value);
        prop_assert_eq!(floats::float64(field.as_bytes()), expected, "{}", field);
    }

    #[test]
    fn short_floats(field in "-?[0-9]{0,12}[.]?[0-9]{0,12}") {
        let wide = floats::float64(field.as_bytes());
        prop_assert_eq!(wide.map(f64::to_bits), field.parse().ok().map(f64::to_bits), "{}", field);
        let narrow = floats::float32(field.as_bytes());
        prop_assert_eq!(narrow.map(f32::to_bits), field.parse().ok().map(f32::to_bits), "{}", field);
    }

    /// Halfway between two neighbours, and as near to it as 19 digits can be.
    #[test]
    fn floats_halfway(bits in (1u64 << 53..1 << 54, 1u64 << 24..1 << 25), halvings in 0u32..4, aside in -1i64..=1) {
        // Each halving makes a place after the point, exactly.
        let shown = |odd: u64, halvings: u32| {
            let mut digits = (u128::from(odd) * 5u128.pow(halvings)).to_string();
            digits.insert(digits.len() - halvings as usize, '.');
            digits
        };
        let (wide, narrow) = (shown(bits.0 | 1, halvings), shown(bits.1 | 1, halvings));
        for field in [wide, narrow] {
            let places = field.len() - 1 - field.find('.').unwrap();
            let zeros = 19usize.saturating_sub(field.len() - 1);
            let digits: i128 = field.replace('.', "").parse().unwrap();
            let digits = (digits * 10i128.pow(zeros as u32) + i128::from(aside)).to_string();
            let (whole, fraction) = digits.split_at(digits.len() - places - zeros);
            let field = format!("-{whole}.{fraction}");
            let wide = floats::float64(field.as_bytes()).map(f64::to_bits);
            prop_assert_eq!(wide, field.parse().ok().map(f64::to_bits), "{}", field);
            let narrow = floats::float32(field.as_bytes()).map(f32::to_bits);
            prop_assert_eq!(narrow, field.parse().ok().map(f32::to_bits), "{}", field);
        }
    }

    #[test]
    fn uuids(value in any::<u128>(), upper in any::<bool>()) {
        let hex = format!("{value:032x}");
        let field = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
        let field = if upper { field.to_uppercase() } else { field };
        prop_assert_eq!(text::uuid(field.as_bytes()), Some(value.to_be_bytes()));
        prop_assert_eq!(text::uuid(&field.as_bytes()[..35]), None);
    }

    #[test]
    fn byte_strings(value in proptest::collection::vec(any::<u8>(), 0..40)) {
        let field: String = value.iter().fold("\\x".to_owned(), |text, b| format!("{text}{b:02x}"));
        let mut out = vec![7];
        prop_assert!(text::bytea(field.as_bytes(), &mut out));
        prop_assert_eq!(&out[1..], value);
    }

    /// What is written as COPY text is read back from it.
    #[test]
    fn copy_text_round_trip(value in "\\PC{0,20}[\\t\\n\\r\\\\]{0,5}[a-z]{0,3}") {
        let mut line = Vec::new();
        text::write_copy_text(value.as_bytes(), &mut line);
        prop_assert!(!line.contains(&b'\n') && !line.contains(&b'\t'));
        let mut back = Vec::new();
        let dialect = fullbore_parse::dialect::Dialect::text();
        prop_assert_eq!(text::decode(&line, &dialect, &mut back), text::Decoded::Value);
        prop_assert_eq!(back, value.as_bytes());
    }
}
