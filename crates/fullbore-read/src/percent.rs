//! Percent-encoding, as names of folders and URLs have it.

/// `%3A` is a colon; what is no such code stays as it is, and so does a text that would be none of UTF-8.
pub fn decoded(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((byte, more)) = rest.split_first() {
        let hex = more.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *byte == b'%') {
            Some(made) => {
                bytes.push(made);
                rest = &more[2..];
            }
            None => {
                bytes.push(*byte);
                rest = more;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| value.to_owned())
}
