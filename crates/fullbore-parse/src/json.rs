//! JSON with one object a line: each key is a field, whatever its place.
//!
//! A value is written as the text that COPY takes for it: strings without their quotes and escapes,
//! numbers digit by digit as they stand, what is nested as the JSON it is. `null` and a key that is not
//! there are NULL.

use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::constants::REJECT_VALUE_BYTES;

/// What a column takes of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    /// The text of a scalar; JSON where it is nested.
    Value,
    /// JSON whatever it is: a string keeps its quotes.
    Json,
    /// An array as PostgreSQL writes arrays.
    Array,
}

/// The fields of JSON lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonFields {
    /// Places by key.
    places: HashMap<String, usize>,
    kinds: Vec<JsonKind>,
    /// Keys that are no fields are passed over, not refused.
    skips_others: bool,
}

impl JsonFields {
    pub fn new(keys: &[String], kinds: Vec<JsonKind>, skips_others: bool) -> Self {
        let places = keys.iter().enumerate().map(|(place, key)| (key.clone(), place)).collect();
        Self { places, kinds, skips_others }
    }
}

/// Why a line can't be a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonFault {
    pub key: Option<String>,
    pub value: Option<String>,
    pub reason: String,
}

impl JsonFault {
    fn of_line(reason: String) -> Self {
        Self { key: None, value: None, reason }
    }

    fn of_key(key: &str, value: &str, reason: impl Into<String>) -> Self {
        let end = value.floor_char_boundary(REJECT_VALUE_BYTES);
        Self {
            key: Some(key.to_owned()),
            value: Some(value[..end].to_owned()),
            reason: reason.into(),
        }
    }
}

/// Dimensions that an array of the server's can have.
const DIMENSIONS_MAX: usize = 6;

/// Calls `take` with each key of a line's object and the text of its value.
pub fn each_key<'a>(
    line: &'a str,
    mut take: impl FnMut(&str, &'a str) -> Result<(), JsonFault>,
) -> Result<(), JsonFault> {
    let mut fault = None;
    let mut reader = serde_json::Deserializer::from_str(line);
    let taken = reader.deserialize_map(Object { take: &mut take, fault: &mut fault });
    let ended = taken.and_then(|()| reader.end());
    match (fault, ended) {
        (Some(fault), _) => Err(fault),
        (None, Ok(())) => Ok(()),
        (None, Err(error)) => Err(JsonFault::of_line(not_an_object(&error))),
    }
}

fn not_an_object(error: &serde_json::Error) -> String {
    // It counts lines, of which there is one.
    let words = error.to_string();
    let words = words.split(" at line ").next().unwrap_or_default();
    format!("is not a JSON object on one line: {words} at column {}", error.column())
}

struct Object<'t, T> {
    take: &'t mut T,
    fault: &'t mut Option<JsonFault>,
}

impl<'de, T> Visitor<'de> for Object<'_, T>
where
    T: FnMut(&str, &'de str) -> Result<(), JsonFault>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key_seed(Key)? {
            let value: &RawValue = map.next_value()?;
            // The line is read to its end all the same: what is no JSON is that first.
            if self.fault.is_none() {
                *self.fault = (self.take)(key.as_ref(), value.get()).err();
            }
        }
        Ok(())
    }
}

/// A key, borrowed where it has no escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = std::borrow::Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = std::borrow::Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(key.into())
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(key.to_owned().into())
    }
}

/// Reads lines into values by field; its memory is kept from line to line.
pub struct LineReader<'s> {
    fields: &'s JsonFields,
}

impl<'s> LineReader<'s> {
    pub fn new(fields: &'s JsonFields) -> Self {
        Self { fields }
    }

    /// The values of a line, by field; none where its key is missing.
    pub fn read<'a>(
        &self,
        line: &'a str,
        values: &mut Vec<Option<&'a str>>,
    ) -> Result<(), JsonFault> {
        values.clear();
        values.resize(self.fields.kinds.len(), None);
        each_key(line, |key, value| match self.fields.places.get(key) {
            Some(place) if values[*place].is_some() => {
                Err(JsonFault::of_key(key, value, "the object has this key twice"))
            }
            Some(place) => {
                values[*place] = Some(value);
                Ok(())
            }
            None if self.fields.skips_others => Ok(()),
            None => Err(JsonFault::of_key(
                key,
                value,
                "no column is loaded from this key; list the keys to load with --columns a,b,c to \
                 ignore others",
            )),
        })
    }

    /// Appends a value as its column takes it; false for NULL.
    pub fn write(
        &self,
        field: usize,
        key: &str,
        value: Option<&str>,
        out: &mut Vec<u8>,
    ) -> Result<bool, JsonFault> {
        let Some(value) = value.filter(|value| *value != "null") else { return Ok(false) };
        let wrong = |reason: String| JsonFault::of_key(key, value, reason);
        match (self.fields.kinds[field], value.as_bytes().first()) {
            (JsonKind::Value | JsonKind::Array, Some(b'"')) => {
                out.extend_from_slice(text_of(value).map_err(wrong)?.as_bytes());
            }
            (JsonKind::Array, Some(b'[')) => {
                write_array(value, DIMENSIONS_MAX, out).map_err(wrong)?;
            }
            _ => out.extend_from_slice(value.as_bytes()),
        }
        Ok(true)
    }
}

