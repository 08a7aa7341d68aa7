//! The observer's loop, on its own thread. It works without a server that can be queried.

use std::time::{Duration, Instant};

use fullbore_read::error::Result;

use crate::constants::OBSERVATION_INTERVAL_MS;
use crate::event::Event;
use crate::observe::clock::Activity;
use crate::observe::host::{self, HostTimes};
use crate::observe::pace::Pace;
use crate::observe::server::{Observed, ServerTimes, Settings, Wait};
use crate::observe::socket::SocketSeen;
use crate::observe::{Clocks, Moment, Observation, Seen, ThreadTimes, Watch};
use crate::recorder::Recorder;

/// How long a server that did not answer is left alone.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Blockers are named, not listed without end.
const BLOCKERS_MAX: usize = 8;

/// Looks at the run until `has_ended`, and records what it sees.
pub fn watch_run(
    clocks: &Clocks,
    observed: Option<&dyn Observed>,
    recorder: &Recorder,
    so_far: &mut Seen,
    has_ended: &dyn Fn() -> bool,
) {
    clocks.count_as_observing();
    let mut watcher = Watcher {
        clocks,
        observed,
        sockets: (0..clocks.streams().len())
            .map(|number| so_far.until_now.streams.get(number).and_then(|stream| stream.socket))
            .map(|ended| SocketSeen::after(ended.unwrap_or_default()))
            .collect(),
        watch: None,
        asks_from: Instant::now(),
        backends: so_far
            .until_now
            .streams
            .iter()
            .map(|stream| Carried {
                before: stream.backend_cpu_ms.unwrap_or(0),
                ..Carried::default()
            })
            .collect(),
        server: Carried { before: server_cpu(&so_far.until_now).0, ..Carried::default() },
        own: Carried { before: server_cpu(&so_far.until_now).1, ..Carried::default() },
        settings: None,
        seen: std::mem::take(&mut so_far.until_now),
    };
    if let Some(settings) = watcher.ask(|watch| watch.settings()) {
        so_far.settings = Some(settings.clone());
        recorder.record(Event::ServerSettings { settings });
    }
    watcher.settings.clone_from(&so_far.settings);
    watcher.look(recorder);
    so_far.at_first.get_or_insert_with(|| watcher.seen.clone());
    let mut last = Instant::now();
    let mut pace = Pace::default();
    while !has_ended() {
        std::thread::park_timeout(pace.interval());
        watcher.note_moment(pace.weight());
        if last.elapsed() >= Duration::from_millis(OBSERVATION_INTERVAL_MS) {
            last = Instant::now();
            watcher.look(recorder);
            if let Some(first) = &mut so_far.at_first {
                if first.server.is_none() {
                    first.server.clone_from(&watcher.seen.server);
                }
                pace.adapt(&watcher.seen.since(first));
            }
        }
    }
    watcher.look(recorder);
    so_far.until_now = watcher.seen;
}

struct Watcher<'a> {
    clocks: &'a Clocks,
    observed: Option<&'a dyn Observed>,
    watch: Option<Box<dyn Watch + 'a>>,
    /// The streams' connections, by number of stream.
    sockets: Vec<SocketSeen>,
    /// The server is not bothered before.
    asks_from: Instant,
    /// CPU time of the streams' backends, of the server's own processes, and of the backend that is
    /// asked: a session that is opened anew has another one, whose time begins at nothing.
    backends: Vec<Carried>,
    server: Carried,
    own: Carried,
    settings: Option<Settings>,
    seen: Observation,
}

/// A counter that goes on where one that has ended stood.
#[derive(Default, Clone)]
struct Carried {
    /// Whose it is.
    of: i32,
    before: u64,
    last: u64,
}

impl Carried {
    fn now(&mut self, of: i32, value: u64) -> u64 {
        if of != self.of || value < self.last {
            self.before += self.last;
            self.of = of;
        }
        self.last = value;
        self.before + value
    }
}

/// CPU time of the server's own processes, and of the backend that was asked.
fn server_cpu(seen: &Observation) -> (u64, u64) {
    seen.server.as_ref().map_or((0, 0), |server| (server.cpu_ms, server.watch_cpu_ms))
}

