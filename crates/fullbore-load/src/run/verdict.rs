//! The verdict: the bottleneck of a run, with advice for the settings in use.

use fullbore_parse::Lane;
use fullbore_record::diagnose::{
    self, Circumstances, InUse, Limit, Verdict, advise, stragglers, verdict,
};
use fullbore_record::observe::Seen;
use fullbore_record::observe::pieces::PieceTime;
use fullbore_record::terms::{Method, Publish};

use super::{Outcome, Tuned};
use crate::plan::{PieceInput, Plan};

/// The verdict on the time in which rows moved, and what to do about it.
pub fn pronounce(
    plan: &Plan,
    seen: &Seen,
    tuned: Option<Tuned>,
    pieces: &[PieceTime],
) -> (Verdict, Vec<String>) {
    let about = Circumstances::of(seen.settings.as_ref(), plan.tables.len());
    let whole = seen.whole();
    let mut verdict = verdict(&whole, &about);
    verdict.stragglers = stragglers(pieces, |piece| file_of(plan, piece));
    let used = in_use(plan, seen, tuned);
    let limits: Vec<Limit> = match verdict.limit {
        // Both that lead.
        Limit::Mixed => verdict.shares.iter().take(2).map(|share| share.limit).collect(),
        limit => vec![limit],
    };
    // Of a destination that is no PostgreSQL nothing is known that could be mended.
    let limits =
        limits.into_iter().filter(|limit| seen.settings.is_some() || !limit.is_of_server());
    let lines = limits.flat_map(|limit| advise(limit, &whole, &used));
    (verdict, lines.collect())
}

/// Weighs the verdict on the rows against what was done for them to be used.
pub fn weigh(plan: &Plan, outcome: &mut Outcome) {
    let Outcome { verdict, phases, seen, tuned, .. } = outcome;
    let Some((verdict, advice)) = verdict else { return };
    if let Some(lines) = diagnose::weigh(verdict, phases, &in_use(plan, seen, *tuned)) {
        *advice = if seen.settings.is_some() { lines } else { Vec::new() };
    }
}

/// What advice must know of a run.
fn in_use(plan: &Plan, seen: &Seen, tuned: Option<Tuned>) -> InUse {
    let main = plan.tables.iter().max_by_key(|table| table.bytes);
    let (streams, parsers) = Tuned::or_planned(tuned, plan);
    InUse {
        streams,
        parsers,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        method: main.map_or(Method::Copy, |table| table.method),
        publish: main.map_or(Publish::Append, |table| table.publish),
        codec: plan.compress,
        is_text: main.is_some_and(|table| table.lane == Lane::Text),
        is_read_by_one: plan.pieces.iter().any(|piece| match &piece.input {
            PieceInput::Stream { .. } => true,
            PieceInput::Ranges(ranges) => {
                let files = &plan.tables[piece.table].files;
                ranges.iter().any(|range| !files[range.file].is_seekable())
            }
            PieceInput::Rows(_) => false,
        }),
        has_objects: plan
            .tables
            .iter()
            .any(|table| table.files.iter().any(|file| file.object.is_some())),
        settings: seen.settings.clone().unwrap_or_default(),
        statistics: plan.statistics,
    }
}

/// What mending the limit could bring at most, where ceilings are known: the next one holds the run
/// back then, whatever time was lost to this one.
pub fn bound(verdict: &mut Verdict, plan: &Plan, outcome: &Outcome) {
    let Some(rate) = outcome.rate().filter(|_| verdict.limit != Limit::None) else { return };
    let next = plan.ceilings.as_ref().and_then(|ceilings| ceilings.without(verdict.limit));
    let Some(times) = next.map(|next| (next.bytes_per_second / rate).max(1.0)) else { return };
    verdict.at_most_times = Some(verdict.at_most_times.map_or(times, |most| most.min(times)));
}

/// The name of the file that a piece is from.
fn file_of(plan: &Plan, piece: &PieceTime) -> String {
    let file = piece.file.and_then(|file| plan.tables[piece.table].files.get(file));
    file.map_or_else(String::new, |file| file.path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Continuity;
    use fullbore_record::Phase;
    use fullbore_record::ceilings::{Ceilings, Stage};
    use fullbore_record::diagnose::Sureness;

    fn plan(ceilings: Option<Ceilings>) -> Plan {
        Plan {
            run_id: "0123abcd".into(),
            tables: Vec::new(),
            pieces: Vec::new(),
            streams: 1,
            parsers: 1,
            tuning: None,
            max_rate: None,
            max_rejects: Default::default(),
            max_field_bytes: 1 << 20,
            run_dir: Default::default(),
            reject_dir: Default::default(),
            tables_at_once: false,
            continuity: Continuity::default(),
            verify: Default::default(),
            placement: Default::default(),
            is_polite: false,
            compress: Default::default(),
            statistics: Default::default(),
            destination: String::new(),
            ceilings,
        }
    }

    #[test]
    fn the_next_ceiling_bounds_what_mending_can_bring() {
        let stage = |megabytes: f64| {
            let bytes_per_second = megabytes * 1e6;
            Some(Stage { bytes_per_second, ..Stage::default() })
        };
        let ceilings =
            Ceilings { encode: stage(600.0), database: stage(250.0), ..Ceilings::default() };
        let outcome = Outcome {
            bytes: 400_000_000,
            phases: vec![Phase { name: "load".into(), seconds: 2.0 }],
            ..Outcome::default()
        };
        let bounded = |limit, ceilings: Option<Ceilings>| {
            let mut verdict = Verdict {
                limit,
                share: 0.8,
                runner_up: None,
                sure: Sureness::High,
                shares: Vec::new(),
                phases: Vec::new(),
                at_most_times: Some(5.0),
                streams: Vec::new(),
                tables: Vec::new(),
                stragglers: Vec::new(),
                hosts: Vec::new(),
                network: None,
            };
            bound(&mut verdict, &plan(ceilings), &outcome);
            verdict.at_most_times
        };
        // 200 MB/s now: without the database's 250 the encoder's 600 are next.
        assert_eq!(bounded(Limit::DatabaseCpu, Some(ceilings.clone())), Some(3.0));
        // More streams leave all ceilings where they are.
        assert_eq!(bounded(Limit::TooFewStreams, Some(ceilings.clone())), Some(1.25));
        assert_eq!(bounded(Limit::DatabaseCpu, None), Some(5.0), "the lost time's own bound");
        assert_eq!(bounded(Limit::None, Some(ceilings)), Some(5.0));
    }

    #[test]
    fn a_run_is_measured_by_the_time_in_which_rows_moved() {
        let phase = |name: &str, seconds| Phase { name: name.into(), seconds };
        let mut outcome = Outcome {
            bytes: 1_000_000_000,
            bytes_before: 200_000_000,
            seconds: 60.0,
            phases: vec![phase("prepare", 1.0), phase("load", 3.0), phase("index", 50.0)],
            paused_seconds: 1.0,
            ..Outcome::default()
        };
        assert_eq!(outcome.rate(), Some(4e8));
        outcome.phases.clear();
        assert_eq!(outcome.rate(), None);
    }
}
