//! Sizes that options give in bytes, plain or with a unit: `--piece-size`, `--message-size`, `--send-buffer`.

use std::fmt;
use std::str::FromStr;

use super::pause;

/// Bytes, as `67108864` or `64MB`.
pub(super) fn bytes(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| pause::bytes(text))
}

/// Makes a size within limits; what is outside of them is not `$said`.
macro_rules! size {
    ($(#[$outer:meta])* $name:ident, $limits:expr, $said:literal) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(u64);

        impl $name {
            pub fn bytes(self) -> u64 {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match bytes(text) {
                    Some(bytes) if ($limits).contains(&bytes) => Ok(Self(bytes)),
                    _ => Err(format!(concat!("{:?} is not ", $said), text)),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

size! {
    /// Bytes of source of one piece, which a table loads in one transaction. With fewer, transactions cost more than
    /// the rows in them.
    PieceSize, 100_000.., "a size of at least 100kB, such as 64MB or 1GB"
}

size! {
    /// Bytes of a message of COPY, or of a socket's buffer.
    WireSize, 1_000..=1_000_000_000, "a size from 1kB to 1GB, such as 32kB or 4MB"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_pieces_are_read_as_they_are_written() {
        for (text, bytes) in [("64MB", 64_000_000), ("100kB", 100_000), ("1048576", 1 << 20)] {
            let size: PieceSize = text.parse().expect(text);
            assert_eq!(size.bytes(), bytes);
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for wrong in ["", "0", "99999", "1 MB x", "-5MB", "64M", "many"] {
            assert!(wrong.parse::<PieceSize>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_on_the_wire_are_read_as_they_are_written() {
        for (text, bytes) in [("32kB", 32_000), ("4MB", 4_000_000), ("65536", 65_536)] {
            let size: WireSize = text.parse().expect(text);
            assert_eq!(size.bytes(), bytes);
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for wrong in ["", "0", "999", "2GB", "many"] {
            assert!(wrong.parse::<WireSize>().is_err(), "{wrong}");
        }
    }
}
