//! `--compress auto`: chooses how rows are packed on their way, while they are sent.
//!
//! A thread looks at what limits the run. If that is the network, it has a few rows packed by each codec, and
//! predicts the rate of each from three figures: what the network carries, what a row takes of it, and what packing
//! costs the processors. The codec with the highest rate is used, and given up if the run is slower with it. Rows that
//! go by COPY have one alternative instead: the text form, where it is shorter than the binary one.

mod model;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fullbore_parse::Lane;
use fullbore_record::diagnose::{Circumstances, Limit, verdict};
use fullbore_record::observe::clock::Activity;
use fullbore_record::observe::{Clocks, Observation};
use fullbore_record::terms::{Form, Method};
use fullbore_record::{Event, Recorder};

use super::schedule::Schedule;
use crate::plan::Plan;
use crate::sink::Packs;
use model::{Flow, Model};

/// How often it looks, what it judges by, and what another form is given before it is judged.
const LOOK: Duration = Duration::from_millis(250);
const JUDGED_FOR: Duration = Duration::from_secs(1);
const RAMP: Duration = Duration::from_secs(2);

/// A form that does not bring at least so much of the rate before is given up.
const BRINGS: f64 = 1.0;

/// What the thread shares with the others of a round.
pub struct Packing<'a> {
    pub plan: &'a Arc<Plan>,
    pub schedule: &'a Schedule<'a>,
    pub clocks: &'a Clocks,
    pub recorder: &'a Recorder,
    pub packs: &'a dyn Packs,
}

impl Packing<'_> {
    /// Looks and chooses until the round has ended.
    pub fn watch(&self, has_ended: &dyn Fn() -> bool) {
        let mut model = Model::new(self.forms());
        if model.forms().len() < 2 {
            return;
        }
        let mut form = self.form();
        let mut before: Option<(f64, Form)> = None;
        let mut window = Window::open(self, Duration::ZERO);
        while !has_ended() {
            std::thread::park_timeout(LOOK);
            let Some((flow, limit)) = window.close(self) else { continue };
            window = Window::open(self, Duration::ZERO);
            if let Some((rate, old)) = before.take()
                && flow.rate() < rate * BRINGS
            {
                model.forget(form);
                form = old;
                self.change(form, limit);
                window = Window::open(self, RAMP);
                continue;
            }
            if is_network(limit) {
                self.packs.sample();
            }
            for form in [Form::Lz4, Form::Zstd] {
                if let Some(sample) = self.packs.sampled(form.codec()) {
                    model.note(form, sample);
                }
            }
            let is_limited = is_network(limit);
            let Some(better) = model.better(form, &flow, is_limited) else { continue };
            before = Some((flow.rate(), form));
            form = better;
            self.change(form, limit);
            window = Window::open(self, RAMP);
        }
    }

    /// The forms that all tables can have; all of them go the same way, or none is changed.
    fn forms(&self) -> Vec<Form> {
        let tables = &self.plan.tables;
        if tables.iter().all(|table| table.method == Method::Direct) {
            return self.packs.codecs().into_iter().map(Form::of).collect();
        }
        let is_typed_copy = |table: &crate::plan::TablePlan| {
            table.method == Method::Copy && table.lane == Lane::Binary
        };
        match tables.iter().all(is_typed_copy) && self.packs.takes_text() {
            true => vec![Form::Plain, Form::Text],
            false => Vec::new(),
        }
    }

    fn form(&self) -> Form {
        match self.schedule.sends_text() {
            true => Form::Text,
            false => Form::of(self.packs.codec()),
        }
    }

    fn change(&self, form: Form, limit: Limit) {
        self.packs.pack(form.codec());
        self.schedule.send_text(form == Form::Text);
        tracing::debug!(form = form.name(), limit = limit.name(), "rows change their form");
        self.recorder.record(Event::FormChanged { form, limit });
    }
}

/// Whether the network is what limits a run.
fn is_network(limit: Limit) -> bool {
    matches!(limit, Limit::Congestion | Limit::FlowCap | Limit::SendWindow | Limit::ReceiveCap)
}

/// A stretch of a run that is judged.
struct Window {
    /// It begins then, and what was seen at its beginning.
    from: Instant,
    first: Option<(Instant, u64, Observation)>,
}

impl Window {
    fn open(packing: &Packing<'_>, after: Duration) -> Self {
        let mut window = Self { from: Instant::now() + after, first: None };
        window.begin(packing);
        window
    }

    fn begin(&mut self, packing: &Packing<'_>) {
        if self.first.is_none()
            && Instant::now() >= self.from
            && let Some(latest) = packing.clocks.latest()
        {
            let sent = packing.schedule.bytes_sent().0;
            self.first = Some((Instant::now(), sent, latest.seen));
        }
    }

    /// What flowed in it and what limited that, once it is long enough to be judged.
    fn close(&mut self, packing: &Packing<'_>) -> Option<(Flow, Limit)> {
        self.begin(packing);
        let (since, sent_before, first) = self.first.as_ref()?;
        if since.elapsed() < JUDGED_FOR {
            return None;
        }
        let latest = packing.clocks.latest()?;
        let sent = packing.schedule.bytes_sent().0;
        let seconds = since.elapsed().as_secs_f64();
        let seen = latest.seen.since(first);
        let about = Circumstances {
            server_is_here: latest.settings.is_some_and(|settings| settings.is_here),
            tables: packing.plan.tables.len(),
        };
        let limit = verdict(&seen, &about).limit;
        let wire: u64 =
            seen.streams.iter().filter_map(|stream| Some(stream.socket?.sent_bytes)).sum();
        let cpu_ms: u64 =
            seen.parsers.iter().map(|parser| parser.times.of(Activity::Parsing).cpu_ms).sum();
        let is_disturbed = sent <= *sent_before || wire == 0 || packing.schedule.is_held();
        let flow = Flow {
            seconds,
            source_bytes: sent.saturating_sub(*sent_before) as f64,
            wire_bytes: wire as f64,
            cpu_seconds: cpu_ms as f64 / 1e3,
            processors: seen.parsers.len().min(cores()) as f64,
        };
        match is_disturbed {
            true => {
                self.first = None;
                None
            }
            false => Some((flow, limit)),
        }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
