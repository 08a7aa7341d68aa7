//! Fixed-width text: each field has its place in the line.

use super::dialect::{Dialect, Ragged};
use super::rows::FaultReason;

/// The fields of a line without its end, blanks around them cut off; none where nothing is left or it is NULL.
/// Places are counted in characters.
///
/// # Errors
/// The line ends before its last field, or something follows that.
pub fn fields<'a>(
    line: &'a str,
    dialect: &Dialect,
    found: &mut Vec<Option<&'a str>>,
) -> Result<(), FaultReason> {
    found.clear();
    let mut rest = line;
    for (field, width) in dialect.widths.iter().enumerate() {
        if rest.is_empty() && field > 0 && dialect.ragged != Ragged::Pad {
            return Err(FaultReason::MissingField(field));
        }
        let (value, after) = rest.split_at(end_of(rest, *width));
        rest = after;
        let value = value.trim_ascii();
        let is_null = dialect.nulls().any(|null| null == value.as_bytes());
        found.push((!value.is_empty() && !is_null).then_some(value));
    }
    match rest.trim_ascii().is_empty() || dialect.ragged == Ragged::Cut {
        true => Ok(()),
        false => Err(FaultReason::ExtraField),
    }
}

/// Where so many characters end.
fn end_of(text: &str, characters: usize) -> usize {
    match text.get(..characters) {
        Some(head) if head.is_ascii() => characters,
        _ => text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_cut_by_characters() {
        let dialect = |ragged| Dialect { ragged, ..Dialect::fixed(vec![3, 4, 2]) };
        let mut found = Vec::new();
        let strict = dialect(Ragged::Reject);
        fields("  1äöü Z ", &strict, &mut found).unwrap();
        assert_eq!(found, [Some("1"), Some("äöü"), Some("Z")]);
        fields("123    9 ", &strict, &mut found).unwrap();
        assert_eq!(found, [Some("123"), None, Some("9")]);
        fields("123abcd9", &strict, &mut found).unwrap();
        assert_eq!(found[2], Some("9"));
        assert_eq!(fields("123ab", &strict, &mut found), Err(FaultReason::MissingField(2)));
        assert_eq!(fields("123abcd9 x", &strict, &mut found), Err(FaultReason::ExtraField));
        fields("123ab", &dialect(Ragged::Pad), &mut found).unwrap();
        assert_eq!(found, [Some("123"), Some("ab"), None]);
        fields("123abcd9 x", &dialect(Ragged::Cut), &mut found).unwrap();
    }
}
