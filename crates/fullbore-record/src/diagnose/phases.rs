//! The whole of a run: whether rows took longest, or what is done for them to be used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::advice::InUse;
use super::{Limit, Sureness, Verdict};
use crate::Phase;
use crate::terms::{Method, Publish, Statistics};

/// A part of a run, and its share of the run's time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseShare {
    /// `rows`, or the identifier of what was done for them.
    pub phase: String,
    pub share: f64,
}

/// What is done for less time needs no verdict.
const SECONDS_MIN: f64 = 0.5;

/// What a phase's time goes to; none for that in which rows move, and for what is over at once.
fn limit_of(phase: &str) -> Option<Limit> {
    match phase {
        "index" => Some(Limit::Indexes),
        "constraints" => Some(Limit::ForeignKeys),
        "analyze" => Some(Limit::Statistics),
        "verify" => Some(Limit::Verification),
        "publish" | "insert" | "merge" => Some(Limit::Publishing),
        _ => None,
    }
}

/// Weighs the verdict on the time in which rows moved against what came after it. What took longest of all is the
/// bottleneck; the advice on that, where it is not the rows.
pub fn weigh(verdict: &mut Verdict, phases: &[Phase], used: &InUse) -> Option<Vec<String>> {
    let rows = phases.iter().find(|phase| phase.name == "load").map_or(0.0, |load| load.seconds);
    // The server builds some indexes before a piece is committed.
    let within = verdict.shares.iter().find(|share| share.limit == Limit::Indexes);
    let within = within.map_or(0.0, |share| share.share * rows);
    let mut parts: Vec<(Option<Limit>, f64)> = vec![(None, rows - within)];
    let mut add = |limit: Limit, seconds: f64| match parts
        .iter_mut()
        .find(|(known, _)| *known == Some(limit))
    {
        Some((_, sum)) => *sum += seconds,
        None => parts.push((Some(limit), seconds)),
    };
    add(Limit::Indexes, within);
    for phase in phases {
        if let Some(limit) = limit_of(&phase.name) {
            add(limit, phase.seconds);
        }
    }
    let total: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
    parts.retain(|(_, seconds)| *seconds > 0.0);
    parts.sort_by(|one, other| other.1.total_cmp(&one.1));
    let name = |limit: Option<Limit>| limit.map_or("rows", Limit::name).to_owned();
    let share = |seconds: f64| seconds / total;
    let shares = parts
        .iter()
        .map(|(limit, seconds)| PhaseShare { phase: name(*limit), share: share(*seconds) });
    verdict.phases = shares.collect();
    let (first, seconds) = *parts.first()?;
    let limit = first.filter(|_| seconds >= SECONDS_MIN)?;
    let second = parts.get(1).map_or(0.0, |(_, seconds)| share(*seconds));
    let lead = share(seconds) - second;
    let of_rows = (verdict.limit != Limit::None).then_some(verdict.limit);
    let after = parts.get(1).and_then(|(limit, _)| *limit);
    verdict.runner_up = after.or(of_rows);
    verdict.limit = limit;
    verdict.share = share(seconds);
    verdict.sure = if lead >= 0.1 { Sureness::High } else { Sureness::Medium };
    verdict.at_most_times = (verdict.share < 1.0).then(|| 1.0 / (1.0 - verdict.share));
    Some(advice(limit, used))
}

/// What to do about a part of the time that comes after the rows.
pub(super) fn advice(limit: Limit, used: &InUse) -> Vec<String> {
    match limit {
        Limit::Indexes => indexes(used),
        Limit::ForeignKeys => vec![
            "each foreign key is looked up by one join per table: add those that can wait later, \
             with NOT VALID and VALIDATE CONSTRAINT"
                .into(),
            memory(used),
        ],
        Limit::Statistics => statistics(used),
        Limit::Verification => {
            vec!["--verify quick compares the counts that both sides have anyway".into()]
        }
        Limit::Publishing => publishing(used),
        _ => Vec::new(),
    }
}

fn memory(used: &InUse) -> String {
    let now = match used.setting("maintenance_work_mem") {
        "" => String::new(),
        setting => format!(", now {setting}"),
    };
    format!("give the sessions more memory: PGOPTIONS='-c maintenance_work_mem=2GB'{now}")
}

