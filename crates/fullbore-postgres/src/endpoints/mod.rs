//! Several ways to one server: which of them a piece takes, and which are down.
//!
//! A stream keeps a session for each endpoint that it was sent to, and goes by one of them with each piece. An
//! endpoint whose connections break takes no more pieces until a connection to it is accepted again
//! (`guard`). Sessions that load nothing go by the first way that is open.

mod dealing;
mod guard;
pub(crate) mod interface;

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use fullbore_load::job::{Endpoint, EndpointPolicy};
use fullbore_pgwire::{ConnectionOptions, Door, HostOptions, Session, Source};
use fullbore_record::Event;

use dealing::Dealer;
pub(crate) use guard::Guard;

/// An unanswered connection is given up this soon: there are others.
const CONNECTING: Duration = Duration::from_secs(5);
/// The kernel asks a silent peer this often, so that the guard sees whether it answers.
const ASKED_EVERY: Duration = Duration::from_secs(1);
/// Before a way that broke is tried again: at first, and if it breaks again and again.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MOST: Duration = Duration::from_secs(16);
/// A way that has held so long is as good as any.
const HELD: Duration = Duration::from_secs(30);

/// One way.
struct Way {
    name: String,
    options: ConnectionOptions,
    /// Its addresses, once they are known.
    door: OnceLock<Door>,
}

/// What is known of a way.
struct Known {
    down: Option<Down>,
    /// How often it was down.
    times: u64,
    up_since: Instant,
    pause: Duration,
}

struct Down {
    since: Instant,
    reason: String,
}

/// The ways to a server.
pub struct Endpoints {
    /// The destination as it was given.
    base: ConnectionOptions,
    ways: Vec<Way>,
    state: Mutex<State>,
}

struct State {
    dealer: Dealer,
    known: Vec<Known>,
    /// What happened and was not reported yet.
    news: Vec<Event>,
}

impl State {
    fn deal(&mut self, bytes: u64) -> usize {
        let mut open: Vec<bool> = self.known.iter().map(|known| known.down.is_none()).collect();
        if !open.contains(&true) {
            open.fill(true);
        }
        self.dealer.deal(&open, bytes)
    }
}

/// A piece's way. What it has not sent counts as queued there, until this is dropped.
pub(crate) struct Dealt {
    endpoints: Arc<Endpoints>,
    pub at: usize,
    left: u64,
}

