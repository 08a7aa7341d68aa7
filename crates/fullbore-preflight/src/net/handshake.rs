//! The handshake: messages of a fixed size, so that an unauthenticated peer cannot control allocations.
//!
//! The listener sends a nonce. The client sends another nonce, the purpose of the connection, and an HMAC
//! over all of it that proves that it has the token. The listener's answer proves the same.

use super::token::{PROOF_BYTES, Token};

/// Name and version of the protocol.
const MAGIC: [u8; 8] = *b"FBPFNET1";
pub const NONCE_BYTES: usize = 32;
/// Magic, purpose, session, cell, stream, nonce.
const CLAIM_HEAD_BYTES: usize = 8 + 8 + 8 + 4 + 4 + NONCE_BYTES;

pub const GREETING_BYTES: usize = 8 + NONCE_BYTES;
pub const CLAIM_BYTES: usize = CLAIM_HEAD_BYTES + PROOF_BYTES;
pub const ANSWER_BYTES: usize = 8 + PROOF_BYTES;

/// What the listener says first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    pub nonce: [u8; NONCE_BYTES],
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Control,
    /// A stream of a measurement that the session has announced.
    Stream {
        session: u64,
        cell: u32,
        stream: u32,
    },
}

/// What who connects says, with the proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    pub purpose: Purpose,
    pub nonce: [u8; NONCE_BYTES],
    pub proof: [u8; PROOF_BYTES],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Welcome,
    WrongToken,
    /// Somebody else measures just now.
    Busy,
    /// Nobody has announced this stream.
    Unexpected,
}

const VERDICTS: [Verdict; 4] =
    [Verdict::Welcome, Verdict::WrongToken, Verdict::Busy, Verdict::Unexpected];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub verdict: Verdict,
    /// The listener's proof; of no meaning where it does not welcome.
    pub proof: [u8; PROOF_BYTES],
}

impl Greeting {
    pub fn encode(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..].copy_from_slice(&self.nonce);
        bytes
    }

    pub fn decode(bytes: &[u8; GREETING_BYTES]) -> Option<Self> {
        Some(Self { nonce: bytes.strip_prefix(&MAGIC)?.try_into().ok()? })
    }
}

impl Claim {
    /// Made by who has the token, in answer to a greeting.
    pub fn make(
        token: &Token,
        greeting: &Greeting,
        purpose: Purpose,
        nonce: [u8; NONCE_BYTES],
    ) -> Self {
        let mut claim = Self { purpose, nonce, proof: [0; PROOF_BYTES] };
        claim.proof = token.prove(b"client", &[&greeting.nonce, &claim.head()]);
        claim
    }

    /// Whether who made it has the token, and made it for this greeting.
    pub fn is_proven(&self, token: &Token, greeting: &Greeting) -> bool {
        token.verify(b"client", &[&greeting.nonce, &self.head()], &self.proof)
    }

    pub fn encode(&self) -> [u8; CLAIM_BYTES] {
        let mut bytes = [0; CLAIM_BYTES];
        bytes[..CLAIM_HEAD_BYTES].copy_from_slice(&self.head());
        bytes[CLAIM_HEAD_BYTES..].copy_from_slice(&self.proof);
        bytes
    }

    pub fn decode(bytes: &[u8; CLAIM_BYTES]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (purpose, rest) = rest.split_first_chunk()?;
        let (session, rest) = rest.split_first_chunk()?;
        let (cell, rest) = rest.split_first_chunk()?;
        let (stream, rest) = rest.split_first_chunk()?;
        let (nonce, rest) = rest.split_first_chunk()?;
        let numbers =
            (u64::from_be_bytes(*session), u32::from_be_bytes(*cell), u32::from_be_bytes(*stream));
        let purpose = match (u64::from_be_bytes(*purpose), numbers) {
            (0, (0, 0, 0)) => Purpose::Control,
            (1, (session, cell, stream)) => Purpose::Stream { session, cell, stream },
            _ => return None,
        };
        Some(Self { purpose, nonce: *nonce, proof: rest.try_into().ok()? })
    }

