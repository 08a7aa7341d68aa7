//! The shared secret of both sides. It is never sent, and printed only once, by the side that created it.

use std::fmt;
use std::io;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::{Error, Result};

const LENGTH_MIN: usize = 16;
const LENGTH_MAX: usize = 256;

pub const PROOF_BYTES: usize = 32;

/// A shared secret; `Debug` shows `***`.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A new one, 128 bits of the system's randomness.
    pub fn generate() -> Result<Self> {
        let mut bits = [0; 16];
        getrandom::fill(&mut bits).map_err(|error| Error::System {
            what: "make a token",
            source: io::Error::other(error),
        })?;
        Ok(Self(bits.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// One that somebody wrote down.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if !(LENGTH_MIN..=LENGTH_MAX).contains(&text.len()) {
            return Err(Error::refused(
                format!(
                    "a token has {LENGTH_MIN} to {LENGTH_MAX} characters, this one {}",
                    text.len()
                ),
                "give the one that `fullbore preflight net --listen` printed",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// For the one who made it, to be told to the other side.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Proves that its owner has the token and has seen these bytes.
    pub fn prove(&self, who: &[u8], seen: &[&[u8]]) -> [u8; PROOF_BYTES] {
        self.mac(who, seen).finalize().into_bytes().into()
    }

    /// Whether a proof is right; takes the same time whatever is wrong with it.
    pub fn verify(&self, who: &[u8], seen: &[&[u8]], proof: &[u8; PROOF_BYTES]) -> bool {
        self.mac(who, seen).verify_slice(proof).is_ok()
    }

    fn mac(&self, who: &[u8], seen: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes())
            .expect("HMAC takes keys of any length");
        mac.update(who);
        seen.iter().for_each(|bytes| mac.update(bytes));
        mac
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_this_token_these_bytes_and_this_side() {
        let token = Token::generate().expect("randomness");
        let proof = token.prove(b"client", &[b"one", b"two"]);
        assert!(token.verify(b"client", &[b"one", b"two"], &proof));
        assert!(!token.verify(b"server", &[b"one", b"two"], &proof));
        assert!(!token.verify(b"client", &[b"one", b"too"], &proof));
        let other = Token::generate().expect("randomness");
        assert!(!other.verify(b"client", &[b"one", b"two"], &proof));
        assert_ne!(token.reveal(), other.reveal());
    }

    #[test]
    fn it_is_not_shown() {
        let token = Token::parse(" 0123456789abcdef\n").expect("long enough");
        assert_eq!(format!("{token:?}"), "***");
        assert_eq!(token.reveal(), "0123456789abcdef");
        assert!(Token::parse("short").is_err());
    }
}
