//! Patterns of dates and times as `to_date` of PostgreSQL has them: `DD.MM.YYYY HH24:MI:SS`.

use chrono::format::{Item, ParseErrorKind, Parsed, StrftimeItems, parse};
use chrono::{NaiveDate, NaiveDateTime, NaiveTime};

use crate::words::Words;

/// What PostgreSQL calls a part, and chrono; of two that begin alike the longer one comes first.
const PARTS: [(&str, &str); 19] = [
    ("YYYY", "%Y"),
    ("YY", "%y"),
    ("MONTH", "%B"),
    ("MON", "%b"),
    ("MM", "%m"),
    ("MI", "%M"),
    ("MS", "%3f"),
    ("DDD", "%j"),
    ("DAY", "%A"),
    ("DD", "%d"),
    ("DY", "%a"),
    ("HH24", "%H"),
    ("HH12", "%I"),
    ("HH", "%I"),
    ("SS", "%S"),
    ("US", "%6f"),
    ("AM", "%p"),
    ("PM", "%p"),
    ("OF", "%#z"),
];

/// A pattern that texts are read by.
pub struct Pattern {
    items: Vec<Item<'static>>,
    text: String,
}

impl Pattern {
    /// # Errors
    /// Letters that stand for nothing.
    pub fn new(text: &str) -> Result<Self, Words> {
        let mut format = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let part = PARTS.iter().find(|(name, _)| {
                rest.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name))
            });
            if let Some((name, chrono)) = part {
                format.push_str(chrono);
                rest = &rest[name.len()..];
            } else if let Some(quoted) = rest.strip_prefix('"') {
                let (literal, after) = quoted
                    .split_once('"')
                    .ok_or_else(|| format!("pattern {text:?} lacks a closing quote"))?;
                format.push_str(&literal.replace('%', "%%"));
                rest = after;
            } else if let Some(after) = rest.strip_prefix("FM") {
                // Numbers are read with and without zeros before them anyway.
                rest = after;
            } else if first.is_alphanumeric() {
                return Err(format!(
                    "pattern {text:?}: {rest:?} is no part of a date or time; parts are YYYY, YY, MM, MON, MONTH, DD, \
                     DDD, DY, DAY, HH24, HH12, MI, SS, MS, US, AM, OF; other letters stand in double quotes"
                ));
            } else {
                format.push_str(if first == '%' { "%%" } else { &rest[..first.len_utf8()] });
                rest = &rest[first.len_utf8()..];
            }
        }
        let items = StrftimeItems::new(&format).parse_to_owned();
        let items = items.map_err(|_| format!("pattern {text:?} can't be read"))?;
        Ok(Self { items, text: text.to_owned() })
    }

    fn parsed(&self, value: &str) -> Result<Parsed, Words> {
        let mut parsed = Parsed::new();
        parse(&mut parsed, value.trim(), self.items.iter()).map_err(|error| {
            let why = match error.kind() {
                ParseErrorKind::OutOfRange | ParseErrorKind::Impossible => "is out of range for",
                _ => "is not written as",
            };
            format!("{value:?} {why} {}", self.text)
        })?;
        Ok(parsed)
    }

    /// The date of a text.
    pub fn date(&self, value: &str) -> Result<NaiveDate, Words> {
        let date = self.parsed(value)?.to_naive_date();
        date.map_err(|_| format!("{value:?} is no date by {}", self.text))
    }

    /// The moment of a text; midnight where it has no time.
    pub fn moment(&self, value: &str) -> Result<NaiveDateTime, Words> {
        let parsed = self.parsed(value)?;
        let wrong = |_| format!("{value:?} is no date with a time by {}", self.text);
        if parsed.offset().is_some() {
            return parsed.to_datetime().map(|found| found.naive_utc()).map_err(wrong);
        }
        let date = parsed.to_naive_date().map_err(wrong)?;
        let has_time = parsed.hour_mod_12().is_some() || parsed.minute().is_some();
        let time = match has_time {
            true => parsed.to_naive_time().map_err(wrong)?,
            false => NaiveTime::MIN,
        };
        Ok(date.and_time(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_by_the_patterns_of_postgresql() {
        let date = |pattern: &str, value: &str| {
            Pattern::new(pattern).unwrap().date(value).map(|date| date.to_string())
        };
        assert_eq!(date("DD.MM.YYYY", "29.2.2024").unwrap(), "2024-02-29");
        assert_eq!(date("MM/DD/YY", "12/31/99").unwrap(), "1999-12-31");
        assert_eq!(date("DD Mon YYYY", "03 Aug 2021").unwrap(), "2021-08-03");
        assert_eq!(date("YYYYMMDD", "20210803").unwrap(), "2021-08-03");
        assert_eq!(date("\"year\" YYYY-DDD", "year 2024-366").unwrap(), "2024-12-31");
        let wrong = date("DD.MM.YYYY", "30.02.2024").unwrap_err();
        assert_eq!(wrong, "\"30.02.2024\" is no date by DD.MM.YYYY");
        assert!(date("DD.MM.YYYY", "2024-02-01").unwrap_err().contains("is not written as"));
        let wrong = Pattern::new("DD.MM.YYYY q").err().unwrap();
        assert!(wrong.contains("\"q\" is no part"), "{wrong}");
    }

    #[test]
    fn moments_have_a_time_and_may_have_an_offset() {
        let moment = |pattern: &str, value: &str| {
            Pattern::new(pattern).unwrap().moment(value).unwrap().to_string()
        };
        assert_eq!(moment("DD.MM.YYYY HH24:MI", "01.02.2024 17:05"), "2024-02-01 17:05:00");
        assert_eq!(moment("MM/DD/YYYY HH12:MI AM", "1/2/2024 12:05 am"), "2024-01-02 00:05:00");
        assert_eq!(moment("DD.MM.YYYY", "01.02.2024"), "2024-02-01 00:00:00");
        let exact = moment("YYYY-MM-DD\"T\"HH24:MI:SS.US", "2024-01-02T03:04:05.000006");
        assert_eq!(exact, "2024-01-02 03:04:05.000006");
        let at = moment("YYYY-MM-DD HH24:MI OF", "2024-01-02 03:04 +02");
        assert_eq!(at, "2024-01-02 01:04:00");
    }
}
