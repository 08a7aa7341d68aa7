//! Which partitions are merged, so that they stay few and rows are written seldom.
//!
//! With at most k partitions at a time, the least writing is done if after t batches the partitions have the sizes of the
//! binomial sum of degree k that is t: C(a, k) + C(b, k-1) + ... with a > b > ... ("Bigtable Merge Compaction", Mathieu,
//! Staelin, Young and Yousefi, 2014, arXiv:1407.3008). A row is then written at most w times where C(k+w, k) exceeds t: of
//! 1,440 batches and 12 partitions, 3.9 times on average. The sizes for t + 1 come of those for t by merging the last ones,
//! so what lags behind only has to be merged further.

use std::ops::Range;

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The numbers of its batches, both included.
    pub first: u64,
    pub last: u64,
    /// How many batches it has; none where it was there before, and is left as it is.
    pub batches: u64,
    pub rows: u64,
    pub bytes: u64,
    /// When its first and its last batch were attached, in seconds since 1970.
    pub oldest_s: i64,
    pub newest_s: i64,
}

/// The partitions of a table, and what is done with them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partitions {
    /// By their numbers.
    pub shown: Vec<Part>,
    /// The numbers of batches that are not attached yet.
    pub loading: Vec<u64>,
    /// The first and last numbers of partitions that are being made of others.
    pub merging: Vec<(u64, u64)>,
    /// Of those that are none any more, and still have to be dropped.
    pub detached: Vec<(u64, u64)>,
}

impl Partitions {
    /// How many are shown of batches.
    pub fn own(&self) -> usize {
        self.shown.iter().filter(|part| part.batches > 0).count()
    }
}

/// So many more partitions there may be while some are merged: these are there until that is done.
const MERGED_OVER: usize = 3;
/// Others than these are so many at least.
const OTHERS_MIN: usize = 3;

/// How partitions are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How many there may be of those that are still merged.
    pub parts_max: usize,
    /// Partitions are merged within stretches of so much time only, so that a stretch can be dropped as a whole once it is
    /// old. One that is over becomes one partition.
    pub stretch_s: Option<i64>,
}

impl Policy {
    /// The neighbours to merge next, as places among those that are shown.
    pub fn next(&self, of: &Partitions) -> Option<Range<usize>> {
        let Partitions { shown, loading, merging, detached: _ } = of;
        let own = shown.iter().position(|part| part.batches > 0)?;
        let stretch = |part: &Part| self.stretch_s.map(|length| part.oldest_s / length.max(1));
        let merge = |part: &Part| {
            merging.iter().find(|(first, last)| (first..=last).contains(&&part.first))
        };
        let merged: Vec<&Part> = shown.iter().filter(|part| merge(part).is_some()).collect();
        let others_min = OTHERS_MIN.min(self.parts_max);
        let degree = (self.parts_max + MERGED_OVER)
            .saturating_sub(merged.len())
            .clamp(others_min, self.parts_max);
        let mut groups = Vec::new();
        let mut start = own;
        let alike =
            |one: &Part, next: &Part| (stretch(one), merge(one)) == (stretch(next), merge(next));
        for some in shown[own..].chunk_by(alike) {
            let all = start..start + some.len();
            start = all.end;
            if merge(&some[0]).is_some() {
                continue;
            }
            if all.end == shown.len() {
                let its = groups_of(some, degree).into_iter();
                groups.extend(its.map(|group| group.start + all.start..group.end + all.start));
            } else if !merged.iter().any(|part| stretch(part) == stretch(&some[0])) {
                // A stretch that is over.
                groups.push(all);
            }
        }
        let may = |group: &Range<usize>| {
            let some = &shown[group.clone()];
            let (Some(first), Some(last)) = (some.first(), some.last()) else { return false };
            let numbers = first.first..=last.last;
            some.len() > 1 && !loading.iter().any(|number| numbers.contains(number))
        };
        let bytes =
            |group: &Range<usize>| -> u64 { shown[group.clone()].iter().map(|p| p.bytes).sum() };
        groups.into_iter().filter(may).min_by_key(bytes)
    }
}

