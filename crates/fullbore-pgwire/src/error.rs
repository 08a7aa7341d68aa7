//! What can go wrong with a connection, in sentences, each with what to do about it.
//!
//! No error holds a password, nor the connection string that it may have come in.

use std::io;

use super::server_message::ServerMessage;

/// An error of connecting to a server or of using a session.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// What was asked for makes no sense: a wrong connection string, a wrong call.
    #[error("{reason}")]
    Usage {
        /// Why, as a sentence.
        reason: String,
        /// What to do.
        hint: Option<&'static str>,
    },

    /// The service file, or what it says.
    #[error("{reason}")]
    Service {
        /// Why, as a sentence.
        reason: String,
    },

    /// The host name has no address.
    #[error("could not find the address of host {host}: {source}")]
    Resolve {
        /// The name.
        host: String,
        /// Why not.
        source: io::Error,
    },

    /// Nobody answers there.
    #[error("could not connect to {target}: {source}")]
    Refused {
        /// Host and port, or the socket's path.
        target: String,
        /// Why not.
        source: io::Error,
    },

    /// Encryption failed, or the server is not who it should be.
    #[error("no secure connection to {target}: {reason}")]
    Tls {
        /// Host and port.
        target: String,
        /// Why not.
        reason: String,
        /// What to do.
        hint: Option<&'static str>,
    },

    /// The server does not let us in, or does so in a way that the options forbid.
    #[error("could not log in to {target} as {user}: {reason}")]
    Authentication {
        /// Host and port, or the socket's path.
        target: String,
        /// The user's name.
        user: String,
        /// Why not.
        reason: String,
        /// What the server said, where it was the one to refuse.
        server: Option<Box<ServerMessage>>,
        /// What to do.
        hint: Option<&'static str>,
    },

    /// None of several hosts or addresses would do.
    #[error("none of the {} addresses could be used: {}", .attempts.len(), sentences(.attempts))]
    NoHost {
        /// The error of each, in the order tried.
        attempts: Vec<ConnectionError>,
    },

    /// The server refused a statement. The session stays usable, unless the message is fatal.
    #[error("{0}")]
    Server(Box<ServerMessage>),

    /// The connection is gone, and the session with it.
    #[error("the connection to the server was lost: {reason}")]
    Lost {
        /// How.
        reason: String,
    },

    /// The server said something that it must not say; the session is gone.
    #[error("the server broke the protocol: {reason}")]
    Protocol {
        /// How.
        reason: String,
    },

    /// The caller's receiver of COPY data failed.
    #[error("could not write the data of COPY: {source}")]
    Output {
        /// Why.
        source: io::Error,
    },
}

fn sentences(attempts: &[ConnectionError]) -> String {
    let each: Vec<String> = attempts.iter().map(ToString::to_string).collect();
    each.join("; ")
}

impl ConnectionError {
    /// What to do about it, as a sentence.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Usage { hint, .. } | Self::Tls { hint, .. } => *hint,
            Self::Authentication { hint, server, .. } => {
                hint.or_else(|| server.as_ref().and_then(|message| message.hint.as_deref()))
            }
            Self::Service { .. } => {
                Some("services are read from PGSERVICEFILE or ~/.pg_service.conf")
            }
            Self::Resolve { .. } => {
                Some("check the host name, and that this machine can look it up")
            }
            Self::Refused { source, .. } => Some(match source.kind() {
                // A server, but not of the kind wanted.
                io::ErrorKind::Other => return None,
                io::ErrorKind::TimedOut => {
                    "a firewall may drop the packets; check host and port, or raise connect_timeout"
                }
                io::ErrorKind::NotFound => {
                    "no server listens on this socket; give host=localhost to connect over TCP"
                }
                io::ErrorKind::PermissionDenied => {
                    "this user lacks permission to open the server's socket"
                }
                _ => {
                    "check that the server runs there and listens on that address (listen_addresses)"
                }
            }),
            Self::NoHost { attempts } => attempts.iter().find_map(Self::hint),
            Self::Server(message) => message.hint.as_deref(),
            Self::Lost { .. } => {
                Some("the server's log says whether it ended the session, restarted or crashed")
            }
            Self::Protocol { .. } => {
                Some("check that this is a PostgreSQL server, or a proxy for one")
            }
            Self::Output { .. } => None,
        }
    }

    /// The server's SQLSTATE, where the server refused.
    pub fn sqlstate(&self) -> Option<&str> {
        self.server_message().map(|message| message.code.as_str())
    }

    /// What the server said, where it did.
    pub fn server_message(&self) -> Option<&ServerMessage> {
        match self {
            Self::Server(message) => Some(message),
            Self::Authentication { server, .. } => server.as_deref(),
            _ => None,
        }
    }

    /// Whether the session is gone with this error.
    pub fn ends_session(&self) -> bool {
        match self {
            Self::Lost { .. } | Self::Protocol { .. } => true,
            Self::Server(message) => message.is_fatal(),
            _ => false,
        }
    }

    pub fn usage(reason: impl Into<String>) -> Self {
        Self::Usage { reason: reason.into(), hint: None }
    }

    pub fn usage_with_hint(reason: impl Into<String>, hint: &'static str) -> Self {
        Self::Usage { reason: reason.into(), hint: Some(hint) }
    }

    pub(super) fn service(reason: impl Into<String>) -> Self {
        Self::Service { reason: reason.into() }
    }

    pub fn lost(reason: impl Into<String>) -> Self {
        Self::Lost { reason: reason.into() }
    }

    pub fn protocol(reason: impl Into<String>) -> Self {
        Self::Protocol { reason: reason.into() }
    }
}
