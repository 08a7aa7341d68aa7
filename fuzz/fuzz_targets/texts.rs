//! Text-like types: decoding never fails, COPY text comes back as it was, byte strings are right.

#![no_main]

use fullbore_parse::dialect::Dialect;
use fullbore_parse::text::{Decoded, bytea, decode, uuid, write_copy_text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|field: &[u8]| {
    let mut line = Vec::new();
    write_copy_text(field, &mut line);
    assert!(!line.iter().any(|b| matches!(b, b'\n' | b'\t' | b'\r')));
    let mut back = Vec::new();
    let text = Dialect::text();
    if line != b"\\N" && decode(&line, &text, &mut back) == Decoded::Value {
        assert_eq!(back, field);
    }
    for dialect in [Dialect::csv(), Dialect { escape: b'\\', ..Dialect::csv() }, text] {
        decode(field, &dialect, &mut Vec::new());
    }
    let mut bytes = Vec::new();
    if bytea(field, &mut bytes) && field.starts_with(b"\\x") {
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert!(field[2..].eq_ignore_ascii_case(hex.as_bytes()));
    }
    if let Some(value) = uuid(field) {
        let hex: String = value.iter().map(|b| format!("{b:02x}")).collect();
        let digits: Vec<u8> = field.iter().copied().filter(|b| *b != b'-').collect();
        assert!(digits.eq_ignore_ascii_case(hex.as_bytes()));
    }
});