/// Partitions of a stretch that continues, grouped as they should be one.
fn groups_of(parts: &[Part], degree: usize) -> Vec<Range<usize>> {
    let sizes = sizes(parts.iter().map(|part| part.batches).sum(), degree);
    let (mut at, mut offset, mut end) = (0, 0, 0);
    let mut groups = Vec::new();
    for size in sizes {
        end += size;
        let start = at;
        // One that reaches beyond belongs where it begins.
        while at < parts.len() && offset < end {
            offset += parts[at].batches;
            at += 1;
        }
        groups.push(start..at);
    }
    groups
}

/// A number as a binomial sum of a degree: its terms, the largest first.
fn sizes(number: u64, degree: usize) -> Vec<u64> {
    let mut left = number;
    let mut sizes = Vec::new();
    for lower in (1..=degree as u64).rev() {
        let mut upper = lower;
        if left == 0 {
            break;
        }
        while binomial(upper + 1, lower) <= left {
            upper += 1;
        }
        let size = binomial(upper, lower);
        if size <= left {
            sizes.push(size);
            left -= size;
        }
    }
    sizes
}

fn binomial(upper: u64, lower: u64) -> u64 {
    (0..lower).fold(1_u64, |product, at| match product.checked_mul(upper - at) {
        Some(product) => product / (at + 1),
        None => u64::MAX,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60;
    const DAY: i64 = 86_400;

    fn batch(number: u64, at: i64) -> Part {
        Part {
            first: number,
            last: number,
            batches: 1,
            rows: 1,
            bytes: 1,
            oldest_s: at,
            newest_s: at,
        }
    }

    fn merged(parts: &[Part]) -> Part {
        let last = &parts[parts.len() - 1];
        Part {
            last: last.last,
            batches: parts.iter().map(|part| part.batches).sum(),
            rows: parts.iter().map(|part| part.rows).sum(),
            bytes: parts.iter().map(|part| part.bytes).sum(),
            newest_s: last.newest_s,
            ..parts[0].clone()
        }
    }

    struct Simulated {
        /// The most partitions that there were.
        most: usize,
        /// How often a row was written.
        written: f64,
        parts: Vec<Part>,
    }

    /// A batch a minute; merges come only with each so many of them.
    fn simulated(policy: Policy, minutes: u64, keep_s: Option<i64>, lag: u64) -> Simulated {
        let (mut of, mut most, mut written) = (Partitions::default(), 0, 0);
        for number in 1..=minutes {
            let now = number as i64 * MINUTE;
            of.shown.push(batch(number, now));
            written += 1;
            while number % lag == 0
                && let Some(group) = policy.next(&of)
            {
                let one = merged(&of.shown[group.clone()]);
                written += one.rows;
                of.shown.splice(group, [one]);
            }
            if let Some(keep) = keep_s {
                of.shown.retain(|part| part.newest_s >= now - keep);
            }
            most = most.max(of.shown.len());
        }
        Simulated { most, written: written as f64 / minutes as f64, parts: of.shown }
    }

    /// The same with two that merge, each so many rows a minute.
    fn simulated_slow(policy: Policy, minutes: u64, speed: u64) -> Simulated {
        let (mut of, mut most, mut written) = (Partitions::default(), 0, 0);
        // What is merged, and how much of it is left.
        let mut works: Vec<(Part, u64)> = Vec::new();
        for number in 1..=minutes {
            of.shown.push(batch(number, number as i64 * MINUTE));
            written += 1;
            for (part, left) in &mut works {
                *left = left.saturating_sub(speed);
                if *left == 0 {
                    of.merging.retain(|(first, _)| *first != part.first);
                    let within = |old: &Part| (part.first..=part.last).contains(&old.first);
                    let start = of.shown.iter().position(within).expect("what is merged");
                    let count = of.shown.iter().filter(|old| within(old)).count();
                    of.shown.splice(start..start + count, [part.clone()]);
                }
            }
            works.retain(|(_, left)| *left > 0);
            while works.len() < 2
                && let Some(group) = policy.next(&of)
            {
                let one = merged(&of.shown[group]);
                written += one.rows;
                of.merging.push((one.first, one.last));
                works.push((one.clone(), one.rows));
            }
            most = most.max(of.shown.len());
        }
        Simulated { most, written: written as f64 / minutes as f64, parts: of.shown }
    }

    #[test]
    fn numbers_are_sums_of_binomials() {
        assert_eq!(sizes(1, 3), [1]);
        assert_eq!(sizes(8, 3), [4, 3, 1]);
        for number in [1, 2, 17, 1440, 129_600] {
            for degree in [1, 2, 5, 12] {
                let sizes = sizes(number, degree);
                assert_eq!(sizes.iter().sum::<u64>(), number);
                assert!(sizes.len() <= degree);
            }
        }
        assert_eq!(binomial(200, 100), u64::MAX);
    }

    #[test]
    fn partitions_of_a_day_stay_few_and_rows_are_written_seldom() {
        let policy = Policy { parts_max: 12, stretch_s: None };
        for lag in [1, 2, 3] {
            let Simulated { most, written, parts } = simulated(policy, 24 * 60, None, lag);
            assert!(most < 12 + lag as usize, "{most}");
            assert!(written <= 4.0, "{written}");
            assert_eq!(parts.iter().map(|part| part.rows).sum::<u64>(), 24 * 60);
            assert!(parts.windows(2).all(|two| two[0].last + 1 == two[1].first));
        }
    }

    #[test]
    fn while_many_are_merged_the_others_stay_few() {
        let policy = Policy { parts_max: 12, stretch_s: None };
        // The largest merge takes 20 minutes, and 100.
        for (speed, most_at_most) in [(50, 18), (10, 20)] {
            let Simulated { most, written, parts } = simulated_slow(policy, 24 * 60, speed);
            assert!(most <= most_at_most, "{most}");
            assert!(written <= 4.5, "{written}");
            assert_eq!(parts.iter().map(|part| part.rows).sum::<u64>(), 24 * 60);
        }
    }

    #[test]
    fn ninety_days_with_retention_are_flat() {
        let keep = 90 * DAY;
        let policy = Policy { parts_max: 9, stretch_s: Some(keep / 4) };
        let Simulated { most, written, parts } = simulated(policy, 300 * 24 * 60, Some(keep), 1);
        assert!(most <= 15, "{most}");
        assert!(written <= 10.0, "{written}");
        let held = parts[parts.len() - 1].newest_s - parts[0].oldest_s;
        assert!((keep..keep + keep / 4 + DAY).contains(&held), "{held}");
    }

    #[test]
    fn batches_that_are_still_loading_are_not_passed_over() {
        let policy = Policy { parts_max: 1, stretch_s: None };
        let loading = |number| Partitions {
            shown: vec![batch(1, 0), batch(3, 0)],
            loading: vec![number],
            ..Partitions::default()
        };
        assert_eq!(policy.next(&loading(2)), None);
        assert_eq!(policy.next(&loading(4)), Some(0..2));
    }

    #[test]
    fn what_is_merged_is_left_alone() {
        let policy = Policy { parts_max: 1, stretch_s: None };
        let mut of = Partitions {
            shown: (1..=4).map(|number| batch(number, 0)).collect(),
            merging: vec![(1, 2)],
            ..Partitions::default()
        };
        assert_eq!(policy.next(&of), Some(2..4));
        of.merging.push((3, 4));
        assert_eq!(policy.next(&of), None);
    }

    #[test]
    fn partitions_that_reach_beyond_leave_nothing_for_those_that_should_follow() {
        let policy = Policy { parts_max: 12, stretch_s: None };
        let part =
            |first: u64, batches| Part { last: first + batches - 1, batches, ..batch(first, 0) };
        // Of 864 batches the third should have 11, and four others follow.
        let shown = vec![part(1, 455), part(456, 364), part(820, 35), part(855, 10)];
        assert_eq!(policy.next(&Partitions { shown, ..Partitions::default() }), None);
    }

    #[test]
    fn what_was_there_before_stays_as_it_is() {
        let policy = Policy { parts_max: 1, stretch_s: None };
        let mut of = Partitions {
            shown: vec![Part { batches: 0, ..batch(0, 0) }, batch(1, 0), batch(2, 0)],
            ..Partitions::default()
        };
        assert_eq!(policy.next(&of), Some(1..3));
        of.shown.pop();
        assert_eq!(policy.next(&of), None);
    }
}
