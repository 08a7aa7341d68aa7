//! The record of a load whose parts run on several hosts, made of the records of its parts.
//!
//! A part runs in one *place* at a time: a host, and the streams that it has there. Its counters are added to
//! what earlier parts, and earlier attempts of parts, counted in the same place, so that the whole's counters
//! only grow, as those of a single run do, and everything that reads a record reads this one too.

mod hosts;
mod part;
mod place;
mod sum;
#[cfg(test)]
mod tests;

use crate::diagnose::{Circumstances, Verdict};
use crate::event::{Entry, Event, RECORD_VERSION, TableTotals, Verified};
use crate::now_unix_ms;
use crate::observe::{Observation, Settings};
use crate::summaries::{PlanSummary, TableSummary};
use crate::terms::Publish;

use part::Part;
use place::Place;

/// A shorter phase is not worth an event.
const PHASE_MIN_S: f64 = 0.005;

/// A load in parts, as its driver sees it. Moments are seconds since the driver began.
#[derive(Debug)]
pub struct Whole {
    tables: Vec<String>,
    parts: Vec<Part>,
    places: Vec<Place>,
    settings: Option<Settings>,
    has_started: bool,
}

impl Whole {
    /// A load into tables of these names; for each part, the bytes of its files by table, where known.
    pub fn new(tables: Vec<String>, expected: Vec<Vec<Option<u64>>>) -> Self {
        let parts = expected.into_iter().map(Part::new).collect();
        Self { tables, parts, places: Vec::new(), settings: None, has_started: false }
    }

    /// The record has begun already: another driver went away.
    pub fn resume(&mut self) {
        self.has_started = true;
    }

    /// A part, numbered from 1, is being run on a host from now on. A number that the load does not have is
    /// passed over here and below: it comes from another machine.
    pub fn begin(&mut self, number: usize, host: &str, now: f64) {
        self.end(number, now);
        let Some(part) = at(&mut self.parts, number) else { return };
        let free = self.places.iter().position(|place| place.host == host && place.is_free);
        let place = free.unwrap_or_else(|| {
            self.places.push(Place::new(host));
            self.places.len() - 1
        });
        self.places[place].begin();
        part.begin(place);
    }

    /// A part is not run any more, whatever became of it.
    pub fn end(&mut self, number: usize, now: f64) {
        let Some(part) = at(&mut self.parts, number) else { return };
        let Some(place) = part.place.take() else { return };
        self.places[place].end(part, now);
    }

    /// How many pieces the parts before one have, and how many streams the places before its own.
    fn numbered_before(&self, number: usize, place: Option<usize>) -> (usize, usize) {
        let pieces = self.parts[..number - 1].iter().map(|part| part.pieces).sum();
        (pieces, self.places[..place.unwrap_or(0)].iter().map(Place::streams).sum())
    }