impl Watcher<'_> {
    /// Asks the server. One that does not answer is left alone for a while.
    fn ask<T>(&mut self, question: impl FnOnce(&mut dyn Watch) -> Result<T>) -> Option<T> {
        if Instant::now() < self.asks_from {
            return None;
        }
        match self.try_ask(question) {
            Ok(answer) => answer,
            Err(error) => {
                tracing::info!("the server is not observed: {error}");
                self.watch = None;
                self.asks_from = Instant::now() + ASKED_AGAIN_AFTER;
                None
            }
        }
    }

    fn try_ask<T>(
        &mut self,
        question: impl FnOnce(&mut dyn Watch) -> Result<T>,
    ) -> Result<Option<T>> {
        if let (None, Some(observed)) = (&self.watch, self.observed) {
            self.watch = observed.watch()?;
        }
        match &mut self.watch {
            Some(watch) => question(watch.as_mut()).map(Some),
            None => Ok(None),
        }
    }

    /// What the streams do at this moment, each with its backend. It stands for the time since the last.
    fn note_moment(&mut self, weight: u64) {
        let waits = self.ask(|watch| watch.waits());
        let looks = self.observed.map(Observed::sockets).unwrap_or_default();
        let streams = self.clocks.streams();
        let count = streams.len();
        self.seen.streams.resize_with(count, ThreadTimes::default);
        self.backends.resize_with(count, Carried::default);
        self.sockets.resize_with(count, || SocketSeen::after(Default::default()));
        let mut works = vec![false; count];
        for (number, clock) in streams.iter().enumerate() {
            let activity = clock.activity();
            let look = looks.iter().find(|(stream, _)| *stream == number);
            let held = look.map(|(_, now)| self.sockets[number].look(*now));
            if matches!(activity, Activity::Idle | Activity::Held) {
                continue;
            }
            works[number] = true;
            let wait = waits.iter().flatten().find(|wait| wait.stream == number);
            let stream = &mut self.seen.streams[number];
            let wait_class = wait.map(|wait| wait.class);
            stream.note(Moment {
                table: clock.table(),
                activity,
                wait: wait_class,
                held,
                count: weight,
            });
            if held.is_some() {
                stream.socket = Some(self.sockets[number].times());
            }
            if let Some(pid) = wait.and_then(|wait| wait.local_pid) {
                let cpu = host::process_cpu_ms(pid);
                let cpu = cpu.map(|ms| self.backends[number].now(pid, ms));
                stream.backend_cpu_ms = cpu.or(stream.backend_cpu_ms);
            }
        }
        let works = |wait: &Wait| works.get(wait.stream).is_some_and(|works| *works);
        for wait in waits.into_iter().flatten().filter(|wait| works(wait) && !wait.name.is_empty())
        {
            *self.seen.waits.entry(wait.name).or_default() += weight;
            let blockers = &mut self.seen.blockers;
            if let Some(blocker) = wait.blocker
                && blockers.len() < BLOCKERS_MAX
                && !blockers.contains(&blocker)
            {
                blockers.push(blocker);
            }
        }
    }

    /// Reads all counters and records them.
    fn look(&mut self, recorder: &Recorder) {
        if let Some(counters) = self.ask(|watch| watch.counters()) {
            let cpu_ms = self.server.now(0, counters.cpu_ms);
            let watch_cpu_ms = self.own.now(0, counters.watch_cpu_ms);
            self.seen.server = Some(ServerTimes { cpu_ms, watch_cpu_ms, ..counters });
        }
        let (streams, parsers) = (self.clocks.streams(), self.clocks.parsers());
        for (clocks, seen) in [(streams, &mut self.seen.streams), (parsers, &mut self.seen.parsers)]
        {
            seen.resize_with(clocks.len(), ThreadTimes::default);
            for (clock, thread) in clocks.iter().zip(seen) {
                thread.times = clock.times();
                if let Some(number) = clock.thread() {
                    // A thread that has ended can't be asked any more.
                    thread.run_queue_ms = thread.run_queue_ms.max(host::run_queue_ms(number));
                }
            }
        }
        self.seen.host = HostTimes::read();
        self.seen.observing_ms = self.clocks.observing_ms();
        self.clocks.set_latest(&self.seen, self.settings.as_ref());
        recorder.record(Event::Observed { observation: Box::new(self.seen.clone()) });
    }
}

#[cfg(test)]
mod tests {
    use super::Carried;

    #[test]
    fn a_counter_goes_on_where_another_ended() {
        let mut cpu = Carried { before: 100, ..Carried::default() };
        assert_eq!([cpu.now(1, 5), cpu.now(1, 9)], [105, 109]);
        assert_eq!([cpu.now(2, 4), cpu.now(2, 6)], [113, 115]);
        assert_eq!(cpu.now(2, 1), 116);
    }
}
