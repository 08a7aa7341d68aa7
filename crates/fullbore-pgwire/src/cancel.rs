//! Stopping a statement from outside of its session.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::error::ConnectionError;
use super::limits::CANCEL_TIMEOUT_S;
use super::options::{ConnectionOptions, Keepalive, SslNegotiation};
use super::socket::Peer;
use super::startup::{self, Started};
use super::tls::TlsContext;
use super::wire::Wire;

/// Stops whatever its session runs at the moment. Belongs to any thread, and outlives the session.
#[derive(Clone)]
pub struct CancelHandle {
    peer: Peer,
    target: String,
    tls: Option<TlsContext>,
    negotiation: SslNegotiation,
    keepalive: Keepalive,
    timeout: Duration,
    backend_pid: i32,
    secret_key: i32,
}

impl CancelHandle {
    pub(super) fn new(started: &Started, options: &ConnectionOptions) -> Self {
        Self {
            peer: started.peer.clone(),
            target: started.target.clone(),
            tls: started.tls.clone(),
            negotiation: options.tls.negotiation,
            keepalive: options.keepalive.clone(),
            timeout: options.connect_timeout.unwrap_or(Duration::from_secs(CANCEL_TIMEOUT_S)),
            backend_pid: started.backend_pid,
            secret_key: started.secret_key,
        }
    }

    /// Asks the server to stop the statement, over a connection of its own, encrypted if the
    /// session is. The server does not tell whether there was one to stop; the session gets the
    /// error `57014` if so.
    pub fn cancel(&self) -> Result<(), ConnectionError> {
        let deadline = Some(Instant::now() + self.timeout);
        let (transport, _) = startup::open(
            &self.peer,
            &self.target,
            &self.keepalive,
            self.tls.clone(),
            self.negotiation,
            false,
            deadline,
        )?;
        let mut wire = Wire::new(transport, deadline);
        let mut message = BytesMut::new();
        frontend::cancel_request(self.backend_pid, self.secret_key, &mut message);
        wire.send(&[&message])?;
        // The server closes the connection once the signal is on its way.
        wire.wait_for_end()
    }
}

impl std::fmt::Debug for CancelHandle {
    /// Without the key: whoever has it can stop statements.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CancelHandle")
            .field("target", &self.target)
            .field("backend_pid", &self.backend_pid)
            .finish_non_exhaustive()
    }
}
