//! The pattern that a table's partitions follow: calendar months, or ranges of one width. Rows outside all of
//! them get partitions by it, so that the next load finds its own months free.

use fullbore_parse::calendar;
use fullbore_parse::types::FieldType;

use crate::plan::keys::{Key, KeyColumn};

/// What partitions that are all alike have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// So many months each, counted from year 0.
    Months { each: Key, from: Key, day: Key },
    /// So many units each.
    Width { each: Key, from: Key },
}

const MICROSECONDS_OF_A_DAY: Key = 86_400_000_000;

impl Pattern {
    /// The pattern of ranges, the upper ends exclusive; moments with a zone as its clocks show them. One
    /// range is enough where it is a month or a day; there is none where they differ.
    pub fn of(ranges: &[(Key, Key)], key: &KeyColumn) -> Option<Self> {
        let day = match key.field_type {
            FieldType::Date => Some(1),
            FieldType::Timestamp | FieldType::TimestampTz { .. } => Some(MICROSECONDS_OF_A_DAY),
            _ => None,
        };
        let (first, last) = *ranges.first()?;
        if let Some(pattern) = day.and_then(|day| Self::of_months(ranges, day)) {
            return Some(pattern);
        }
        let (each, from) = (last - first, first);
        let is_alike = |(lower, upper): &(Key, Key)| {
            upper - lower == each && (lower - from).rem_euclid(each) == 0
        };
        let is_a_day = day.is_some_and(|day| each == day && from.rem_euclid(day) == 0);
        let is_known = each > 0 && ranges.iter().all(is_alike) && (ranges.len() > 1 || is_a_day);
        is_known.then_some(Self::Width { each, from })
    }

    fn of_months(ranges: &[(Key, Key)], day: Key) -> Option<Self> {
        let months: Vec<(Key, Key)> = ranges
            .iter()
            .map(|(lower, upper)| month_at(*lower, day).zip(month_at(*upper, day)))
            .collect::<Option<_>>()?;
        let (from, to) = *months.first()?;
        let each = to - from;
        let is_alike = |(lower, upper): &(Key, Key)| {
            upper - lower == each && (lower - from).rem_euclid(each) == 0
        };
        let is_known = each > 0 && months.iter().all(is_alike);
        is_known.then_some(Self::Months { each, from, day })
    }

    /// How many ranges reach from one key to another.
    pub fn count(&self, first: Key, last: Key) -> Key {
        self.number(last) - self.number(first) + 1
    }

    /// The range that holds a key.
    pub fn around(&self, key: Key) -> (Key, Key) {
        let number = self.number(key);
        (self.begin(number), self.begin(number + 1))
    }

    fn number(&self, key: Key) -> Key {
        match *self {
            Self::Months { each, from, day } => {
                let (year, month, _) = civil(key.div_euclid(day));
                (year * 12 + month - 1 - from).div_euclid(each)
            }
            Self::Width { each, from } => (key - from).div_euclid(each),
        }
    }

    fn begin(&self, number: Key) -> Key {
        match *self {
            Self::Months { each, from, day } => {
                let month = from + number * each;
                let (year, of_year) = (month.div_euclid(12), month.rem_euclid(12) + 1);
                Key::from(calendar::days(year as i64, of_year as i64, 1)) * day
            }
            Self::Width { each, from } => from + number * each,
        }
    }

    /// In words: `1 month`, `7 days`, `1000`.
    pub fn words(&self, key: &KeyColumn) -> String {
        let counted = |n: Key, what: &str| match n {
            1 => format!("1 {what}"),
            n => format!("{n} {what}s"),
        };
        match (*self, &key.field_type) {
            (Self::Months { each, .. }, _) => counted(each, "month"),
            (Self::Width { each, .. }, FieldType::Date) => counted(each, "day"),
            (Self::Width { each, .. }, FieldType::Timestamp | FieldType::TimestampTz { .. }) => {
                let units = [
                    (MICROSECONDS_OF_A_DAY, "day"),
                    (3_600_000_000, "hour"),
                    (60_000_000, "minute"),
                    (1_000_000, "second"),
                    (1, "microsecond"),
                ];
                let whole = units.into_iter().find(|(unit, _)| each % unit == 0);
                let (unit, name) = whole.expect("the last divides everything");
                counted(each / unit, name)
            }
            (Self::Width { each, .. }, _) => key.text(each),
        }
    }
}

