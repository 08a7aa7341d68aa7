//! The knee: the smallest level that is as good as the best.

use crate::interval::{Interval, change};

/// A level is as good as the best where it takes at most this much more time.
const AS_GOOD: f64 = 0.05;

/// Where more of something no longer pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knee {
    /// At this level, by its number: those before it are slower.
    At(usize),
    /// The first level is as good as any.
    Flat,
    /// The measurements differ too much to say.
    Unclear,
}

/// The knee among levels in ascending order; `blocks` have the seconds of each level.
pub fn knee(blocks: &[Vec<f64>], seed: u64) -> Knee {
    let levels = blocks.first().map_or(0, Vec::len);
    let mean_log = |level: usize| blocks.iter().map(|block| block[level].ln()).sum::<f64>();
    let Some(best) = (0..levels).min_by(|a, b| mean_log(*a).total_cmp(&mean_log(*b))) else {
        return Knee::Unclear;
    };
    let against_best = |level: usize| {
        let pairs: Vec<(f64, f64)> =
            blocks.iter().map(|block| (block[best], block[level])).collect();
        change(&pairs, seed)
    };
    let mut is_first = true;
    for level in 0..=best {
        let Some(interval) = against_best(level) else { return Knee::Unclear };
        if is_as_good(&interval) {
            return if is_first { Knee::Flat } else { Knee::At(level) };
        }
        if !is_slower(&interval) {
            return Knee::Unclear;
        }
        is_first = false;
    }
    Knee::Unclear
}

fn is_as_good(interval: &Interval) -> bool {
    interval.within.is_some_and(|within| within.high <= AS_GOOD)
}

fn is_slower(interval: &Interval) -> bool {
    interval.within.is_some_and(|within| within.low > AS_GOOD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::normal;

    /// What is found of experiments whose levels take so long, give or take a share.
    fn found(seconds: &[f64], noise: f64, count: usize) -> Vec<Knee> {
        let mut random = fastrand::Rng::with_seed(count as u64);
        let mut one = |experiment: usize| {
            let block = |_| {
                let of_block = (0.1 * normal(&mut random)).exp();
                let one = |s: &f64| s * of_block * (noise * normal(&mut random)).exp();
                seconds.iter().map(one).collect()
            };
            let blocks: Vec<Vec<f64>> = (0..6).map(block).collect();
            knee(&blocks, experiment as u64)
        };
        (0..count).map(&mut one).collect()
    }

    fn share(found: &[Knee], of: Knee) -> f64 {
        found.iter().filter(|knee| **knee == of).count() as f64 / found.len() as f64
    }

    #[test]
    fn a_knee_is_found() {
        // 1, 2, 4, 8, 16, 32 streams: the server is full with 8.
        let full = found(&[80.0, 40.0, 20.0, 10.0, 10.0, 10.2], 0.02, 200);
        assert!(share(&full, Knee::At(3)) > 0.9, "{:?}", &full[..20]);
        // More of them are worse.
        let worse = found(&[40.0, 20.0, 10.0, 14.0, 20.0], 0.02, 200);
        assert!(share(&worse, Knee::At(2)) > 0.99, "{:?}", &worse[..20]);
    }

    #[test]
    fn noise_has_no_knee() {
        for noise in [0.01, 0.03, 0.06, 0.15] {
            let flat = found(&[10.0; 6], noise, 2000);
            let false_ones = flat.iter().filter(|knee| matches!(knee, Knee::At(_))).count();
            assert!(false_ones <= 40, "{noise}: {false_ones} of 2000");
        }
        // What is measured well is said to be flat.
        assert!(share(&found(&[10.0; 6], 0.01, 200), Knee::Flat) > 0.95);
    }

    #[test]
    fn little_says_nothing() {
        assert_eq!(knee(&[], 1), Knee::Unclear);
        assert_eq!(knee(&[vec![2.0, 1.0]], 1), Knee::Unclear);
    }
}