/// What a JSON string stands for.
pub fn text_of(value: &str) -> Result<std::borrow::Cow<'_, str>, String> {
    let within = &value[1..value.len().max(2) - 1];
    if memchr::memchr(b'\\', within.as_bytes()).is_none() {
        return Ok(within.into());
    }
    let text: String = serde_json::from_str(value)
        .map_err(|error| format!("is no text: {}", error.to_string().replace(" at line 1", "")))?;
    if text.contains('\0') {
        return Err("contains \\u0000, which PostgreSQL can't store in text".into());
    }
    Ok(text.into())
}

/// Writes a JSON array as PostgreSQL writes arrays.
fn write_array(value: &str, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
    if depth == 0 {
        return Err(format!("has more than {DIMENSIONS_MAX} dimensions"));
    }
    let items: Vec<&RawValue> = serde_json::from_str(value).map_err(|error| error.to_string())?;
    out.push(b'{');
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        match item.get().as_bytes().first() {
            Some(b'n') => out.extend_from_slice(b"NULL"),
            Some(b'[') => write_array(item.get(), depth - 1, out)?,
            Some(b'"') => write_quoted(&text_of(item.get())?, out),
            _ => write_quoted(item.get(), out),
        }
    }
    out.push(b'}');
    Ok(())
}

fn write_quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Vec<Option<String>>, JsonFault> {
        use JsonKind::{Array, Json, Value};
        let keys = ["a", "b", "j", "l"].map(str::to_owned);
        let fields = JsonFields::new(&keys, vec![Value, Value, Json, Array], false);
        let reader = LineReader::new(&fields);
        let mut values = Vec::new();
        reader.read(line, &mut values)?;
        let mut all = Vec::new();
        for (field, value) in values.iter().enumerate() {
            let mut out = Vec::new();
            let is_value = reader.write(field, &keys[field], *value, &mut out)?;
            all.push(is_value.then(|| String::from_utf8(out).expect("UTF-8")));
        }
        Ok(all)
    }

    #[test]
    fn values_are_what_copy_takes() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            read(
                r#"{"b": 1.50e+02, "a": "x\n\u00e4\ud83d\ude00", "j": "s", "l": [1, "a\"b", null]}"#
            ),
            Ok(vec![some("x\nä😀"), some("1.50e+02"), some("\"s\""), some(r#"{"1","a\"b",NULL}"#)])
        );
        assert_eq!(
            read(r#"{"a": {"k": [1.0, 2]}, "j": [true], "l": [[1],[2]]}"#),
            Ok(vec![some(r#"{"k": [1.0, 2]}"#), None, some("[true]"), some(r#"{{"1"},{"2"}}"#)])
        );
        assert_eq!(read("{\"a\": null}\r\n"), Ok(vec![None; 4]));
    }

    #[test]
    fn what_is_no_row_says_why() {
        let fault = |line: &str| read(line).expect_err("no row");
        assert_eq!(fault(r#"{"c": 7}"#).key.as_deref(), Some("c"));
        assert_eq!(fault(r#"{"c": 7}"#).value.as_deref(), Some("7"));
        assert!(fault(r#"{"a": 1, "a": 2}"#).reason.contains("twice"));
        assert!(fault(r#"{"a": 1} {"a": 2}"#).reason.contains("trailing characters"));
        assert!(fault(r#"{"a": 01}"#).reason.contains("not a JSON object"));
        assert!(fault("[1]").reason.contains("expected an object"));
        assert!(fault(r#"{"a": "\u0000"}"#).reason.contains("\\u0000"));
        assert!(fault(r#"{"a": "\ud800"}"#).reason.contains("no text"));
        // Nothing overflows, however deep it is.
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(fault(&format!("{{\"l\": {deep}}}")).reason.contains("dimensions"));
        assert!(read(&format!("{{\"j\": {deep}}}")).is_ok());
    }
}
