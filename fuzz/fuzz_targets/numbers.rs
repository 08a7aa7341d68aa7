//! Numbers: what is recognised equals what the standard library makes of it.

#![no_main]

#[path = "support/wide.rs"]
mod wide;

use fullbore_parse::block::Block;
use fullbore_parse::constants::BLOCK_PADDING;
use fullbore_parse::floats::{float32, float64};
use fullbore_parse::numbers::{self, Span, decimal64, decimal128, integer64};
use fullbore_parse::wide::{Decimal, Integer, Integer32};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [scale, field @ ..] = data else { return };
    let column = wide::Column::of(field);
    column.check(&Integer, integer64);
    column.check(&Integer32, |span| i32::try_from(numbers::integer(span)?).ok());
    let (precision, places) = (1 + scale / 10 % 18, scale % 10);
    if let Some(kernel) = Decimal::new(precision, places) {
        column.check(&kernel, |span| decimal64(span, precision, places));
    }
    if field.len() > 64 {
        return;
    }
    let block = Block::of(field);
    let span = Span::new(block.padded(), BLOCK_PADDING, BLOCK_PADDING + field.len());
    let text = std::str::from_utf8(field).unwrap_or("not text");
    if let Some(value) = integer64(span) {
        assert_eq!(text.parse(), Ok(value));
    }
    let scale = scale % 10;
    let units = decimal64(span, 18, scale);
    if let Some(wide) = decimal128(span, 38, scale) {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let zeros = "0".repeat(usize::from(scale) - fraction.len());
        assert_eq!(format!("{whole}{fraction}{zeros}").parse(), Ok(wide));
        // More digits than fit may be written with zeros before them: such a field is odd.
        let digits = text.bytes().filter(u8::is_ascii_digit).count();
        match units {
            Some(units) => assert_eq!(i128::from(units), wide),
            None => assert!(wide.abs() >= 10i128.pow(18) || digits > 18),
        }
    } else {
        assert_eq!(units, None);
    }
    if let Some(value) = float64(field) {
        assert_eq!(text.parse(), Ok(value));
    }
    if let Some(value) = float32(field) {
        assert_eq!(text.parse(), Ok(value));
    }
});
