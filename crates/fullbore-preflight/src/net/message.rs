//! What goes over a control connection once both sides trust each other: frames of a length and a
//! JSON object. Whatever comes is checked against the limits before it is used.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::limits::{
    CELL_SECONDS_MAX, SAMPLES_MAX, SETTING_BYTES_MAX, SETTINGS_MAX, STREAMS_MAX, WINDOW_BYTES_MAX,
};

/// What one host is: as it says itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    pub kernel: String,
    pub cores: u32,
    /// The interface that the connection goes through, and the largest packet that it takes.
    pub interface: Option<String>,
    pub mtu: Option<u32>,
    /// Settings in effect, those that the host tells.
    pub settings: BTreeMap<String, String>,
}

/// One measurement, as the listener needs to know it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    pub cell: u32,
    pub streams: usize,
    pub window_bytes: Option<usize>,
    pub seconds: f64,
    pub bytes_max: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case", deny_unknown_fields)]
pub enum FromClient {
    Hello {
        side: Side,
    },
    /// Streams of this measurement will come.
    Prepare {
        measurement: Measurement,
    },
    /// All have come: it begins now.
    Go,
    Bye,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case", deny_unknown_fields)]
pub enum FromListener {
    Hello {
        session: u64,
        side: Side,
    },
    Ready,
    Done {
        received: Received,
    },
    /// The session ends; why.
    Refused {
        message: String,
    },
}

/// What arrived.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Received {
    pub interval_seconds: f64,
    /// Bytes of all streams since the beginning, at the end of each interval.
    pub totals: Vec<u64>,
    /// The first interval of the steady part.
    pub steady_from: usize,
    pub streams: Vec<StreamReceived>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamReceived {
    pub bytes: u64,
    /// Bytes in the steady part.
    pub steady_bytes: u64,
    /// When its last byte came.
    pub ended_seconds: f64,
    pub cpu_seconds: f64,
    /// Largest window that was offered to the sender; 0 where the kernel does not tell.
    pub window_bytes: u64,
    /// The receive buffer as the kernel had it in the end.
    pub buffer_bytes: u64,
    /// How full the receive queue was in the mean, as a share of the buffer.
    pub queue_share: f64,
}

/// A message that can't be true.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it sent what is no message of this protocol: {0}")]
pub struct Malformed(pub String);

/// What may come from the other side, and when it makes sense.
pub trait Checked: DeserializeOwned {
    fn problem(&self) -> Option<&'static str>;
}

/// Reads a message; the caller has limited its length.
pub fn decode<T: Checked>(bytes: &[u8]) -> Result<T, Malformed> {
    // The parser's own words quote what came, so they are not repeated.
    let message: T = serde_json::from_slice(bytes).map_err(|error| {
        Malformed(format!("{:?} error at byte {}", error.classify(), error.column()))
    })?;
    match message.problem() {
        Some(problem) => Err(Malformed(problem.into())),
        None => Ok(message),
    }
}

impl Checked for FromClient {
    fn problem(&self) -> Option<&'static str> {
        match self {
            Self::Hello { side } => side.problem(),
            Self::Prepare { measurement } => measurement.problem(),
            Self::Go | Self::Bye => None,
        }
    }
}

impl Checked for FromListener {
    fn problem(&self) -> Option<&'static str> {
        match self {
            Self::Hello { side, .. } => side.problem(),
            Self::Ready => None,
            Self::Done { received } => received.problem(),
            Self::Refused { message } => text_problem(message),
        }
    }
}

impl Side {
    fn problem(&self) -> Option<&'static str> {
        let names = self.settings.iter().flat_map(|(name, value)| [name, value]);
        let texts = names.chain([&self.kernel]).chain(&self.interface);
        if self.settings.len() > SETTINGS_MAX {
            return Some("too many settings");
        }
        texts.map(String::as_str).find_map(text_problem)
    }
}

