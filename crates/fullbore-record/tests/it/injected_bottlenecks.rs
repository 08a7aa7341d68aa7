//! The verdicts on bottlenecks that were made for real, judged anew: a change of the diagnosis must name
//! them as well. The windows are those that `benchmarks/injected` kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fullbore_record::diagnose::{Circumstances, Limit, verdict};
use fullbore_record::observe::{Observation, Settings};
use serde::Deserialize;

const RUN: &str = "../../benchmarks/runs/2026-11-21-injected/raw.jsonl";

/// So many of a hundred must be right.
const RIGHT_MIN_PERCENT: usize = 95;

#[derive(Deserialize)]
struct Trial {
    kind: String,
    repeat: u32,
    accept: Vec<Limit>,
    /// Somebody else took much of the machine meanwhile.
    #[serde(default)]
    disturbed: bool,
    window: Option<Window>,
}

#[derive(Deserialize)]
struct Window {
    first: Observation,
    last: Observation,
    settings: Option<Settings>,
}

#[test]
fn bottlenecks_that_were_made_are_named() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(RUN);
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut wrong = Vec::new();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for line in text.lines() {
        let trial: Trial = serde_json::from_str(line).expect("a trial");
        let Some(Window { first, last, settings }) = trial.window else { continue };
        if trial.disturbed {
            continue;
        }
        *kinds.entry(trial.kind.clone()).or_default() += 1;
        let server_is_here = settings.is_some_and(|settings| settings.is_here);
        let found = verdict(
            &last.since(&first),
            &Circumstances { server_is_here, tables: 1, ..Circumstances::default() },
        );
        if !trial.accept.contains(&found.limit) {
            wrong.push((trial.kind, trial.repeat, found.limit, found.shares));
        }
    }
    let all: usize = kinds.values().sum();
    assert!(kinds.len() >= 14 && kinds.values().all(|count| *count >= 4), "{kinds:?}");
    assert!((all - wrong.len()) * 100 >= all * RIGHT_MIN_PERCENT, "{wrong:#?} of {all}");
}
