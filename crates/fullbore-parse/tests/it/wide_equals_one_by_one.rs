//! What is parsed several rows at a time is what the field-by-field functions give, on every level
//! of instructions that this processor has; and what is written in the common ways is taken so.

use std::fmt::Debug;

use fullbore_parse::block::Block;
use fullbore_parse::constants::BLOCK_PADDING;
use fullbore_parse::dialect::Dialect;
use fullbore_parse::index::{FieldIndex, Level};
use fullbore_parse::numbers::{self, Span};
use fullbore_parse::wide::{
    self, Date, Decimal, Fields, Integer, Integer32, Kernel, LongDecimal, Pending, Texts, Timestamp,
};
use fullbore_parse::{temporal, text};
use proptest::prelude::*;

const STRIDE: usize = 2;

/// Rows of two fields, the second one given.
fn block_of(fields: &[String]) -> Block {
    let lines: String = fields.iter().map(|field| format!("x,{field}\n")).collect();
    Block::of(lines.as_bytes())
}

fn one<T>(field: &str, parse: impl Fn(Span<'_>) -> T) -> T {
    let mut padded = vec![b'9'; BLOCK_PADDING];
    padded.extend_from_slice(field.as_bytes());
    padded.extend([b'9'; BLOCK_PADDING]);
    parse(Span::new(&padded, BLOCK_PADDING, BLOCK_PADDING + field.len()))
}

/// Every row that the kernel takes has the value that `parse` gives; returns how many it left.
fn compare<K: Kernel>(
    kernel: &K,
    fields: &[String],
    parse: impl Fn(Span<'_>) -> Option<K::Native>,
) -> usize
where
    K::Native: Default + Debug + PartialEq,
{
    let (block, dialect) = (block_of(fields), Dialect::csv());
    let mut index = FieldIndex::default();
    index.build(&block, &dialect);
    let rows = fields.len();
    let input = Fields::new(block.padded(), &index.separators, 1, STRIDE, rows, &dialect);
    let mut left = 0;
    for level in Level::available() {
        let mut values = vec![K::Native::default(); rows];
        let mut pending = Pending::default();
        pending.all(rows);
        wide::parse_with(level, kernel, &input, &mut values, &mut pending);
        for (row, field) in fields.iter().enumerate() {
            if !pending.contains(row) {
                let inner = field.strip_prefix('"').and_then(|f| f.strip_suffix('"'));
                let expected = one(inner.unwrap_or(field), &parse);
                assert_eq!(Some(values[row]), expected, "{field:?} on {level:?}");
            }
        }
        left = (0..rows).filter(|row| pending.contains(*row)).count();
    }
    left
}

/// What numbers and times are written with, in any order, and quoted at times.
fn any_field() -> impl Strategy<Value = String> {
    let common = prop_oneof![
        "-?[0-9]{1,19}",
        "-?[0-9]{0,14}[.][0-9]{0,8}",
        "[0-9]{4}-[0-1][0-9]-[0-3][0-9]",
        "[0-9]{4}-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-7][0-9]:[0-7][0-9]",
        "[0-9]{4}-[0-1][0-9]-[0-2][0-9][ T][0-1][0-9]:[0-5][0-9]:[0-5][0-9][.:/][0-9.]{0,8}",
        "[-0-9.: T/]{0,20}",
        Just(String::new()),
    ];
    (common, 0..8).prop_map(|(field, quoted)| match quoted {
        0 => format!("\"{field}\""),
        _ => field,
    })
}

/// Text as it stands in files: bare, quoted, with doubled quotes, and with quotes anywhere.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,9}",
        "[a-z ]{50,140}",
        "\"[a-z,]{0,70}\"",
        "\"([a-z,]{0,70}\"\"){0,4}[a-z]{0,70}\"",
        "([a-z]{0,3}\"[a-z,]{0,3}\"){0,3}[a-z]{0,2}",
    ]
}

/// The reference's answer.
fn decoded(field: &str) -> Vec<u8> {
    let mut value = Vec::new();
    text::decode(field.as_bytes(), &Dialect::csv(), &mut value);
    value
}

/// In quotes, with none but doubled ones between them.
fn is_common(field: &str) -> bool {
    let inner = field.strip_prefix('"').and_then(|field| field.strip_suffix('"'));
    inner.is_some_and(|inner| !inner.replace("\"\"", "").contains('"'))
}

