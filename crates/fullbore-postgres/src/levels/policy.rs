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
    /// The neighbours to merge next; `loading` has the numbers of batches that are not attached yet.
    pub fn next(&self, parts: &[Part], loading: &[u64]) -> Option<Range<usize>> {
        let own = parts.iter().position(|part| part.batches > 0)?;
        let stretch = |part: &Part| self.stretch_s.map(|length| part.oldest_s / length.max(1));
        let mut groups = Vec::new();
        let mut start = own;
        for end in own + 1..=parts.len() {
            if parts.get(end).is_some_and(|part| stretch(part) == stretch(&parts[start])) {
                continue;
            }
            match end == parts.len() {
                true => groups.extend(
                    self.groups(&parts[start..])
                        .map(|group| group.start + start..group.end + start),
                ),
                false => groups.push(start..end),
            }
            start = end;
        }
        let may = |group: &Range<usize>| {
            let numbers = parts[group.start].first..=parts[group.end - 1].last;
            group.len() > 1 && !loading.iter().any(|number| numbers.contains(number))
        };
        let bytes =
            |group: &Range<usize>| -> u64 { parts[group.clone()].iter().map(|p| p.bytes).sum() };
        groups.into_iter().filter(may).min_by_key(bytes)
    }

    /// The partitions of a stretch that goes on, grouped as they should be one.
    fn groups(&self, parts: &[Part]) -> impl Iterator<Item = Range<usize>> {
        let sizes = sizes(parts.iter().map(|part| part.batches).sum(), self.parts_max);
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
        groups.into_iter()
    }
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
        let (mut parts, mut most, mut written) = (Vec::new(), 0, 0);
        for number in 1..=minutes {
            let now = number as i64 * MINUTE;
            parts.push(batch(number, now));
            written += 1;
            while number % lag == 0
                && let Some(group) = policy.next(&parts, &[])
            {
                let one = merged(&parts[group.clone()]);
                written += one.rows;
                parts.splice(group, [one]);
            }
            if let Some(keep) = keep_s {
                parts.retain(|part| part.newest_s >= now - keep);
            }
            most = most.max(parts.len());
        }
        Simulated { most, written: written as f64 / minutes as f64, parts }
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
        let parts = [batch(1, 0), batch(3, 0)];
        assert_eq!(policy.next(&parts, &[2]), None);
        assert_eq!(policy.next(&parts, &[4]), Some(0..2));
    }

    #[test]
    fn what_was_there_before_stays_as_it_is() {
        let policy = Policy { parts_max: 1, stretch_s: None };
        let parts = [Part { batches: 0, ..batch(0, 0) }, batch(1, 0), batch(2, 0)];
        assert_eq!(policy.next(&parts, &[]), Some(1..3));
        assert_eq!(policy.next(&parts[..2], &[]), None);
    }
}
