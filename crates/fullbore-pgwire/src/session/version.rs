//! The server's version as a number, out of what the server says of itself.

/// `18.6 (Debian ...)`, `9.6.24`, `19beta1` as PostgreSQL's own numbers.
pub(super) fn version_num(text: &str) -> u32 {
    let number: &str = text
        .split(|character: char| !(character.is_ascii_digit() || character == '.'))
        .next()
        .unwrap_or_default();
    let parts: Vec<u32> = number.split('.').map_while(|part| part.parse().ok()).collect();
    let part = |index: usize| parts.get(index).copied().unwrap_or(0).min(9_999);
    if part(0) >= 10 {
        part(0) * 10_000 + part(1)
    } else {
        part(0) * 10_000 + part(1).min(99) * 100 + part(2).min(99)
    }
}

#[cfg(test)]
mod tests {
    use super::version_num;

    #[test]
    fn versions() {
        assert_eq!(version_num("18.6"), 180_006);
        assert_eq!(version_num("15.13 (Debian 15.13-0+deb12u1)"), 150_013);
        assert_eq!(version_num("19beta1"), 190_000);
        assert_eq!(version_num("9.6.24"), 90_624);
        assert_eq!(version_num("999999999999"), 0);
        assert_eq!(version_num("what"), 0);
    }
}
