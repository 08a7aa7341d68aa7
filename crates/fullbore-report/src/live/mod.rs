//! The live page: the picture of a report, growing during a run, and figures for Prometheus.
//!
//! It reads only the run's record as it is written, so viewers do not affect the threads of a load. It has
//! one thread with its own runtime. A token protects the page ([`gate`]); the number of viewers, and the
//! wait for viewers that do not read, are bounded ([`connections`]). [`plain`] has figures of a process without a run of its own.
//!
//! ```no_run
//! # fn main() -> Result<(), fullbore_report::live::Error> {
//! let live = fullbore_report::live::Live::start("127.0.0.1:0", "runs/6b019651fdd9".as_ref())?;
//! eprintln!("{}", live.url());
//! // ... the run ...
//! live.finish();
//! # Ok(())
//! # }
//! ```

mod address;
mod connections;
mod gate;
mod metrics;
mod picture;
mod plain;
mod routes;
mod serve;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use fullbore_record::Follower;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use address::Place;
pub use address::is_loopback;
use connections::Limits;
use gate::Token;
pub use metrics::MetricsText;
pub use plain::{Figured, Plain};
use serve::Server;

/// Why there is no live page.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is no address to listen on: {1}")]
    Address(String, String),
    #[error("the live page can't listen on {0}: {1}")]
    Listen(String, std::io::Error),
    #[error("the live page can't be served: {0}")]
    Serve(std::io::Error),
    #[error("{0}")]
    Record(#[from] fullbore_read::error::Error),
}

impl Error {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Address(..) => {
                Some("give an address of this machine, with a port or without: 127.0.0.1:8080")
            }
            Self::Listen(..) => {
                Some("leave the port out for a free one, or give an address of this machine")
            }
            Self::Serve(_) => None,
            Self::Record(error) => match error {
                fullbore_read::error::Error::Read { .. } => Some("see `fullbore runs list`"),
                _ => None,
            },
        }
    }
}

/// A runtime of one thread's own, and what listens on it.
fn listening(place: &Place, listen: &str) -> Result<(Runtime, TcpListener, SocketAddr), Error> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Serve)?;
    let listener = {
        let _entered = runtime.enter();
        place.listen(listen)?
    };
    let bound = listener.local_addr().map_err(Error::Serve)?;
    Ok((runtime, listener, bound))
}

/// A live page that is served.
pub struct Live {
    url: String,
    is_open: bool,
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Live {
    /// Serves the run whose record lies in a folder, at an address of this machine: `127.0.0.1:0` is a
    /// free port that only this machine reaches.
    pub fn start(listen: &str, run_dir: &Path) -> Result<Self, Error> {
        Self::start_within(listen, run_dir, Limits::default())
    }

    fn start_within(listen: &str, run_dir: &Path, limits: Limits) -> Result<Self, Error> {
        let place = Place::of(listen)?;
        let follower = Follower::open(run_dir)?;
        let token = Token::random().map_err(Error::Serve)?;
        let (runtime, listener, bound) = listening(&place, listen)?;
        let url = format!("http://{}/?token={}", place.shown(bound), token.text());
        let (stop, stopped) = watch::channel(false);
        let server = Server::new(listener, follower, token, place, limits, stopped);
        let thread = std::thread::Builder::new()
            .name("live".into())
            .spawn(move || runtime.block_on(server.run()))
            .map_err(Error::Serve)?;
        Ok(Self { url, is_open: !is_loopback(bound.ip()), stop, thread })
    }

    /// Where the page is; whoever has this may look.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// It can be reached from other machines.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Tells those who look how the run has ended, and ends. That takes moments, whoever looks.
    pub fn finish(self) {
        let _ = self.stop.send(true);
        // Its thread ends by itself; a defect of it must not become one of the load.
        if self.thread.join().is_err() {
            tracing::warn!("the live page ended by a defect");
        }
    }

    /// Serves until `has_ended`.
    pub fn serve_until(self, has_ended: impl Fn() -> bool) {
        while !has_ended() && !self.thread.is_finished() {
            std::thread::park_timeout(Duration::from_millis(100));
        }
        self.finish();
    }
}