impl Endpoints {
    /// The ways by which a server can be reached that `base` leads to; none where no endpoint is given.
    pub(crate) fn new(
        given: &[Endpoint],
        policy: EndpointPolicy,
        base: &ConnectionOptions,
    ) -> Option<Arc<Self>> {
        if given.is_empty() {
            return None;
        }
        let way = |endpoint: &Endpoint| {
            let source = endpoint.source.as_deref().map(|source| match source.parse() {
                Ok(address) => Source::Address(address),
                Err(_) => Source::Interface(source.into()),
            });
            let mut options = base.by_way_of(&endpoint.host, endpoint.port, source);
            if given.len() > 1 {
                hurry(&mut options);
            }
            let name = Endpoint { weight: 1, ..endpoint.clone() }.to_string();
            let door = OnceLock::new();
            if let Ok(found) = Door::of(&options.hosts[0]) {
                let _ = door.set(found);
            }
            Way { name, options, door }
        };
        let weights = given.iter().map(|endpoint| match policy {
            EndpointPolicy::Weighted => endpoint.weight,
            EndpointPolicy::LeastQueue | EndpointPolicy::RoundRobin => 1,
        });
        let known = given.iter().map(|_| Known {
            down: None,
            times: 0,
            up_since: Instant::now(),
            pause: PAUSE_FIRST,
        });
        let state = State {
            dealer: Dealer::new(policy == EndpointPolicy::LeastQueue, weights.collect()),
            known: known.collect(),
            news: Vec::new(),
        };
        Some(Arc::new(Self {
            base: base.clone(),
            ways: given.iter().map(way).collect(),
            state: Mutex::new(state),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The destination's own ways, waited for no longer than the others.
    pub(crate) fn base(&self) -> ConnectionOptions {
        let mut options = self.base.clone();
        hurry(&mut options);
        options
    }

    pub(crate) fn count(&self) -> usize {
        self.ways.len()
    }

    /// The interface that all of them go by.
    pub(crate) fn interface(&self) -> Option<String> {
        interface::of_all(self.ways.iter().map(|way| &way.options))
    }

    pub(crate) fn name(&self, at: usize) -> &str {
        &self.ways[at].name
    }

    pub(crate) fn options(&self, at: usize) -> &ConnectionOptions {
        &self.ways[at].options
    }

    /// Deals a piece of so many bytes to a way that is open; where none is, to any.
    pub(crate) fn deal(self: &Arc<Self>, bytes: u64) -> Dealt {
        let at = self.state().deal(bytes);
        Dealt { endpoints: self.clone(), at, left: bytes }
    }

    /// The ways that a session takes for which any will do: the destination's own, then the others, those that
    /// are down last.
    pub(crate) fn any(&self) -> ConnectionOptions {
        let state = self.state();
        let is_same = |one: &HostOptions, other: &HostOptions| {
            one.host == other.host && one.port == other.port
        };
        let (open, down): (Vec<_>, Vec<_>) =
            self.ways.iter().zip(&state.known).partition(|(_, known)| known.down.is_none());
        let hosts = |ways: Vec<(&Way, _)>| {
            ways.into_iter().flat_map(|(way, _)| way.options.hosts.clone()).collect::<Vec<_>>()
        };
        let (open, down) = (hosts(open), hosts(down));
        let is_way = |host: &HostOptions| open.iter().chain(&down).any(|way| is_same(way, host));
        let own = self.base.hosts.iter().filter(|host| !is_way(host)).cloned();
        let mut options = self.base.clone();
        options.hosts = own.chain(open.iter().cloned()).chain(down.iter().cloned()).collect();
        if self.ways.len() > 1 {
            hurry(&mut options);
        }
        options
    }

    /// A connection by this way broke.
    pub(crate) fn lose(&self, at: usize, reason: &str) {
        let mut state = self.state();
        let known = &mut state.known[at];
        if known.down.is_some() || self.ways.len() == 1 {
            return;
        }
        let has_held = known.up_since.elapsed() > HELD || known.times == 0;
        known.pause = if has_held { PAUSE_FIRST } else { (known.pause * 2).min(PAUSE_MOST) };
        known.times += 1;
        known.down = Some(Down { since: Instant::now(), reason: reason.to_owned() });
        let endpoint = self.ways[at].name.clone();
        tracing::warn!(endpoint, "endpoint is down: {reason}");
        state.news.push(Event::EndpointDown { endpoint, reason: reason.into() });
    }

    /// A connection by this way was accepted.
    pub(crate) fn find(&self, at: usize) {
        let mut state = self.state();
        let known = &mut state.known[at];
        let Some(down) = known.down.take() else { return };
        known.up_since = Instant::now();
        let seconds = down.since.elapsed().as_secs_f64();
        let endpoint = self.ways[at].name.clone();
        tracing::info!(endpoint, seconds, "endpoint is up again; it was down: {}", down.reason);
        state.news.push(Event::EndpointUp { endpoint, seconds });
    }

    /// The ways that are down, since when, and how long one is not tried again.
    fn down(&self) -> Vec<(usize, Instant, Duration)> {
        let state = self.state();
        let known = state.known.iter().enumerate();
        known
            .filter_map(|(at, known)| Some((at, known.down.as_ref()?.since, known.pause)))
            .collect()
    }

    /// How often a way was down: sessions that it had before are gone.
    pub(crate) fn times_down(&self, at: usize) -> u64 {
        self.state().known[at].times
    }

    /// Begins to connect by a way, to one of its addresses after the other.
    fn knock(&self, at: usize, time: usize) -> Option<OwnedFd> {
        let way = &self.ways[at];
        if way.door.get().is_none() {
            let _ = way.door.set(Door::of(&way.options.hosts[0]).ok()?);
        }
        way.door.get()?.knock(time).ok()
    }

    /// What happened since it was asked last.
    pub(crate) fn news(&self) -> Vec<Event> {
        std::mem::take(&mut self.state().news)
    }
}

impl Dealt {
    /// So much of the piece's source is sent.
    pub fn sent(&mut self, bytes: u64) {
        let bytes = self.left.min(bytes);
        self.left -= bytes;
        self.endpoints.state().dealer.done(self.at, bytes);
    }

    /// It is so many bytes more.
    pub fn add(&mut self, bytes: u64) {
        self.left += bytes;
        self.endpoints.state().dealer.add(self.at, bytes);
    }

    /// Deals the same piece once more.
    pub fn again(&mut self) {
        let mut state = self.endpoints.state();
        state.dealer.done(self.at, self.left);
        self.at = state.deal(self.left);
    }

    /// The same piece by a way that is given.
    pub fn instead(&mut self, at: usize) {
        let mut state = self.endpoints.state();
        state.dealer.done(self.at, self.left);
        state.dealer.add(at, self.left);
        self.at = at;
    }
}

impl Drop for Dealt {
    fn drop(&mut self) {
        self.endpoints.state().dealer.done(self.at, self.left);
    }
}

/// Whether two sessions are the same server's: when its postmaster was started, to the microsecond.
pub(crate) fn server_of(session: &mut Session) -> Result<String, fullbore_pgwire::ConnectionError> {
    let asked = "SELECT extract(epoch FROM pg_postmaster_start_time())::text AS started";
    let rows = session.query(asked)?;
    Ok(rows.first().and_then(|row| row.get("started")).unwrap_or_default().to_owned())
}

/// Shorter waits, where there are other ways; what the URL says holds.
fn hurry(options: &mut ConnectionOptions) {
    options.connect_timeout.get_or_insert(CONNECTING);
    options.keepalive.idle.get_or_insert(ASKED_EVERY);
    options.keepalive.interval.get_or_insert(ASKED_EVERY);
    // Left to the guard: it would end connections whose server does not read, too.
    options.keepalive.user_timeout.get_or_insert(Duration::ZERO);
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_pgwire::Environment;

    fn endpoints(given: &[&str]) -> (Arc<Endpoints>, ConnectionOptions) {
        let url = "postgresql://u:secret@a:5433,z/d";
        let base = ConnectionOptions::resolve(Some(url), &Environment::empty()).expect("a URL");
        let given: Vec<Endpoint> =
            given.iter().map(|text| text.parse().expect("an endpoint")).collect();
        let endpoints = Endpoints::new(&given, EndpointPolicy::RoundRobin, &base);
        (endpoints.expect("there are some"), base)
    }

    fn at(options: &ConnectionOptions) -> Vec<String> {
        options.hosts.iter().map(HostOptions::describe).collect()
    }

    #[test]
    fn a_way_has_all_of_the_destination_but_its_host() {
        let (endpoints, base) = endpoints(&["a", "b:6000,source=10.0.0.9"]);
        let b = endpoints.options(1);
        assert_eq!((b.user.as_str(), at(b)), ("u", vec!["b:6000".to_owned()]));
        assert_eq!(b.hosts[0].password, base.hosts[0].password);
        assert_eq!(b.hosts[0].way.source, Some(Source::Address([10, 0, 0, 9].into())));
        assert_eq!(b.connect_timeout, Some(CONNECTING));
        assert_eq!(endpoints.options(0).hosts[0].port, 5433, "the destination's");
    }

    #[test]
    fn what_is_down_gets_nothing_and_is_asked_last() {
        let (endpoints, _) = endpoints(&["a", "b"]);
        assert_eq!(at(&endpoints.any()), ["z:5432", "a:5433", "b:5433"]);
        endpoints.lose(0, "no answer");
        endpoints.lose(0, "no answer, once more");
        assert_eq!(at(&endpoints.any()), ["z:5432", "b:5433", "a:5433"]);
        assert!((0..4).all(|_| endpoints.deal(10).at == 1));
        endpoints.find(0);
        assert_eq!(endpoints.deal(10).at + endpoints.deal(10).at, 1);
        let news = endpoints.news();
        assert!(matches!(&news[..], [Event::EndpointDown { .. }, Event::EndpointUp { .. }]));
        assert!(endpoints.news().is_empty());
    }

    #[test]
    fn where_all_are_down_any_is_tried_and_the_only_one_never_is() {
        let (pair, _) = endpoints(&["a", "b"]);
        pair.lose(0, "gone");
        pair.lose(1, "gone");
        assert_eq!(pair.deal(1).at + pair.deal(1).at, 1);
        let (one, _) = endpoints(&["a"]);
        one.lose(0, "gone");
        assert!(one.news().is_empty());
    }
}
