//! What can go wrong in a probe, as data; the words for people are in `Display` and `hint`.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for makes no sense, or would do harm; nothing was touched.
    #[error("{message}")]
    Refused { message: String, hint: String },
    #[error("can't {what} {}: {source}", path.display())]
    Path { what: &'static str, path: PathBuf, source: io::Error, hint: Option<String> },
    #[error("can't {what} {address}: {source}")]
    Network { what: &'static str, address: String, source: io::Error, hint: Option<String> },
    /// The other side is not what it should be, or says no.
    #[error("{peer}: {message}")]
    Peer { peer: String, message: String, hint: Option<String> },
    /// A database server refused, or is not there.
    #[error("{message}")]
    Server { message: String, hint: Option<String> },
    #[error("can't {what}: {source}")]
    System { what: &'static str, source: io::Error },
}

impl Error {
    pub fn refused(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused { message: message.into(), hint: hint.into() }
    }

    /// Whether nothing was tried, since the request itself was wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    /// What the user can do, with the option to use.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Refused { hint, .. } => Some(hint),
            Self::Path { hint, .. }
            | Self::Network { hint, .. }
            | Self::Peer { hint, .. }
            | Self::Server { hint, .. } => hint.as_deref(),
            Self::System { .. } => None,
        }
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