    /// The next entry of a part's record, and what it means for the whole's.
    pub fn take(&mut self, number: usize, entry: Entry) -> Vec<Event> {
        let Some(part) = at(&mut self.parts, number) else { return Vec::new() };
        let place = part.place;
        let host = place.map_or("", |place| self.places[place].host.as_str());
        let said = |words: String| vec![Event::Notice { notice: format!("{host}: {words}") }];
        match entry.event {
            Event::Planned { plan } => {
                part.plan = Some(*plan);
                return self.planned();
            }
            Event::ServerSettings { settings } => {
                let is_first = self.settings.is_none();
                let all = self.settings.get_or_insert_with(|| settings.clone());
                // Only where all parts share its machine is there no network.
                all.is_here &= settings.is_here;
                // Each part has a session of its own.
                all.has_one_session = false;
                let settings = all.clone();
                return if is_first {
                    vec![Event::ServerSettings { settings }]
                } else {
                    Vec::new()
                };
            }
            Event::PieceCommitted { piece, table, stream, endpoint, rows, bytes, seconds } => {
                let (pieces, streams) = self.numbered_before(number, place);
                return vec![Event::PieceCommitted {
                    piece: pieces + piece,
                    table,
                    stream: streams + stream,
                    endpoint,
                    rows,
                    bytes,
                    seconds,
                }];
            }
            Event::PieceHalved { piece, rest, table, stream, bytes, seconds_left } => {
                let (pieces, streams) = self.numbered_before(number, place);
                return vec![Event::PieceHalved {
                    piece: pieces + piece,
                    rest: pieces + rest,
                    table,
                    stream: streams + stream,
                    bytes,
                    seconds_left,
                }];
            }
            // Parts that wait for others have nothing to do in most of them.
            Event::PhaseFinished { phase } if phase.seconds < PHASE_MIN_S => return Vec::new(),
            Event::PhaseFinished { phase } => return vec![Event::PhaseFinished { phase }],
            Event::RoundStarted { reason, pieces_committed } => {
                let reason = format!("{host}: {reason}");
                return vec![Event::RoundStarted { reason, pieces_committed }];
            }
            Event::RunPaused { reason } => return said(format!("paused: {reason}")),
            Event::RunContinued { seconds } => {
                return said(format!("continued after {seconds:.1} s"));
            }
            Event::Notice { notice } => return said(notice),
            event @ Event::FormChanged { .. } => return vec![event],
            Event::EndpointDown { endpoint, reason } => {
                let reason = format!("{host}: {reason}");
                return vec![Event::EndpointDown { endpoint, reason }];
            }
            event @ Event::EndpointUp { .. } => return vec![event],
            // It is a share of the whole's, which is recorded already.
            Event::RateChanged { .. } => return Vec::new(),
            // A part keeps the number that it begins with.
            Event::StreamsTried { .. } | Event::StreamsSettled { .. } => return Vec::new(),
            // Whoever drives it decides what comes of that, and says it.
            Event::RunFailed { .. } => return Vec::new(),
            event => part.take(entry.at, event),
        }
        if let Some(place) = place {
            self.places[place].look(part);
        }
        Vec::new()
    }

    /// The plan of what is known so far; before it, the first time, that the load has begun.
    fn planned(&mut self) -> Vec<Event> {
        let Some(plan) = self.plan() else { return Vec::new() };
        let mut events = Vec::new();
        if !self.has_started {
            self.has_started = true;
            let run_id = plan.part_of.as_ref().map(|part| part.whole.clone()).unwrap_or_default();
            events.push(Event::RunStarted {
                version: RECORD_VERSION,
                run_id,
                fullbore: env!("CARGO_PKG_VERSION").into(),
                started_unix_ms: now_unix_ms(),
                streams: self.streams(),
                parsers: self.parsers(),
                pieces: self.pieces(),
                tables: self.tables.clone(),
                methods: self.parts.iter().find_map(Part::methods).unwrap_or_default(),
            });
        }
        events.push(Event::Planned { plan: Box::new(plan) });
        events
    }

    fn plan(&self) -> Option<PlanSummary> {
        let plans: Vec<&PlanSummary> =
            self.parts.iter().filter_map(|part| part.plan.as_ref()).collect();
        let mut plan = sum::plan(&plans)?;
        plan.hosts = self.places.iter().map(Place::summary).collect();
        Some(plan)
    }

    /// Streams of all places, parsers, and pieces of all parts that have begun.
    pub fn streams(&self) -> usize {
        self.places.iter().map(Place::streams).sum()
    }

    pub fn parsers(&self) -> usize {
        self.places.iter().map(Place::parsers).sum()
    }

    fn pieces(&self) -> usize {
        self.parts.iter().map(|part| part.pieces).sum()
    }

    /// How far all parts are.
    pub fn sample(&self) -> Event {
        Event::Sample {
            tables: self.totals(),
            streams_active: self.parts.iter().map(|part| part.streams_active).sum(),
        }
    }