/// The month that begins at a key, counted from year 0.
fn month_at(key: Key, day: Key) -> Option<Key> {
    let (year, month, of_month) = civil(key.div_euclid(day));
    (key.rem_euclid(day) == 0 && of_month == 1).then_some(year * 12 + month - 1)
}

/// Year, month and day of a day since 1970-01-01.
fn civil(days: Key) -> (Key, Key, Key) {
    // Days of all keys fit.
    let (year, month, day) = calendar::civil(days as i64);
    (year.into(), month.into(), day.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_parse::types::{ParseColumn, ParseShape};

    fn column(field_type: FieldType) -> KeyColumn {
        let key = ParseColumn { name: "k".into(), field: 0, field_type, guess: None };
        KeyColumn::new(&ParseShape::of_one(key), "k").expect("ordered")
    }

    fn pattern(key: &KeyColumn, texts: &[(&str, &str)]) -> Option<Pattern> {
        let end = |text: &str| key.of_text(text).expect("a key");
        let ranges: Vec<_> = texts.iter().map(|(lower, upper)| (end(lower), end(upper))).collect();
        Pattern::of(&ranges, key)
    }

    #[test]
    fn a_pattern_is_found_and_gone_on_with() {
        let (date, moment) = (column(FieldType::Date), column(FieldType::Timestamp));
        let number = column(FieldType::Int64);
        for (key, ranges, words, inside, lower, upper) in [
            (
                &date,
                &[("2024-01-01", "2024-02-01")][..],
                "1 month",
                "2023-12-31",
                "2023-12-01",
                "2024-01-01",
            ),
            (
                &date,
                &[("2024-01-01", "2024-04-01"), ("2024-07-01", "2024-10-01")],
                "3 months",
                "1999-02-28",
                "1999-01-01",
                "1999-04-01",
            ),
            (
                &date,
                &[("2024-01-05", "2024-01-06")],
                "1 day",
                "2024-02-29",
                "2024-02-29",
                "2024-03-01",
            ),
            (
                &date,
                &[("2024-01-01", "2024-01-08"), ("2024-01-08", "2024-01-15")],
                "7 days",
                "2023-12-31",
                "2023-12-25",
                "2024-01-01",
            ),
            (
                &moment,
                &[("2024-01-01 00:00:00", "2024-02-01 00:00:00")],
                "1 month",
                "2024-02-29 23:59:59.999999",
                "2024-02-01T00:00:00",
                "2024-03-01T00:00:00",
            ),
            (
                &moment,
                &[
                    ("2024-01-01 06:00:00", "2024-01-01 12:00:00"),
                    ("2024-01-02 00:00:00", "2024-01-02 06:00:00"),
                ],
                "6 hours",
                "2024-01-01 05:00:00",
                "2024-01-01T00:00:00",
                "2024-01-01T06:00:00",
            ),
            (&number, &[("0", "1000"), ("5000", "6000")], "1000", "-1", "-1000", "0"),
        ] {
            let found = pattern(key, ranges).unwrap_or_else(|| panic!("no pattern: {ranges:?}"));
            assert_eq!(found.words(key), words);
            let around = found.around(key.of_text(inside).expect("a key"));
            assert_eq!((key.text(around.0).as_str(), key.text(around.1).as_str()), (lower, upper));
            assert_eq!(found.count(around.0, around.1), 2);
        }
    }

    #[test]
    fn ranges_that_differ_have_no_pattern() {
        let (date, number) = (column(FieldType::Date), column(FieldType::Int64));
        for (key, ranges) in [
            (&number, &[("0", "1000")][..]),
            (&number, &[("0", "1000"), ("1000", "2500")]),
            (&number, &[("0", "1000"), ("1500", "2500")]),
            (&date, &[("2024-01-01", "2024-02-01"), ("2024-02-01", "2024-04-01")]),
            (&date, &[("2024-01-05", "2024-01-20")]),
            (&date, &[]),
        ] {
            assert_eq!(pattern(key, ranges), None, "{ranges:?}");
        }
    }
}
