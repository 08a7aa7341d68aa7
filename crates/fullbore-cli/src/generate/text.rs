//! Rows as text.
//!
//! The generator's row types format themselves, which is fast enough for the small tables. Lineitem is two
//! thirds of all bytes and mostly numbers, and formatting them costs several times as much as generating
//! them. So its rows are formatted here, and the tests compare them with the generator's own text.

use std::fmt::Display;
use std::io::Write;
use std::sync::LazyLock;

use tpchgen::dates::{MIN_GENERATE_DATE, TOTAL_DATE_RANGE, TPCHDate};
use tpchgen::decimal::TPCHDecimal;
use tpchgen::generators::LineItem;

/// Appends rows, one a line, and says how many there were.
pub fn lines<Row: Display>(rows: impl Iterator<Item = Row>, buffer: &mut Vec<u8>) -> u64 {
    let mut count = 0;
    for row in rows {
        // A row's own text ends with its last `|`. Writing to memory does not fail.
        let _ = writeln!(buffer, "{row}");
        count += 1;
    }
    count
}

/// The same for line items, faster.
pub fn line_items<'a>(rows: impl Iterator<Item = LineItem<'a>>, buffer: &mut Vec<u8>) -> u64 {
    let dates: &[String] = &DATES;
    let mut count = 0;
    for row in rows {
        integer(buffer, row.l_orderkey);
        integer(buffer, row.l_partkey);
        integer(buffer, row.l_suppkey);
        integer(buffer, row.l_linenumber.into());
        integer(buffer, row.l_quantity);
        decimal(buffer, row.l_extendedprice);
        decimal(buffer, row.l_discount);
        decimal(buffer, row.l_tax);
        string(buffer, row.l_returnflag);
        string(buffer, row.l_linestatus);
        for date in [row.l_shipdate, row.l_commitdate, row.l_receiptdate] {
            match usize::try_from(date.into_inner()).ok().and_then(|day| dates.get(day)) {
                Some(text) => string(buffer, text),
                None => string(buffer, &date.to_string()),
            }
        }
        string(buffer, row.l_shipinstruct);
        string(buffer, row.l_shipmode);
        string(buffer, row.l_comment);
        buffer.push(b'\n');
        count += 1;
    }
    count
}

/// The seven years that TPC-H knows, by day.
static DATES: LazyLock<Vec<String>> = LazyLock::new(|| {
    (0..TOTAL_DATE_RANGE).map(|day| TPCHDate::new(MIN_GENERATE_DATE + day).to_string()).collect()
});

fn string(buffer: &mut Vec<u8>, value: &str) {
    buffer.extend_from_slice(value.as_bytes());
    buffer.push(b'|');
}

fn integer(buffer: &mut Vec<u8>, value: i64) {
    // The longest is -9223372036854775808, and its `|`.
    let mut text = [b'|'; 21];
    let start = digits(&mut text[..20], value.unsigned_abs(), 1);
    append(buffer, &mut text, start, value < 0);
}

fn decimal(buffer: &mut Vec<u8>, value: TPCHDecimal) {
    let (value, hundred) = (value.into_inner(), 100);
    let mut text = [b'|'; 24];
    digits(&mut text[..23], value.unsigned_abs() % hundred, 2);
    text[20] = b'.';
    let start = digits(&mut text[..20], value.unsigned_abs() / hundred, 1);
    append(buffer, &mut text, start, value < 0);
}

/// Writes digits up to the end of `text`, at least `least` of them; says where they begin.
fn digits(text: &mut [u8], mut value: u64, least: usize) -> usize {
    let mut start = text.len();
    while value > 0 || text.len() - start < least {
        start -= 1;
        // A remainder of ten fits a byte.
        text[start] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    start
}

fn append(buffer: &mut Vec<u8>, text: &mut [u8], mut start: usize, negative: bool) {
    if negative {
        start -= 1;
        text[start] = b'-';
    }
    buffer.extend_from_slice(&text[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_generator_writes_them() {
        for value in [0, 1, 9, 10, 99, 100, -1, -99, -12_345, 1_000_000_007, i64::MAX] {
            let mut buffer = Vec::new();
            integer(&mut buffer, value);
            decimal(&mut buffer, TPCHDecimal::new(value));
            let expected = format!("{value}|{}|", TPCHDecimal::new(value));
            assert_eq!(String::from_utf8(buffer).expect("ASCII"), expected);
        }
        let mut buffer = Vec::new();
        integer(&mut buffer, i64::MIN);
        assert_eq!(buffer, b"-9223372036854775808|");
    }
}