    /// Totals of all parts, by table.
    pub fn totals(&self) -> Vec<TableTotals> {
        let of = |table: usize| {
            let name = self.tables[table].clone();
            let mut total = TableTotals { name, bytes_expected: Some(0), ..TableTotals::default() };
            self.parts.iter().for_each(|part| part.add_to(&mut total, table));
            total
        };
        (0..self.tables.len()).map(of).collect()
    }

    /// What was counted in all places until now.
    pub fn observed(&self) -> Event {
        Event::Observed { observation: Box::new(self.observation()) }
    }

    fn observation(&self) -> Observation {
        let mut all = Observation::default();
        self.seen().into_iter().for_each(|seen| sum::join(&mut all, seen));
        all
    }

    /// What was seen in each place until now.
    fn seen(&self) -> Vec<Observation> {
        let current =
            |place: usize| self.parts.iter().find(|part| part.place == Some(place))?.seen();
        self.places.iter().enumerate().map(|(at, place)| place.seen(current(at))).collect()
    }

    /// What held the whole back, with each host's share, and the advice of the parts that it held back.
    pub fn verdict(&self, now: f64) -> (Verdict, Vec<String>) {
        let about = Circumstances::of(self.settings.as_ref(), self.tables.len());
        let mut verdict = hosts::verdict(&self.places, self.seen(), &about, now);
        let stragglers = self.parts.iter().filter_map(|part| part.verdict.as_ref());
        verdict.stragglers =
            stragglers.flat_map(|(verdict, _)| verdict.stragglers.clone()).collect();
        verdict.stragglers.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        verdict.stragglers.truncate(hosts::NAMED_MAX);
        let mut advice: Vec<String> = Vec::new();
        for (of_part, lines) in self.parts.iter().filter_map(|part| part.verdict.as_ref()) {
            for line in lines.iter().filter(|_| of_part.limit == verdict.limit) {
                if !advice.contains(line) {
                    advice.push(line.clone());
                }
            }
        }
        (verdict, advice)
    }

    /// Rejects of all parts, where there are any; files are the driver's own copies.
    pub fn rejects(&self, files: Vec<std::path::PathBuf>) -> Option<Event> {
        let found = self.parts.iter().filter_map(|part| part.rejects.as_ref());
        let rejects = sum::rejects(found, files)?;
        Some(Event::Rejected { rejects })
    }

    /// What was verified of all parts; `None` unless all were.
    pub fn verified(&self) -> Option<Verified> {
        sum::verified(self.parts.iter().map(|part| part.finished.as_ref()?.verified.as_ref()))
    }

    /// The end of a load all of whose parts are loaded.
    pub fn finished(&self, seconds: f64) -> Event {
        let tables = self.totals();
        let total = |of: fn(&TableTotals) -> u64| tables.iter().map(of).sum::<u64>();
        let finished = self.parts.iter().filter_map(|part| part.finished.as_ref());
        Event::RunFinished {
            rows: total(|table| table.rows),
            rejected: total(|table| table.rejected),
            bytes: total(|table| table.bytes),
            seconds,
            phases: sum::phases(finished.map(|part| part.phases.as_slice())),
            verified: self.verified(),
            tables,
        }
    }

    /// Rows of plain appends, which stay in their tables whatever becomes of the load.
    pub fn rows_kept(&self) -> u64 {
        let tables = self.plan().map_or_else(Vec::new, |plan| plan.tables);
        let stays = |table: &TableSummary| table.publish == Publish::Append && !table.is_atomic;
        let pairs = tables.iter().zip(self.totals());
        pairs.filter(|(table, _)| stays(table)).map(|(_, totals)| totals.rows).sum()
    }

    /// Rows and source bytes that were committed before this driver began.
    pub fn before(&self) -> (u64, u64) {
        let sum = |of: fn(&Part) -> u64| self.parts.iter().map(of).sum();
        (sum(|part| part.rows_before), sum(|part| part.bytes_before))
    }
}

fn at(parts: &mut [Part], number: usize) -> Option<&mut Part> {
    parts.get_mut(number.checked_sub(1)?)
}
