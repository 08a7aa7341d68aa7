//! Figures and health of a process that runs without end, as plain text.
//!
//! There is no token: these are counts, and nothing else. What scrapes them may know this machine by any name.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::sync::watch;

use super::address::Place;
use super::connections::{self, Limits};
use super::{Error, listening};

/// What is said at `/metrics` and `/health`.
pub trait Figured: Send + Sync + 'static {
    /// In the text format of Prometheus, version 0.0.4.
    fn metrics(&self) -> String;
    /// The last attempt has failed. Why, the log says: it may name files, hosts and values.
    fn is_failing(&self) -> bool;
}

/// A thread that serves them.
pub struct Plain {
    bound: SocketAddr,
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Plain {
    /// Serves at an address of this machine.
    pub fn start(listen: &str, figured: Arc<dyn Figured>) -> Result<Self, Error> {
        Self::start_within(listen, figured, Limits::default())
    }

    pub(super) fn start_within(
        listen: &str,
        figured: Arc<dyn Figured>,
        limits: Limits,
    ) -> Result<Self, Error> {
        let place = Place::of(listen)?;
        let (runtime, listener, bound) = listening(&place, listen)?;
        let router = Router::new()
            .route("/metrics", get(metrics))
            .route("/health", get(health))
            .with_state(figured);
        let (stop, stopped) = watch::channel(false);
        let serve = connections::answer(listener, limits, stopped, move |_| router.clone());
        let thread = std::thread::Builder::new()
            .name("figures".into())
            .spawn(move || runtime.block_on(serve))
            .map_err(Error::Serve)?;
        Ok(Self { bound, stop, thread })
    }

    /// Where they are.
    pub fn address(&self) -> SocketAddr {
        self.bound
    }

    pub fn finish(self) {
        let _ = self.stop.send(true);
        // A defect of its thread must not become one of the load.
        let _ = self.thread.join();
    }
}

async fn metrics(State(figured): State<Arc<dyn Figured>>) -> impl IntoResponse {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], figured.metrics())
}

async fn health(State(figured): State<Arc<dyn Figured>>) -> impl IntoResponse {
    match figured.is_failing() {
        false => (StatusCode::OK, "ok\n"),
        true => (StatusCode::SERVICE_UNAVAILABLE, "failing: see the log\n"),
    }
}
