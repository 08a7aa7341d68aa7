//! Dates and times: what is recognised is in range, and written back it is the field.

#![no_main]

#[path = "support/wide.rs"]
mod wide;

use fullbore_parse::temporal::{date, time, timestamp, timestamp_tz};
use fullbore_parse::wide::{Date, Timestamp};
use libfuzzer_sys::fuzz_target;

/// The calendar day of a day number, by walking.
fn civil(days: i32) -> (i32, i32, i32) {
    let leap = |y: i32| y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    let mut rest = days + 719_162;
    let mut year = 1;
    while rest >= 365 + i32::from(leap(year)) {
        rest -= 365 + i32::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + i32::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while rest >= lengths[month] {
        rest -= lengths[month];
        month += 1;
    }
    (year, month as i32 + 1, rest + 1)
}

fuzz_target!(|field: &[u8]| {
    let column = wide::Column::of(field);
    column.check(&Date, |span| date(span.bytes()));
    column.check(&Timestamp, |span| timestamp(span.bytes()));
    if let Some(days) = date(field) {
        let (year, month, day) = civil(days);
        assert_eq!(format!("{year:04}-{month:02}-{day:02}").as_bytes(), field);
    }
    if let Some(micros) = time(field) {
        assert!((0..86_400_000_000).contains(&micros));
        let seconds = micros / 1_000_000;
        let full = format!(
            "{:02}:{:02}:{:02}.{:06}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            micros % 1_000_000
        );
        assert!(full.as_bytes().starts_with(field));
        assert!(full.as_bytes()[field.len()..].iter().all(|b| matches!(b, b'0' | b':' | b'.')));
    }
    if let Some(micros) = timestamp(field) {
        assert_eq!(timestamp_tz(field, true), Some(micros));
        let days = date(&field[..10]).expect("a timestamp begins with a date");
        assert_eq!(micros.div_euclid(86_400_000_000), i64::from(days));
    }
    let _ = timestamp_tz(field, false);
});
