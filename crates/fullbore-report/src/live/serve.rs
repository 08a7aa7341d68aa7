//! The server of a live page: follows the record, and draws it while somebody looks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use fullbore_record::Follower;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::address::Place;
use super::connections::{self, Limits};
use super::gate::Token;
use super::picture::KEPT_MAX;
use super::routes::{Shared, router};
use crate::page::Page;

/// How often the record is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// A picture is made at most once in so many times what making one takes.
const COST_SHARE: u32 = 50;

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
        let Self { listener, follower, shared, limits, stopped } = self;
        // It tells those who look that the end has come.
        tokio::spawn(follow(follower, shared.clone(), limits, stopped.clone()));
        let with_pace = |pace| router(shared.clone()).layer(Extension(pace));
        connections::answer(listener, limits, stopped, with_pace).await;
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
