//! `--compress auto`: chooses how rows are packed on their way, while they are sent.
//!
//! A thread has a few rows packed by each codec, and looks at what limits the run. It predicts the rate of each codec
//! from three figures: what the network carries where that is the limit, what a row takes of it, and what packing costs
//! the processors. The codec with the highest rate is used, and given up if the run is slower with it. Rows that go by
//! COPY have one alternative instead: the text form, where it is shorter than the binary one.

mod model;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullbore_parse::Lane;
use fullbore_record::diagnose::Limit;
use fullbore_record::observe::clock::Activity;
use fullbore_record::observe::{Clocks, Latest};
use fullbore_record::terms::{Form, Method, Verify};
use fullbore_record::{Event, Recorder};

use super::limit_now::since;
use super::schedule::Schedule;
use crate::plan::Plan;
use crate::sink::Packs;
use model::{By, Flow, Model};

/// How often it looks, what it judges by, and what another form is given before it is judged.
const LOOK: Duration = Duration::from_millis(100);
const JUDGED_FOR: Duration = Duration::from_millis(900);
const RAMP: Duration = Duration::from_secs(2);

/// Moments that are remembered: more than lie between two looks that are judged.
const TRAIL_MAX: usize = 100;

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
        if form != Form::Plain {
            self.recorder.record(Event::FormChanged { form, limit: Limit::None });
        }
        let mut before: Option<(f64, Form)> = None;
        let mut window = Window::open(Duration::ZERO);
        self.packs.sample();
        while !has_ended() {
            std::thread::park_timeout(LOOK);
            let Some((flow, limit)) = window.close(self) else { continue };
            window = Window::open(Duration::ZERO);
            if let Some((rate, old)) = before.take()
                && flow.rate() < rate * BRINGS
            {
                model.forget(form);
                form = old;
                self.change(form, limit);
                window = Window::open(RAMP);
                continue;
            }
            for form in [Form::Lz4, Form::Zstd] {
                if let Some(sample) = self.packs.sampled(form.codec()) {
                    model.note(form, sample);
                }
            }
            let by = match limit {
                limit if is_network(limit) => By::Network,
                Limit::ClientCpu => By::Processors,
                _ => By::Others,
            };
            let Some(better) = model.better(form, &flow, by) else { continue };
            before = Some((flow.rate(), form));
            form = better;
            self.change(form, limit);
            window = Window::open(RAMP);
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
        // Rows that go as text are summed by the server alone, which takes longer than a network is slow.
        let may_be_text = self.packs.takes_text() && self.plan.verify != Verify::Full;
        match may_be_text && tables.iter().all(is_typed_copy) {
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
        self.schedule.change_form(form == Form::Text);
        tracing::debug!(form = form.name(), limit = limit.name(), "rows change their form");
        self.recorder.record(Event::FormChanged { form, limit });
    }
}

/// Whether the network is what limits a run.
fn is_network(limit: Limit) -> bool {
    matches!(limit, Limit::Congestion | Limit::FlowCap | Limit::SendWindow | Limit::ReceiveCap)
}

/// A stretch of a run that is judged: from one of the observer's looks to another.
struct Window {
    /// It begins with the first look after.
    from: Instant,
    first: Option<Latest>,
    /// Source bytes sent by moments: looks have moments of their own.
    trail: VecDeque<(Instant, u64)>,
}

impl Window {
    fn open(after: Duration) -> Self {
        Self { from: Instant::now() + after, first: None, trail: VecDeque::new() }
    }

    /// What flowed in it and what limited that, once it is long enough to be judged.
    fn close(&mut self, packing: &Packing<'_>) -> Option<(Flow, Limit)> {
        self.trail.push_back((Instant::now(), packing.schedule.bytes_sent().0));
        if self.trail.len() > TRAIL_MAX {
            self.trail.pop_front();
        }
        let latest = packing.clocks.latest().filter(|latest| latest.at >= self.from)?;
        let first = self.first.get_or_insert_with(|| latest.clone());
        let seconds = (latest.at - first.at).as_secs_f64();
        if seconds < JUDGED_FOR.as_secs_f64() {
            return None;
        }
        let sent = self.sent_until(latest.at)? - self.sent_until(self.first.as_ref()?.at)?;
        let first = self.first.take()?;
        let limit = since(packing.plan, &first.seen, &latest).limit;
        let seen = latest.seen.since(&first.seen);
        let wire: u64 =
            seen.streams.iter().filter_map(|stream| Some(stream.socket?.sent_bytes)).sum();
        let cpu_ms: u64 =
            seen.parsers.iter().map(|parser| parser.times.of(Activity::Parsing).cpu_ms).sum();
        let flow = Flow {
            seconds,
            source_bytes: sent,
            wire_bytes: wire as f64,
            cpu_seconds: cpu_ms as f64 / 1e3,
            processors: seen.parsers.len().min(cores()) as f64,
        };
        let is_disturbed = sent <= 0.0 || wire == 0 || packing.schedule.is_held();
        (!is_disturbed).then_some((flow, limit))
    }

    /// What had been sent at a moment, between those that were noted.
    fn sent_until(&self, moment: Instant) -> Option<f64> {
        let after = self.trail.iter().position(|(at, _)| *at >= moment)?;
        let (later, sent_later) = self.trail[after];
        let Some((earlier, sent)) = after.checked_sub(1).map(|before| self.trail[before]) else {
            return Some(sent_later as f64);
        };
        let share = (moment - earlier).as_secs_f64() / (later - earlier).as_secs_f64().max(1e-9);
        Some(sent as f64 + share * (sent_later as f64 - sent as f64))
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
