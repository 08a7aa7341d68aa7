//! The settings of a session that decide which value a text is: `03/04/2026` is a day in March or in
//! April, and `12:00` without a zone any hour.
//!
//! All sessions of a run read alike, whatever becomes of the role's defaults meanwhile: what the first one
//! has is given to the others, is kept in the ledger, and is given to those of a later attempt.

use std::collections::BTreeMap;

use fullbore_pgwire::{ConnectionError, ConnectionOptions, Session, quote_literal};
use serde::{Deserialize, Serialize};

/// The settings. Whoever may open a session may set them.
const NAMES: [&str; 7] = [
    "TimeZone",
    "DateStyle",
    "IntervalStyle",
    "timezone_abbreviations",
    "lc_monetary",
    "xmloption",
    "array_nulls",
];

/// How days are written, whatever the server's default. The style alone: the order of day and month
/// stays that of the server, the database, the role or the URL, as it is for COPY. `IntervalStyle` is
/// left: under `sql_standard` one minus sign is for all fields of an interval that is read.
const STYLES: [(&str, &str); 1] = [("DateStyle", "ISO")];

/// Settings and their values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionSettings(BTreeMap<String, String>);

impl SessionSettings {
    /// How a session reads.
    pub fn of(session: &mut Session) -> Result<Self, ConnectionError> {
        let asked: Vec<String> =
            NAMES.iter().map(|name| format!("current_setting('{name}') AS \"{name}\"")).collect();
        let rows = session.query(&format!("SELECT {}", asked.join(", ")))?;
        let value = |name: &str| rows.first().and_then(|row| row.get(name)).map(str::to_owned);
        Ok(Self(NAMES.iter().filter_map(|name| Some(((*name).into(), value(name)?))).collect()))
    }

    /// Makes a session read so. Nothing is set that is so already: behind a pooler another client may
    /// have the session next.
    pub fn apply(&self, session: &mut Session) -> Result<(), ConnectionError> {
        for (name, _, value) in self.differences(&Self::of(session)?) {
            let value = quote_literal(value)?;
            session.query(&format!("SELECT set_config('{name}', {value}, false)"))?;
        }
        Ok(())
    }

    /// The settings in which another one differs: their names, its values, these values.
    pub(crate) fn differences<'a>(
        &'a self,
        other: &'a Self,
    ) -> Vec<(&'static str, &'a str, &'a str)> {
        let value = |of: &'a Self, name: &str| of.0.get(name).map(String::as_str);
        let pairs = NAMES.iter().filter_map(|name| {
            let (theirs, ours) = (value(other, name).unwrap_or_default(), value(self, name)?);
            (theirs != ours).then_some((*name, theirs, ours))
        });
        pairs.collect()
    }

    /// Whether a time without a zone is one of UTC.
    pub fn zoneless_is_utc(&self) -> bool {
        let zone = self.0.get("TimeZone").map_or("", String::as_str);
        matches!(zone, "UTC" | "GMT" | "Etc/UTC" | "Zulu" | "UCT")
    }
}

/// Gives a new session the styles that both lanes read alike. They are set here rather than with the
/// login: there they would win over the order that the role or the database has, too.
pub fn style(session: &mut Session, options: &ConnectionOptions) -> Result<(), ConnectionError> {
    for (name, style) in STYLES {
        let is_chosen = options.runtime.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let is_so = session.parameter(name).is_some_and(|value| value.starts_with(style));
        if !is_chosen && !is_so {
            session.query(&format!("SELECT set_config('{name}', '{style}', false)"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(zone: &str, style: &str) -> SessionSettings {
        let pairs = [("TimeZone", zone), ("DateStyle", style)];
        SessionSettings(
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        )
    }

    #[test]
    fn what_differs_is_told() {
        let (one, other) = (reading("UTC", "ISO, MDY"), reading("Asia/Tokyo", "ISO, MDY"));
        assert_eq!(one.differences(&other), [("TimeZone", "Asia/Tokyo", "UTC")]);
        assert_eq!(one.differences(&one), []);
        // A record of an older version may lack some of them.
        assert_eq!(SessionSettings::default().differences(&one), []);
        assert!(one.zoneless_is_utc() && !other.zoneless_is_utc());
    }
}