    fn head(&self) -> [u8; CLAIM_HEAD_BYTES] {
        let (purpose, session, cell, stream) = match self.purpose {
            Purpose::Control => (0_u64, 0, 0, 0),
            Purpose::Stream { session, cell, stream } => (1, session, cell, stream),
        };
        let mut bytes = [0; CLAIM_HEAD_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&purpose.to_be_bytes());
        bytes[16..24].copy_from_slice(&session.to_be_bytes());
        bytes[24..28].copy_from_slice(&cell.to_be_bytes());
        bytes[28..32].copy_from_slice(&stream.to_be_bytes());
        bytes[32..].copy_from_slice(&self.nonce);
        bytes
    }
}

impl Answer {
    /// To who has proven to have the token.
    pub fn welcome(token: &Token, greeting: &Greeting, claim: &Claim) -> Self {
        let proof = token.prove(b"listener", &[&greeting.nonce, &claim.encode()]);
        Self { verdict: Verdict::Welcome, proof }
    }

    pub fn refusal(verdict: Verdict) -> Self {
        Self { verdict, proof: [0; PROOF_BYTES] }
    }

    /// Whether the listener has the token too.
    pub fn is_proven(&self, token: &Token, greeting: &Greeting, claim: &Claim) -> bool {
        token.verify(b"listener", &[&greeting.nonce, &claim.encode()], &self.proof)
    }

    pub fn encode(&self) -> [u8; ANSWER_BYTES] {
        let code = VERDICTS.iter().position(|v| *v == self.verdict).unwrap_or_default() as u64;
        let mut bytes = [0; ANSWER_BYTES];
        bytes[..8].copy_from_slice(&code.to_be_bytes());
        bytes[8..].copy_from_slice(&self.proof);
        bytes
    }

    pub fn decode(bytes: &[u8; ANSWER_BYTES]) -> Option<Self> {
        let (code, proof) = bytes.split_first_chunk()?;
        let verdict = VERDICTS.get(usize::try_from(u64::from_be_bytes(*code)).ok()?)?;
        Some(Self { verdict: *verdict, proof: proof.try_into().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token {
        Token::parse(text).expect("long enough")
    }

    #[test]
    fn both_sides_believe_each_other() {
        let token = token("0123456789abcdef");
        let greeting = Greeting { nonce: [7; NONCE_BYTES] };
        let purpose = Purpose::Stream { session: u64::MAX, cell: 3, stream: 9 };
        let claim = Claim::make(&token, &greeting, purpose, [9; NONCE_BYTES]);
        let heard = Claim::decode(&claim.encode()).expect("a claim");
        assert_eq!(heard, claim);
        assert!(heard.is_proven(&token, &greeting));
        let answer = Answer::welcome(&token, &greeting, &heard);
        let answer = Answer::decode(&answer.encode()).expect("an answer");
        assert!(answer.is_proven(&token, &greeting, &claim));
        assert_eq!(Greeting::decode(&greeting.encode()), Some(greeting));
    }

    #[test]
    fn a_claim_is_of_no_use_elsewhere() {
        let ours = token("0123456789abcdef");
        let greeting = Greeting { nonce: [7; NONCE_BYTES] };
        let claim = Claim::make(&ours, &greeting, Purpose::Control, [9; NONCE_BYTES]);
        // Heard once, and played again to another greeting.
        assert!(!claim.is_proven(&ours, &Greeting { nonce: [8; NONCE_BYTES] }));
        assert!(!claim.is_proven(&token("another token of ours"), &greeting));
        // Used for what it was not made for.
        let purpose = Purpose::Stream { session: 1, cell: 1, stream: 1 };
        assert!(!Claim { purpose, ..claim }.is_proven(&ours, &greeting));
        // A listener that has no token can't play back what it was told.
        let echoed = Answer { verdict: Verdict::Welcome, proof: claim.proof };
        assert!(!echoed.is_proven(&ours, &greeting, &claim));
    }
}