impl Measurement {
    fn problem(&self) -> Option<&'static str> {
        if !(1..=STREAMS_MAX).contains(&self.streams) {
            return Some("a number of streams out of bounds");
        }
        if self.window_bytes.is_some_and(|bytes| bytes > WINDOW_BYTES_MAX) {
            return Some("a window out of bounds");
        }
        if self.bytes_max == 0 {
            return Some("a measurement of nothing");
        }
        let time = self.seconds > 0.0 && self.seconds <= CELL_SECONDS_MAX;
        (!time).then_some("a time out of bounds")
    }
}

impl Received {
    fn problem(&self) -> Option<&'static str> {
        let Self { interval_seconds, totals, steady_from, streams } = self;
        if totals.len() > SAMPLES_MAX || streams.len() > STREAMS_MAX {
            return Some("more samples or streams than there can be");
        }
        if *steady_from > totals.len() || !totals.is_sorted() {
            return Some("totals that don't grow");
        }
        if !(*interval_seconds > 0.0 && *interval_seconds <= CELL_SECONDS_MAX) {
            return Some("an interval out of bounds");
        }
        let sound = |stream: &StreamReceived| {
            let numbers = [stream.ended_seconds, stream.cpu_seconds, stream.queue_share];
            stream.steady_bytes <= stream.bytes
                && numbers.iter().all(|number| (0.0..1e9).contains(number))
        };
        (!streams.iter().all(sound)).then_some("a stream's figures out of bounds")
    }
}

/// Text of the other side is shown to a person: nothing in it may steer a terminal.
fn text_problem(text: &str) -> Option<&'static str> {
    if text.len() > SETTING_BYTES_MAX {
        return Some("a text that is too long");
    }
    text.chars().any(|c| c.is_control() && c != '\t').then_some("a text with control characters")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The fuzz target does the same for longer.
        #[test]
        fn no_bytes_are_too_odd(
            noise in proptest::collection::vec(any::<u8>(), 0..200),
            at in 0..150_usize,
            byte: u8,
        ) {
            let measurement = Measurement {
                cell: 7,
                streams: 4,
                window_bytes: Some(1 << 20),
                seconds: 1.5,
                bytes_max: u64::MAX,
            };
            let message = FromClient::Prepare { measurement };
            let mut bytes = serde_json::to_vec(&message).expect("plain data");
            prop_assert_eq!(decode::<FromClient>(&bytes), Ok(message));
            let length = bytes.len();
            bytes[at % length] = byte;
            if let Ok(FromClient::Prepare { measurement }) = decode(&bytes) {
                prop_assert!(measurement.problem().is_none());
            }
            let _ = decode::<FromClient>(&noise);
            let _ = decode::<FromListener>(&noise);
        }
    }

    #[test]
    fn messages_survive() {
        let side = Side {
            kernel: "6.18".into(),
            cores: 2,
            interface: Some("eth0".into()),
            mtu: Some(1500),
            settings: [("net.ipv4.tcp_rmem".into(), "4096\t131072\t6291456".into())].into(),
        };
        for message in [FromClient::Hello { side }, FromClient::Go, FromClient::Bye] {
            let bytes = serde_json::to_vec(&message).expect("plain data");
            assert_eq!(decode::<FromClient>(&bytes), Ok(message));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "",
            "null",
            r#"{"say":"gone"}"#,
            r#"{"say":"prepare","measurement":{"cell":1,"streams":0,"window_bytes":null,"seconds":1.0,"bytes_max":1}}"#,
            r#"{"say":"prepare","measurement":{"cell":1,"streams":65,"window_bytes":null,"seconds":1.0,"bytes_max":1}}"#,
            r#"{"say":"prepare","measurement":{"cell":1,"streams":1,"window_bytes":null,"seconds":1e9,"bytes_max":1}}"#,
            "{\"say\":\"hello\",\"side\":{\"kernel\":\"\\u001b[2J\",\"cores\":1,\"interface\":null,\"mtu\":null,\"settings\":{}}}",
        ] {
            assert!(decode::<FromClient>(text.as_bytes()).is_err(), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(decode::<FromListener>(deep.as_bytes()).is_err());
        let shrinking = r#"{"say":"done","received":{"interval_seconds":0.1,"totals":[2,1],"steady_from":0,"streams":[]}}"#;
        assert!(decode::<FromListener>(shrinking.as_bytes()).is_err());
    }
}
