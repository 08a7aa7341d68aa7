//! How moments stand in a record: `{"0":{"sending":{"cpu":12,"wal:path":3}}}`, by table, activity and
//! wait, and what held the bytes of the connection, where that is TCP.
//!
//! A list of them, as earlier records have it, repeats each word every time, and was most of what a
//! long record held. Both are read.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::clock::Activity;
use super::socket::Hold;
use super::{Moment, WaitClass};

/// Stands for a moment at which the server could not be asked.
const UNASKED: &str = "unasked";

pub type Nested = BTreeMap<String, BTreeMap<Activity, BTreeMap<String, u64>>>;

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    List(Vec<Moment>),
    Nested(Nested),
}

pub fn serialize<S: Serializer>(moments: &[Moment], to: S) -> Result<S::Ok, S::Error> {
    let mut nested = Nested::new();
    for moment in moments {
        let by_activity = nested.entry(moment.table.to_string()).or_default();
        let by_wait = by_activity.entry(moment.activity).or_default();
        *by_wait.entry(words(moment)).or_default() += moment.count;
    }
    nested.serialize(to)
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Moment>, D::Error> {
    let nested = match Written::deserialize(from)? {
        Written::List(moments) => return Ok(moments),
        Written::Nested(nested) => nested,
    };
    let mut moments = Vec::new();
    for (table, by_activity) in nested {
        let table = table.parse().map_err(D::Error::custom)?;
        for (activity, by_wait) in by_activity {
            for (wait, count) in by_wait {
                let (wait, held) = meant(&wait).map_err(D::Error::custom)?;
                moments.push(Moment { table, activity, wait, held, count });
            }
        }
    }
    Ok(moments)
}

fn words(moment: &Moment) -> String {
    let wait = moment.wait.as_ref().map_or_else(|| UNASKED.to_owned(), word);
    match &moment.held {
        Some(held) => format!("{wait}:{}", word(held)),
        None => wait,
    }
}

fn meant(words: &str) -> serde_json::Result<(Option<WaitClass>, Option<Hold>)> {
    let (wait, held) =
        words.split_once(':').map_or((words, None), |(wait, held)| (wait, Some(held)));
    let wait = if wait == UNASKED { None } else { Some(of_word(wait)?) };
    Ok((wait, held.map(of_word).transpose()?))
}

fn word(value: &impl Serialize) -> String {
    let word = serde_json::to_value(value).ok();
    word.as_ref().and_then(|word| word.as_str()).unwrap_or_default().to_owned()
}

fn of_word<T: DeserializeOwned>(word: &str) -> serde_json::Result<T> {
    serde_json::from_value(serde_json::Value::String(word.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::ThreadTimes;

    #[test]
    fn what_is_written_is_read_and_so_is_what_was_written_before() {
        let moment =
            |table, activity, wait, count| Moment { table, activity, wait, held: None, count };
        let moments = vec![
            moment(0, Activity::Sending, Some(WaitClass::DataFile), 7),
            moment(2, Activity::Starved, None, 1),
            moment(2, Activity::Starved, Some(WaitClass::Client), 3),
            Moment { held: Some(Hold::Path), ..moment(2, Activity::Sending, None, 9) },
        ];
        let thread = ThreadTimes { moments: moments.clone(), ..ThreadTimes::default() };
        let text = serde_json::to_string(&thread).expect("JSON");
        assert!(text.contains(r#"{"0":{"sending":{"data_file":7}}"#), "{text}");
        let mut read = serde_json::from_str::<ThreadTimes>(&text).expect("read").moments;
        read.sort_by_key(|moment| moment.count);
        let mut wanted = moments.clone();
        wanted.sort_by_key(|moment| moment.count);
        assert_eq!(read, wanted);
        let before = serde_json::json!({ "times": {}, "run_queue_ms": 0, "moments": moments });
        assert_eq!(serde_json::from_value::<ThreadTimes>(before).expect("read").moments, moments);
    }
}
