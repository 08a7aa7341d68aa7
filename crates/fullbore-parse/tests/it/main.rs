//! The parser held against slow and simple references.

mod equals_reference;
mod texts;
mod values_equal_reference;
mod wide_equals_one_by_one;

/// So many cases of a property, or the share of them in `FULLBORE_TEST_CASES`.
fn cases(count: u32) -> proptest::test_runner::Config {
    let share = std::env::var("FULLBORE_TEST_CASES").ok();
    let share: f64 = share.map_or(1.0, |share| share.parse().expect("a share such as 0.25"));
    proptest::test_runner::Config::with_cases((f64::from(count) * share).ceil() as u32)
}
