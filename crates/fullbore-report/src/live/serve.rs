//! The server's loop: follows the record, takes connections, ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Extension;
use fullbore_record::Follower;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::address::Place;
use super::gate::Token;
use super::picture::KEPT_MAX;
use super::routes::{Shared, router};
use crate::page::Page;

/// How often the record is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Bytes of a request's head that are read.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Bytes that the kernel keeps for a client that does not take them.
const UNTAKEN_BYTES_MAX: usize = 128 << 10;

/// A picture is made at most once in so many times what making one takes.
const COST_SHARE: u32 = 50;

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

pub struct Server {
    listener: TcpListener,
    follower: Follower,
    shared: Arc<Shared>,
    limits: Limits,
    stopped: watch::Receiver<bool>,
}

impl Server {
    pub fn new(
        listener: TcpListener,
        follower: Follower,
        token: Token,
        place: Place,
        limits: Limits,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let page = Page::keeping(KEPT_MAX).into();
        let newest = watch::Sender::default();
        let shared = Arc::new(Shared { token, place, page, newest });
        Self { listener, follower, shared, limits, stopped }
    }

    pub async fn run(self) {
        let Self { listener, follower, shared, limits, mut stopped } = self;
        let permits = Arc::new(Semaphore::new(limits.connections));
        let mut connections = JoinSet::new();
        let mut following = tokio::spawn(follow(follower, shared.clone(), limits, stopped.clone()));
        loop {
            tokio::select! {
                connection = accept(&listener, &permits) => {
                    let (stream, permit) = connection;
                    let shared = shared.clone();
                    connections.spawn(async move {
                        converse(stream, shared, limits).await;
                        drop(permit);
                    });
                }
                Some(_) = connections.join_next() => {}
                _ = stopped.wait_for(|is_stopped| *is_stopped) => break,
            }
        }
        drop(listener);
        let farewell = async {
            let _ = (&mut following).await;
            while connections.join_next().await.is_some() {}
        };
        let _ = tokio::time::timeout(limits.farewell, farewell).await;
    }
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
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

/// One connection, one request.
async fn converse(stream: TcpStream, shared: Arc<Shared>, limits: Limits) {
    let _ = stream.set_nodelay(true);
    let _ = socket2::SockRef::from(&stream).set_send_buffer_size(UNTAKEN_BYTES_MAX);
    let pace = Arc::new(Pace::default());
    let service = TowerToHyperService::new(router(shared).layer(Extension(pace.clone())));
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
    is_stream: AtomicBool,
}

const WAITS_FOR_US: u64 = u64::MAX;

impl Default for Pace {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            waiting_since: AtomicU64::new(0),
            is_stream: AtomicBool::new(false),
        }
    }
}

impl Pace {
    pub fn begin_stream(&self) {
        self.is_stream.store(true, Ordering::Relaxed);
        self.waits_for_us();
    }

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

/// Reads the record as it grows, and makes pictures of it while somebody looks.
async fn follow(
    mut follower: Follower,
    shared: Arc<Shared>,
    limits: Limits,
    mut stopped: watch::Receiver<bool>,
) {
    let mut drawn: Option<Instant> = None;
    let mut between = limits.between;
    let mut is_newer = false;
    loop {
        let is_last = *stopped.borrow();
        is_newer |= catch_up(&mut follower, &shared).await;
        let is_due = drawn.is_none_or(|at| at.elapsed() >= between);
        if is_newer && (is_due || is_last) && shared.newest.receiver_count() > 0 {
            let began = Instant::now();
            shared.draw();
            drawn = Some(began);
            between = limits.between.max(began.elapsed() * COST_SHARE);
            is_newer = false;
        }
        if is_last {
            shared.newest.send_modify(|newest| newest.is_last = true);
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
        }
    }
}

/// Takes what was written to the record; whether there was something.
async fn catch_up(follower: &mut Follower, shared: &Shared) -> bool {
    let mut is_newer = false;
    loop {
        match follower.next_entries() {
            Ok((entries, has_more)) => {
                is_newer |= !entries.is_empty();
                {
                    let mut page = shared.page();
                    entries.iter().for_each(|entry| page.take(entry));
                }
                if !has_more {
                    return is_newer;
                }
                // A long record must not keep those who look waiting.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                tracing::warn!("the live page can't read the record: {error}");
                return is_newer;
            }
        }
    }
}
