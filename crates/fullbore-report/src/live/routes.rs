//! What can be asked for: the page, its events, the figures for Prometheus.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use axum::{Extension, Router, middleware};
use futures_util::stream::{Stream, unfold};
use tokio::sync::watch;

use super::address::Place;
use super::connections::Pace;
use super::gate::{Token, guard};
use super::{metrics, picture};
use crate::page::Page;

/// How often a quiet stream says that it is still there.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// What those who look share. The newest picture is kept once, however many look: who is slow misses
/// pictures, and makes nobody wait.
pub struct Shared {
    pub token: Token,
    pub place: Place,
    pub page: Mutex<Page>,
    pub newest: watch::Sender<Newest>,
}

/// The newest picture, and whether it is the last.
#[derive(Clone, Default)]
pub struct Newest {
    pub picture: Option<Arc<str>>,
    pub is_last: bool,
}

impl Shared {
    pub fn page(&self) -> MutexGuard<'_, Page> {
        self.page.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Makes a picture of how the run stands, for all.
    pub fn draw(&self) {
        let picture: Arc<str> = picture::of(&self.page()).into();
        self.newest.send_modify(|newest| newest.picture = Some(picture));
    }
}

pub fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/events", get(events))
        .route("/metrics", get(figures))
        .layer(middleware::from_fn_with_state(shared.clone(), guard))
        .with_state(shared)
}

async fn page(State(shared): State<Arc<Shared>>) -> Html<String> {
    Html(crate::html::live(&shared.page()))
}

async fn figures(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], metrics::of(&shared.page()))
}

async fn events(
    State(shared): State<Arc<Shared>>,
    Extension(pace): Extension<Arc<Pace>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    shared.draw();
    let mut newest = shared.newest.subscribe();
    newest.mark_changed();
    pace.waits_for_us();
    let stream = unfold(Some((newest, None)), move |state| {
        let pace = pace.clone();
        async move {
            let (mut newest, sent): (watch::Receiver<Newest>, Option<Arc<str>>) = state?;
            // It is asked for more, so what came before is on its way.
            pace.waits_for_us();
            let (picture, is_last) = next_picture(&mut newest, sent.as_ref()).await?;
            pace.waits_for_them();
            Some(match picture {
                Some(picture) => {
                    if is_last {
                        // What is left is to say so.
                        newest.mark_changed();
                    }
                    let event = Event::default().event("picture").data(&*picture);
                    (event, Some((newest, Some(picture))))
                }
                None => (Event::default().event("end").data("end"), None),
            })
        }
    });
    let stream = futures_util::StreamExt::map(stream, Ok);
    Sse::new(stream).keep_alive(KeepAlive::new().interval(SIGN_OF_LIFE))
}

/// Waits for a picture that was not sent yet; none where the last one was.
async fn next_picture(
    newest: &mut watch::Receiver<Newest>,
    sent: Option<&Arc<str>>,
) -> Option<(Option<Arc<str>>, bool)> {
    loop {
        newest.changed().await.ok()?;
        let Newest { picture, is_last } = newest.borrow_and_update().clone();
        let is_new = |picture: &Arc<str>| !sent.is_some_and(|sent| Arc::ptr_eq(sent, picture));
        let picture = picture.filter(is_new);
        if picture.is_some() || is_last {
            return Some((picture, is_last));
        }
    }
}
