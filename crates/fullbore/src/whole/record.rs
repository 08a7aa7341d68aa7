//! The record of a load in parts, in the state folder of the driver's machine, and its result.

use std::path::PathBuf;
use std::time::Instant;

use fullbore_load::job::Job;
use fullbore_load::run::Outcome;
use fullbore_load::run::pace::Pace;
use fullbore_read::error::Result;
use fullbore_record::terms::Method;
use fullbore_record::{Entry, Event, Listener, Recorder, Whole, claim, now_unix_ms, summary_of};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::json_summary::{About, JsonSummary};
use crate::saved::save_driven;
use crate::state::runs_dir;

/// Seconds between two samples of all parts, and between two looks at their counters.
const SAMPLE_EVERY_S: f64 = 0.25;
const OBSERVE_EVERY_S: f64 = 1.0;

/// What a driver knows of a load before it begins.
#[derive(Debug, Deserialize)]
pub struct Driven {
    /// Its id, by which the ledger knows its parts.
    pub whole: String,
    pub tables: Vec<String>,
    /// For each part, the bytes of its files by table; null where the size says nothing.
    pub parts: Vec<Vec<Option<u64>>>,
    /// Another driver has begun it.
    pub resumes: bool,
    pub job: Job,
    pub reject_dir: PathBuf,
}

/// Why a load has ended before all its parts were loaded.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Stopped {
    pub error: String,
    pub details: Value,
    /// It can be resumed.
    pub resumable: bool,
}

/// Makes one record of those of all parts.
pub struct WholeRecord {
    whole: Whole,
    id: String,
    began: Instant,
    recorder: Recorder,
    destination: String,
    /// What all parts together may send.
    pace: Pace,
    run_dir: PathBuf,
    methods: Vec<Method>,
    sampled: f64,
    observed: f64,
}

impl WholeRecord {
    /// Begins the record, or goes on with the one that this machine has.
    pub fn new(driven: Driven, listener: Option<Listener>) -> Result<Self> {
        let run_dir = runs_dir()?.join(&driven.whole);
        let pace = Pace::new(driven.job.max_rate);
        let earlier = summary_of(&run_dir).filter(|_| driven.resumes);
        let recorder = match (&earlier, run_dir.exists()) {
            (Some(_), _) | (None, true) => Recorder::append(&run_dir, listener)?,
            (None, false) => {
                claim(&run_dir)?;
                Recorder::create(&run_dir, listener)?
            }
        };
        save_driven(&run_dir, driven.job, &driven.reject_dir)?;
        let mut whole = Whole::new(driven.tables, driven.parts);
        if let Some(earlier) = earlier {
            whole.resume();
            recorder.record(Event::RunResumed {
                started_unix_ms: now_unix_ms(),
                pieces_committed: 0,
                rows_committed: earlier.rows,
                fullbore: Some(env!("CARGO_PKG_VERSION").into()),
                streams: None,
                parsers: None,
            });
        }
        Ok(Self {
            whole,
            id: driven.whole,
            began: Instant::now(),
            recorder,
            destination: String::new(),
            pace,
            run_dir,
            methods: Vec::new(),
            sampled: f64::NEG_INFINITY,
            observed: f64::NEG_INFINITY,
        })
    }

    fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// A part, numbered from 1, runs on a host from now on.
    pub fn begin(&mut self, part: usize, host: &str) {
        self.whole.begin(part, host, self.now());
    }

    /// A part runs no more.
    pub fn end(&mut self, part: usize) {
        self.whole.end(part, self.now());
    }

    /// What all parts together may send, in bytes a second: as the job says, or as was wished for since.
    pub fn rate(&self) -> Option<u64> {
        if let Some(bytes_per_second) = self.pace.look(&self.run_dir) {
            self.recorder.record(Event::RateChanged { bytes_per_second });
        }
        self.pace.rate()
    }

    /// Something that is not in any part's record.
    pub fn note(&self, words: &str) {
        self.recorder.record(Event::Notice { notice: words.to_owned() });
    }

    /// Lines of a part's record. One that can't be read is of another version, and passed over.
    pub fn take(&mut self, part: usize, lines: &[String]) {
        for line in lines {
            let Ok(entry) = serde_json::from_str::<Entry>(line) else { continue };
            for event in self.whole.take(part, entry) {
                match &event {
                    Event::Planned { plan } => self.destination.clone_from(&plan.destination),
                    Event::RunStarted { methods, .. } => {
                        self.methods = methods.iter().map(|known| known.method).collect();
                    }
                    _ => {}
                }
                self.recorder.record(event);
            }
        }
        self.tick();
    }

    /// Records how far all parts are, where it is time to.
    pub fn tick(&mut self) {
        let now = self.now();
        if now - self.sampled >= SAMPLE_EVERY_S && self.whole.streams() > 0 {
            self.sampled = now;
            self.recorder.record(self.whole.sample());
        }
        if now - self.observed >= OBSERVE_EVERY_S && self.whole.streams() > 0 {
            self.observed = now;
            self.recorder.record(self.whole.observed());
        }
    }

    /// Ends the record: all parts are loaded, or the load stopped. What `--json` prints.
    pub fn finish(self, reject_files: Vec<PathBuf>, stopped: Option<Stopped>) -> Value {
        let seconds = self.now();
        self.recorder.record(self.whole.sample());
        self.recorder.record(self.whole.observed());
        let (verdict, advice) = self.whole.verdict(seconds);
        self.recorder.record(Event::Verdict { verdict: verdict.clone(), advice: advice.clone() });
        if let Some(rejects) = self.whole.rejects(reject_files.clone()) {
            self.recorder.record(rejects);
        }
        let finished = self.whole.finished(seconds);
        let (rows_before, bytes_before) = self.whole.before();
        let mut outcome = Outcome {
            seconds,
            rows_before,
            bytes_before,
            verdict: Some((verdict, advice)),
            reject_files,
            ..Outcome::default()
        };
        if let Event::RunFinished { rows, rejected, bytes, phases, tables, verified, .. } =
            &finished
        {
            (outcome.rows, outcome.rejected, outcome.bytes) = (*rows, *rejected, *bytes);
            outcome.phases.clone_from(phases);
            outcome.pieces = tables.iter().map(|table| table.pieces).sum();
            outcome.tables.clone_from(tables);
            outcome.verified = verified.clone().filter(|_| stopped.is_none());
        }
        self.recorder.record(match &stopped {
            None => finished,
            Some(stopped) => Event::RunFailed {
                error: stopped.error.clone(),
                is_kept: stopped.resumable,
                rows_kept: self.whole.rows_kept(),
                left_behind: Vec::new(),
            },
        });
        let method = match self.methods.split_first() {
            Some((first, rest)) if rest.iter().all(|method| method == first) => first.name(),
            Some(_) => "mixed",
            None => "copy",
        };
        let about = About {
            run_id: &self.id,
            method,
            streams: self.whole.streams(),
            parsers: self.whole.parsers(),
            destination: &self.destination,
            no_ledger: None,
            part: None,
        };
        let error = stopped.as_ref().map(|stopped| stopped.error.clone());
        let mut summary = JsonSummary::about(about, &outcome, error);
        summary.resumable = stopped.as_ref().is_some_and(|stopped| stopped.resumable);
        let mut summary = serde_json::to_value(summary).expect("plain data becomes JSON");
        if let Some(stopped) = stopped {
            summary["error_details"] = stopped.details;
        } else {
            summary["error_details"] = json!(null);
        }
        summary
    }
}
