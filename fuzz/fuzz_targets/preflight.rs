//! What a peer of the network probe may send: nothing of it crashes, and what is taken is within the
//! limits and says the same when it is said again.

#![no_main]

use fullbore_preflight::limits::{SAMPLES_MAX, SETTINGS_MAX, STREAMS_MAX};
use fullbore_preflight::net::handshake::{Answer, Claim, Greeting};
use fullbore_preflight::net::message::{FromClient, FromListener, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(claim) = bytes.first_chunk().and_then(Claim::decode) {
        assert_eq!(claim.encode(), bytes[..claim.encode().len()]);
    }
    if let Some(greeting) = bytes.first_chunk().and_then(Greeting::decode) {
        assert_eq!(greeting.encode(), bytes[..greeting.encode().len()]);
    }
    if let Some(answer) = bytes.first_chunk().and_then(Answer::decode) {
        assert_eq!(answer.encode(), bytes[..answer.encode().len()]);
    }
    if let Ok(message) = decode::<FromClient>(bytes) {
        let again = serde_json::to_vec(&message).expect("plain data");
        assert_eq!(decode::<FromClient>(&again).as_ref(), Ok(&message));
        match message {
            FromClient::Hello { side } => assert!(side.settings.len() <= SETTINGS_MAX),
            FromClient::Prepare { measurement } => {
                assert!((1..=STREAMS_MAX).contains(&measurement.streams));
                assert!(measurement.seconds.is_finite());
            }
            FromClient::Go | FromClient::Bye => {}
        }
    }
    if let Ok(FromListener::Done { received }) = decode::<FromListener>(bytes) {
        assert!(received.totals.len() <= SAMPLES_MAX && received.streams.len() <= STREAMS_MAX);
        assert!(received.steady_from <= received.totals.len());
    }
});
