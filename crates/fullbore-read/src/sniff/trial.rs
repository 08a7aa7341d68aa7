//! Which delimiter, quote and escape a text is written with: each choice is tried, and scored by how
//! even it makes the records and how much its cells look like values.
//!
//! The score is after van den Burg, Nazábal and Sutton, "Wrangling messy CSV files by detecting row and
//! type patterns" (2019), pattern score times type score, in a form of our own: the share of records that
//! have the commonest width takes the place of the pattern score, since a file has one table here, and
//! cells that a quote or another delimiter spoils count against a choice.

use super::cut::{Cuts, Style};
use super::kind::Kind;

/// Delimiters that are tried wherever they occur.
const COMMON: [&[u8]; 4] = [b",", b"\t", b";", b"|"];
/// Those that mean something else so often that they need a better case.
const UNCOMMON: [&[u8]; 6] = [b" ", b":", b"^", b"~", b"\x01", b"\x1f"];
/// Of several bytes.
const LONG: [&[u8]; 6] = [b", ", b"; ", b"| ", b"||", b"::", b" | "];
/// Text that is tried.
const TRIED_BYTES: usize = 64 * 1024;
/// Rows of it.
const TRIED_ROWS: usize = 400;
/// What a file of one column is worth: a delimiter has to do better.
const ONE_COLUMN: f64 = 0.22;
/// How much better than the usual delimiters an uncommon one has to be.
const UNCOMMON_PRICE: f64 = 0.6;

/// What is fixed of a style.
#[derive(Debug, Clone, Default)]
pub struct Fixed {
    pub delimiter: Option<Vec<u8>>,
    pub quote: Option<u8>,
    pub escape: Option<u8>,
    /// The format is named: a blank or a colon is taken for a delimiter only where it is told.
    pub is_format: bool,
}

/// The style that suits the text best, of those that differ from `base` in what is not fixed; and how
/// well it suits, from 0 to 1.
pub fn best(text: &[u8], is_whole: bool, base: &Style, fixed: &Fixed) -> (Style, f64) {
    let is_cut = text.len() > TRIED_BYTES;
    let text = &text[..text.len().min(TRIED_BYTES)];
    let is_whole = is_whole && !is_cut;
    let mut best: Option<(Style, f64)> = None;
    for style in styles(text, base, fixed) {
        // What has values in one column is not cut at the blanks, colons and slashes within them.
        let is_uncommon = UNCOMMON.contains(&&*style.delimiter) && fixed.delimiter.is_none();
        if is_uncommon && best.as_ref().is_some_and(|(style, _)| is_one_of_values(text, style)) {
            continue;
        }
        let score = score(text, is_whole, &style) * price(&style.delimiter);
        if best.as_ref().is_none_or(|(_, highest)| score > *highest * 1.000_001) {
            best = Some((style, score));
        }
    }
    best.unwrap_or_else(|| (base.clone(), 0.0))
}

/// Whether a style makes one column of the text, and that one of values.
fn is_one_of_values(text: &[u8], style: &Style) -> bool {
    let cuts = Cuts::of(text, false, style, TRIED_ROWS / 4);
    let rows = cuts.rows.iter().filter(|row| row.width() > 0).skip(1);
    let (mut count, mut values) = (0, 0);
    for row in rows {
        count += 1;
        values +=
            usize::from(row.width() == 1 && Kind::of(&cuts.value(&cuts.cells(row)[0])).is_value());
    }
    count > 0 && values * 10 >= count * 8
}

fn price(delimiter: &[u8]) -> f64 {
    if UNCOMMON.contains(&delimiter) { UNCOMMON_PRICE } else { 1.0 }
}

/// All styles to be tried, the likeliest first.
fn styles(text: &[u8], base: &Style, fixed: &Fixed) -> Vec<Style> {
    let occurs = |bytes: &[u8]| memchr::memmem::find(text, bytes).is_some();
    let delimiters: Vec<Vec<u8>> = match &fixed.delimiter {
        Some(delimiter) => vec![delimiter.clone()],
        None => {
            let further = LONG.iter().chain(&UNCOMMON).take_while(|_| !fixed.is_format);
            let candidates = COMMON.iter().chain(further);
            let found = candidates.filter(|delimiter| occurs(delimiter));
            let mut found: Vec<Vec<u8>> = found.map(|delimiter| delimiter.to_vec()).collect();
            // And one that is not there: the file may have one column, whatever stands in it.
            found.extend(COMMON.iter().find(|delimiter| !occurs(delimiter)).map(|d| d.to_vec()));
            found
        }
    };
    let quotes: Vec<u8> = match fixed.quote {
        Some(quote) => vec![quote],
        None if base.quote.is_none() => Vec::new(),
        None => [b'"', b'\''].into_iter().filter(|q| *q == b'"' || occurs(&[*q])).collect(),
    };
    let mut styles = Vec::new();
    for delimiter in &delimiters {
        for quote in &quotes {
            let escapes: &[u8] = match fixed.escape {
                Some(escape) => &[escape],
                None if occurs(&[b'\\', *quote]) => &[*quote, b'\\'],
                None => &[*quote],
            };
            for escape in escapes {
                styles.push(Style {
                    delimiter: delimiter.clone(),
                    quote: Some(*quote),
                    escape: *escape,
                    ..base.clone()
                });
            }
        }
        if quotes.is_empty() {
            styles.push(Style { delimiter: delimiter.clone(), ..base.clone() });
        }
    }
    styles
}

