//! Connections of clients of whom nothing is known: so many at a time, one request each, and none waits for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// How long it is waited where no connection can be taken.
const PAUSE: Duration = Duration::from_millis(250);

/// Bytes of a request's head that are read.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Bytes that the kernel keeps for a client that does not take them.
const UNTAKEN_BYTES_MAX: usize = 128 << 10;

/// What those who look are allowed.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time; others wait in the kernel's queue, which is bounded too.
    pub connections: usize,
    /// How long a client may take to ask, and to take what it is given.
    pub patience: Duration,
    /// At most so often a picture is made.
    pub between: Duration,
    /// How long the end waits until everybody has heard of it.
    pub farewell: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            patience: Duration::from_secs(20),
            between: Duration::from_secs(1),
            farewell: Duration::from_secs(2),
        }
    }
}

/// Answers until it is told to stop, and those who have asked by then.
pub async fn answer(
    listener: TcpListener,
    limits: Limits,
    mut stopped: watch::Receiver<bool>,
    router: impl Fn(Arc<Pace>) -> Router,
) {
    let permits = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            (stream, permit) = accept(&listener, &permits) => {
                let pace = Arc::new(Pace::default());
                let router = router(pace.clone());
                connections.spawn(async move {
                    converse(stream, router, pace, limits).await;
                    drop(permit);
                });
            }
            Some(_) = connections.join_next() => {}
            _ = stopped.wait_for(|is_stopped| *is_stopped) => break,
        }
    }
    drop(listener);
    let farewell = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(limits.farewell, farewell).await;
}

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> (TcpStream, tokio::sync::OwnedSemaphorePermit) {
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else {
            std::future::pending::<()>().await;
            continue;
        };
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            // No file left, for one: others may close theirs.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// One connection, one request.
async fn converse(stream: TcpStream, router: Router, pace: Arc<Pace>, limits: Limits) {
    let _ = stream.set_nodelay(true);
    let _ = socket2::SockRef::from(&stream).set_send_buffer_size(UNTAKEN_BYTES_MAX);
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.patience)
        .keep_alive(false)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // A client that breaks off is forgotten.
        _ = connection => {}
        () = pace.is_lost(limits.patience) => {}
    }
}

/// How a client keeps up with what it is sent.
#[derive(Debug)]
pub struct Pace {
    began: Instant,
    /// When it was given something that it has not taken yet, in milliseconds from `began`; none while it
    /// waits for us.
    waiting_since: AtomicU64,
}

const WAITS_FOR_US: u64 = u64::MAX;

impl Default for Pace {
    fn default() -> Self {
        Self { began: Instant::now(), waiting_since: AtomicU64::new(0) }
    }
}

impl Pace {
    pub fn waits_for_us(&self) {
        self.waiting_since.store(WAITS_FOR_US, Ordering::Relaxed);
    }

    pub fn waits_for_them(&self) {
        let now = self.began.elapsed().as_millis() as u64;
        self.waiting_since.store(now, Ordering::Relaxed);
    }

    /// Ends once the client has not taken for so long what it was given.
    async fn is_lost(&self, patience: Duration) {
        loop {
            tokio::time::sleep(patience / 4).await;
            let since = self.waiting_since.load(Ordering::Relaxed);
            if since == WAITS_FOR_US {
                continue;
            }
            if self.began.elapsed().saturating_sub(Duration::from_millis(since)) >= patience {
                return;
            }
        }
    }
}
