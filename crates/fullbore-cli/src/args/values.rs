//! Parses the values of options.

use fullbore_load::job::{Count, DirectIo, EndpointPolicy, IfLoaded};
use fullbore_parse::dialect::{FormatName, Header, LineEnd, Quotes, Ragged};
use fullbore_record::terms::{Compress, Method, Publish, Statistics, Verify};

/// A value of an enum by the name that the job file uses too.
fn by_name<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::String(text.into())).map_err(|error| {
        let text = error.to_string();
        text.split(", expected")
            .nth(1)
            .map_or(text.clone(), |known| format!("known are{}", known.replace("one of", "")))
    })
}

/// A free port that only this machine reaches.
pub const HERE: &str = "127.0.0.1";

/// A time, as `500ms`, `60s`, `5min`, `2h` or `90d`.
pub fn time(text: &str) -> Result<std::time::Duration, String> {
    fullbore_load::job::time(text)
        .ok_or_else(|| format!("{text:?} is not a time such as 500ms, 60s, 5min, 2h or 90d"))
}

pub fn format_name(text: &str) -> Result<FormatName, String> {
    by_name(text)
}

pub fn header(text: &str) -> Result<Header, String> {
    by_name(text)
}

pub fn line_end(text: &str) -> Result<LineEnd, String> {
    by_name(text)
}

pub fn quotes(text: &str) -> Result<Quotes, String> {
    by_name(text)
}

pub fn ragged(text: &str) -> Result<Ragged, String> {
    by_name(text)
}

pub fn publish(text: &str) -> Result<Publish, String> {
    by_name(text)
}

pub fn method(text: &str) -> Result<Method, String> {
    by_name(text)
}

pub fn verify(text: &str) -> Result<Verify, String> {
    by_name(text)
}

pub fn statistics(text: &str) -> Result<Statistics, String> {
    by_name(text)
}

pub fn if_loaded(text: &str) -> Result<IfLoaded, String> {
    by_name(text)
}

pub fn compress(text: &str) -> Result<Compress, String> {
    by_name(text)
}

pub fn endpoint_policy(text: &str) -> Result<EndpointPolicy, String> {
    by_name(text)
}

pub fn direct_io(text: &str) -> Result<DirectIo, String> {
    by_name(text)
}

pub fn count(text: &str) -> Result<Count, String> {
    text.parse()
}

/// A host and a directory there: the name may have the `=` of a label, the directory follows the last one.
pub fn host(text: &str) -> Result<(String, String), String> {
    match text.rsplit_once('=') {
        Some((name, directory)) if !name.is_empty() && !directory.is_empty() => {
            Ok((name.to_owned(), directory.to_owned()))
        }
        _ => Err("write NAME=DIR, such as src1=/data".to_owned()),
    }
}