fn indexes(used: &InUse) -> Vec<String> {
    let mut lines = Vec::new();
    if used.method == Method::Copy && !used.publish.joins_rows() {
        lines.push(
            "--method direct fills B-tree indexes while rows are loaded, if the server has the extension".into(),
        );
    }
    if used.publish == Publish::Replace {
        lines.push("--publish partitions builds the indexes of several partitions at once".into());
    }
    lines.push(memory(used));
    lines.push(
        "create indexes that the first queries do not need later, with CREATE INDEX CONCURRENTLY"
            .into(),
    );
    lines
}

fn statistics(used: &InUse) -> Vec<String> {
    let mut lines = Vec::new();
    if used.statistics != Statistics::Client && !used.publish.joins_rows() {
        lines.push(
            "--statistics client makes them while rows are loaded, for PostgreSQL 18 and later"
                .into(),
        );
    }
    lines.push("--statistics none leaves them to autovacuum".into());
    lines
}

fn publishing(used: &InUse) -> Vec<String> {
    match used.publish {
        Publish::Append => vec![
            "--atomic inserts all rows a second time: append without it, or use --publish replace or \
             partitions"
                .into(),
        ],
        Publish::Upsert => vec![
            "each row is looked up in the index of the key: fewer other indexes, and a larger \
             max_wal_size on the server, make that faster"
                .into(),
        ],
        _ => vec!["the rows are published under a lock: pg_locks says who else holds the table".into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::{Observation, Share, verdict};

    fn weighed(limit: Limit, shares: &[(Limit, f64)], phases: &[(&str, f64)]) -> (Verdict, bool) {
        let mut found =
            verdict(&Observation::default(), &crate::diagnose::Circumstances::default());
        found.limit = limit;
        found.shares =
            shares.iter().map(|(limit, share)| Share { limit: *limit, share: *share }).collect();
        let phases: Vec<Phase> = phases
            .iter()
            .map(|(name, seconds)| Phase { name: (*name).into(), seconds: *seconds })
            .collect();
        let used = InUse::tried(Method::Copy, Publish::Replace);
        let advice = weigh(&mut found, &phases, &used);
        let has_advice = advice.is_some_and(|lines| !lines.is_empty());
        (found, has_advice)
    }

    #[test]
    fn what_takes_longest_is_the_bottleneck() {
        let of_rows = [(Limit::DatabaseCpu, 1.0)];
        let (found, has_advice) = weighed(
            Limit::DatabaseCpu,
            &of_rows,
            &[("prepare", 9.0), ("load", 3.0), ("index", 6.0), ("analyze", 0.6), ("analyze", 0.4)],
        );
        assert_eq!((found.limit, found.share), (Limit::Indexes, 0.6));
        assert_eq!(found.at_most_times, Some(2.5));
        let names: Vec<&str> = found.phases.iter().map(|it| it.phase.as_str()).collect();
        assert_eq!(names, ["indexes", "rows", "statistics"]);
        assert!(has_advice);
        let (found, has_advice) =
            weighed(Limit::Wal, &of_rows, &[("load", 3.0), ("index", 2.0), ("constraints", 2.0)]);
        assert_eq!(found.limit, Limit::Wal, "rows took longest of all");
        assert!(!has_advice);
        for (phase, limit) in [
            ("constraints", Limit::ForeignKeys),
            ("analyze", Limit::Statistics),
            ("verify", Limit::Verification),
            ("insert", Limit::Publishing),
        ] {
            assert_eq!(
                weighed(Limit::Wal, &of_rows, &[("load", 1.0), (phase, 2.0)]).0.limit,
                limit
            );
        }
    }

    #[test]
    fn indexes_that_are_built_with_the_rows_count_with_the_others() {
        let shares = [(Limit::Indexes, 0.45), (Limit::ClientCpu, 0.55)];
        let (found, _) = weighed(Limit::ClientCpu, &shares, &[("load", 10.0), ("index", 2.0)]);
        assert_eq!(found.limit, Limit::Indexes);
        assert!((found.share - 6.5 / 12.0).abs() < 1e-9, "{}", found.share);
    }

    #[test]
    fn what_is_over_at_once_is_no_bottleneck() {
        let (found, _) = weighed(Limit::None, &[], &[("load", 0.1), ("index", 0.3)]);
        assert_eq!(found.limit, Limit::None);
    }
}