/// How well a style suits a text.
pub fn score(text: &[u8], is_whole: bool, style: &Style) -> f64 {
    let cuts = Cuts::of(text, is_whole, style, TRIED_ROWS);
    let Some(width) = mode(cuts.rows.iter().map(super::cut::Row::width)) else { return 0.0 };
    let rows: Vec<_> = cuts.rows.iter().filter(|row| row.width() > 0).collect();
    let even: Vec<_> = rows.iter().filter(|row| row.width() == width).collect();
    let evenness = even.len() as f64 / rows.len() as f64;
    let (mut spoilt, mut cells) = (0.0, 0.0f64);
    for row in &rows {
        for cell in cuts.cells(row) {
            cells += 1.0;
            spoilt += f64::from(u8::from(cell.is_unsound));
            if !cell.is_quoted {
                spoilt += f64::from(u8::from(is_naked(cuts.raw(cell))));
            }
        }
    }
    let soundness = 1.0 - (spoilt / cells.max(1.0)).min(1.0);
    let mut suits = 0.0;
    for column in 0..width {
        let mut kinds = [0u32; 10];
        let mut worth = 0.0;
        // The first may be a header.
        let below = even.iter().skip(usize::from(even.len() > 2));
        let mut count = 0u32;
        for row in below.take(TRIED_ROWS / 4) {
            let cell = &cuts.cells(row)[column];
            let value = cuts.value(cell);
            let kind = Kind::of(&value);
            kinds[kind as usize] += 1;
            worth += worth_of(kind, cell.is_quoted, &value);
            count += 1;
        }
        let given = count - kinds[Kind::Empty as usize] - kinds[Kind::NullWord as usize];
        let of_one_kind = (2..10).map(|kind| kinds[kind]).max().unwrap_or(0);
        // A column that is always empty is hardly one.
        if given == 0 {
            suits += 0.2;
            continue;
        }
        suits += worth / f64::from(count.max(1))
            * (0.5 + 0.5 * f64::from(of_one_kind) / f64::from(given));
    }
    let suits = suits / width as f64;
    let columns = if width == 1 { ONE_COLUMN } else { (width as f64 - 1.0) / width as f64 };
    evenness * suits * soundness.powi(2) * columns
}

/// How much a cell speaks for the style by which it was cut.
fn worth_of(kind: Kind, is_quoted: bool, value: &[u8]) -> f64 {
    // Of a delimiter of several bytes, such as a comma and a blank, the comma may be there alone.
    let padded = value.first() == Some(&b' ') || value.last() == Some(&b' ');
    if kind != Kind::Text {
        // A number with a comma in it may be two cells that were not cut.
        let worth = if kind == Kind::LocalNumber && !is_quoted { 0.9 } else { 1.0 };
        return if padded && !is_quoted { worth * 0.97 } else { worth };
    }
    if is_quoted {
        return 1.0;
    }
    let is_other = |byte: &u8| matches!(byte, b'\t' | b';' | b'|' | b',');
    match value.iter().any(is_other) {
        true => 0.3,
        false if padded => 0.6,
        false => 0.8,
    }
}

/// A cell with a quote at an end of it that is no quote in its style.
fn is_naked(raw: &[u8]) -> bool {
    let raw = raw.trim_ascii();
    let is_quote = |byte: Option<&u8>| matches!(byte, Some(b'"' | b'\''));
    raw.len() > 1 && (is_quote(raw.first()) && !is_year(raw))
        || raw.len() == 1 && is_quote(raw.first())
        || is_quote(raw.last())
            && raw.first() != raw.last()
            && raw.last() == Some(&b'"')
            && !ends_in_inches(raw)
}

/// `'24` is no quote, nor is `'n'`'s beginning of `'n roll`.
fn is_year(raw: &[u8]) -> bool {
    raw[0] == b'\'' && raw.len() > 1 && raw[1..].iter().all(u8::is_ascii_digit)
}

/// `37.8"` is a measure.
fn ends_in_inches(raw: &[u8]) -> bool {
    raw.len() > 1 && raw[raw.len() - 2].is_ascii_digit()
}

/// The commonest width but 0; of equally common ones the larger.
pub fn mode(widths: impl Iterator<Item = usize>) -> Option<usize> {
    let mut counts = std::collections::BTreeMap::new();
    for width in widths.filter(|width| *width > 0) {
        *counts.entry(width).or_insert(0usize) += 1;
    }
    counts.into_iter().max_by_key(|(width, count)| (*count, *width)).map(|(width, _)| width)
}