proptest! {
    #![proptest_config(crate::cases(3000))]

    #[test]
    fn anything(fields in proptest::collection::vec(any_field(), 1..40), precision in 1u8..19, scale in 0u8..9) {
        compare(&Integer, &fields, numbers::integer64);
        compare(&Integer32, &fields, |span| i32::try_from(numbers::integer(span)?).ok());
        compare(&Date, &fields, |span| temporal::date(span.bytes()));
        compare(&Timestamp, &fields, |span| temporal::timestamp(span.bytes()));
        if let Some(kernel) = Decimal::new(precision, scale) {
            compare(&kernel, &fields, |span| numbers::decimal64(span, precision, scale));
        }
        if let Some(kernel) = LongDecimal::new(scale) {
            compare(&kernel, &fields, |span| numbers::decimal128(span, precision + 18, scale));
        }
    }

    #[test]
    fn text_is_copied(fields in proptest::collection::vec(any_text(), 1..40), bytes_max in 0usize..200) {
        let (block, dialect) = (block_of(&fields), Dialect::csv());
        let mut index = FieldIndex::default();
        index.build(&block, &dialect);
        let input = Fields::new(block.padded(), &index.separators, 1, STRIDE, fields.len(), &dialect);
        for level in Level::available() {
            let mut texts = Texts::with_capacity(0, 0);
            while texts.rows() < fields.len() {
                let from = texts.rows();
                wide::append_with(level, &input, bytes_max, &mut texts);
                for (row, field) in fields.iter().enumerate().take(texts.rows()).skip(from) {
                    let taken = &texts.data[texts.ends[row] as usize..texts.ends[row + 1] as usize];
                    prop_assert!(taken.len() <= bytes_max);
                    prop_assert_eq!(taken, decoded(field), "{:?} on {:?}", field, level);
                    prop_assert_eq!(texts.nulls.contains(&(row as u32)), field.is_empty());
                }
                if let Some(field) = fields.get(texts.rows()) {
                    let is_unusual = field.contains('"') && !is_common(field);
                    prop_assert!(is_unusual || decoded(field).len() > bytes_max, "{field:?} was left");
                    texts.end_row();
                }
            }
        }
    }
}

/// Whether this processor has kernels: NEON has an index alone so far.
fn has_kernels() -> bool {
    cfg!(target_arch = "x86_64") && Level::best() != Level::Plain
}

/// The common ways are taken by the kernels, where there are any.
#[test]
fn nothing_common_is_left() {
    if !has_kernels() {
        return;
    }
    let many = |field: &dyn Fn(i64) -> String| (0..64).map(field).collect::<Vec<_>>();
    let spread = |n: i64| (n * n * n * 7919) % 10_000_000;
    let whole = many(&|n| spread(n).to_string());
    let negative = many(&|n| (-spread(n)).to_string());
    let long = many(&|n| (1_000_000_000_000_000 + spread(n) * 977).to_string());
    for fields in [&whole, &negative, &long] {
        assert_eq!(compare(&Integer, fields, numbers::integer64), 0);
    }
    assert_eq!(compare(&Integer32, &whole, |span| i32::try_from(numbers::integer(span)?).ok()), 0);
    let money = Decimal::new(15, 2).expect("a kernel");
    let cents = many(&|n| format!("{}.{:02}", spread(n) * 1000, n));
    let tenths = many(&|n| format!("-{}.{}", spread(n) / 1000, n % 10));
    for fields in [&whole, &cents, &tenths] {
        assert_eq!(compare(&money, fields, |span| numbers::decimal64(span, 15, 2)), 0);
        let long = LongDecimal::new(2).expect("a kernel");
        assert_eq!(compare(&long, fields, |span| numbers::decimal128(span, 38, 2)), 0);
    }
    let second = |n: i64| format!("2026-{:02}-{:02} 23:59:{:02}", 1 + n % 12, 1 + n % 28, n % 60);
    let microsecond = |n: i64| format!("{}.{:06}", second(n), spread(n) % 1_000_000);
    let trimmed = |n: i64| microsecond(n)[..20 + (n as usize % 7).max(1)].to_owned();
    for fields in [many(&second), many(&microsecond), many(&trimmed)] {
        assert_eq!(compare(&Timestamp, &fields, |span| temporal::timestamp(span.bytes())), 0);
    }
}

/// Every day that PostgreSQL knows in four digits, and every day that is none.
#[test]
fn every_day() {
    let mut left = 0;
    for year in 0..10_000 {
        let days: Vec<String> = (0..=13 * 32)
            .map(|day| format!("{year:04}-{:02}-{:02}", day / 32, day % 32))
            .chain((0..7).map(|_| String::from("2000-01-01")))
            .collect();
        left += compare(&Date, &days, |span| temporal::date(span.bytes()));
    }
    // A kernel leaves what is no date, the leap days, and a last group that isn't full.
    let none = 10_000 * (14 * 32 - 31) - 9999 * 365;
    assert!(!has_kernels() || left < none + 10 * 10_000, "{left} left");
}
