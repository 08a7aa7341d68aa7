//! How much two cells differ: the mean of paired differences, with an interval from a bootstrap.

use serde::Serialize;

/// Resamples: three of them are past the end of an interval of four pairs, the narrowest tail.
const RESAMPLES: usize = 5_000;

/// Fewer pairs have no interval: with three, 92% of those meant to be right 95 times of 100 are.
const PAIRS_MIN: usize = 4;

/// The share of a normal distribution below Student's t for 95%, by the number of pairs from [`PAIRS_MIN`].
const TAILS: [f64; 17] = [
    0.000730, 0.002748, 0.005076, 0.007204, 0.009024, 0.010555, 0.011844, 0.012936, 0.013869,
    0.014673, 0.015372, 0.015985, 0.016526, 0.017007, 0.017437, 0.017824, 0.018174,
];

/// By how much a cell takes more time than another: 0.1 is 10% more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    pub change: f64,
    /// None where there are too few pairs to say.
    #[serde(flatten)]
    pub within: Option<Within>,
    pub pairs: usize,
}

/// A change is between these, 95 times of 100.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Within {
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Whether there is a difference.
    pub fn differs(&self) -> bool {
        self.within.is_some_and(|within| within.low > 0.0 || within.high < 0.0)
    }

    /// Half of its width.
    pub fn half_width(&self) -> Option<f64> {
        self.within.map(|within| (within.high - within.low) / 2.0)
    }
}

/// The change of time from the first to the second of each pair.
///
/// Ratios are compared by their logarithms, so that what doubles and what halves weigh the same. A plain bootstrap
/// of few pairs is too sure of itself: it never leaves their range, and knows their spread too small. So resamples
/// are smoothed by a normal distribution as wide as the standard error, and their tails taken as far out as
/// Student's t takes them (T. Hesterberg, "What Teachers Should Know About the Bootstrap", 2015, has both).
/// Coverage is tested below. None without a pair.
pub fn change(pairs: &[(f64, f64)], seed: u64) -> Option<Interval> {
    let differences: Vec<f64> = pairs.iter().map(|(from, to)| (to / from).ln()).collect();
    let count = differences.len();
    if count == 0 || differences.iter().any(|d| !d.is_finite()) {
        return None;
    }
    let mean = differences.iter().sum::<f64>() / count as f64;
    let as_change = |log: f64| log.exp() - 1.0;
    let within = (count >= PAIRS_MIN).then(|| {
        let (low, high) = bootstrap(&differences, mean, seed);
        Within { low: as_change(low), high: as_change(high) }
    });
    Some(Interval { change: as_change(mean), within, pairs: count })
}

fn bootstrap(differences: &[f64], mean: f64, seed: u64) -> (f64, f64) {
    let count = differences.len();
    let squares: f64 = differences.iter().map(|d| (d - mean).powi(2)).sum();
    let deviation = (squares / (count - 1) as f64).sqrt();
    // Each drawn difference is blurred by the standard error; so is their mean, by that over the root of their number.
    let blur = deviation / count as f64;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let sum: f64 = (0..count).map(|_| differences[random.usize(..count)]).sum();
            sum / count as f64 + blur * normal(&mut random)
        })
        .collect();
    means.sort_by(f64::total_cmp);
    // Past the table the tail nears 2.5% as 1 over the number of pairs.
    let tail = TAILS.get(count - PAIRS_MIN).copied().unwrap_or(0.025 - 0.1365 / count as f64);
    let at = (tail * RESAMPLES as f64) as usize;
    (means[at], means[RESAMPLES - 1 - at])
}

/// A number of the standard normal distribution, by Box and Muller.
pub(crate) fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often, of so many experiments, the interval has the truth in it.
    fn coverage(pairs: usize, noise: impl Fn(&mut fastrand::Rng) -> f64) -> f64 {
        const EXPERIMENTS: usize = 2000;
        let truth = 0.07_f64;
        let mut random = fastrand::Rng::with_seed(pairs as u64);
        let hits = (0..EXPERIMENTS).filter(|experiment| {
            let pairs: Vec<(f64, f64)> = (0..pairs)
                .map(|_| {
                    // What a block has in common cancels out.
                    let block = (0.3 * normal(&mut random)).exp() * 20.0;
                    let from = block * noise(&mut random).exp();
                    (from, block * (1.0 + truth) * noise(&mut random).exp())
                })
                .collect();
            let found = change(&pairs, *experiment as u64).expect("pairs");
            found.within.is_some_and(|within| (within.low..=within.high).contains(&truth))
        });
        hits.count() as f64 / EXPERIMENTS as f64
    }

    #[test]
    fn intervals_have_the_truth_in_them_95_times_of_100() {
        for pairs in [4, 6, 12] {
            let even = coverage(pairs, |random| 0.05 * normal(random));
            // Loads are late rather than early, and now and then very late.
            let skewed = coverage(pairs, |random| 0.05 * (0.8 * normal(random)).exp());
            let flat = coverage(pairs, |random| 0.2 * random.f64());
            for share in [even, skewed, flat] {
                assert!((0.93..=0.97).contains(&share), "{pairs}: {even} {skewed} {flat}");
            }
        }
    }

    #[test]
    fn no_difference_is_not_found() {
        let same = change(&[(10.0, 10.1), (11.0, 10.9), (9.0, 9.05), (10.0, 9.9), (8.0, 8.0)], 1);
        assert!(!same.expect("pairs").differs());
        let slower = change(&[(10.0, 12.1), (11.0, 13.1), (9.0, 10.9), (10.0, 12.0)], 1);
        let slower = slower.expect("pairs");
        assert!(slower.differs() && (slower.change - 0.2).abs() < 0.02, "{slower:?}");
        assert_eq!(change(&[(1.0, 2.0); 3], 1).expect("pairs").within, None);
        assert_eq!(change(&[], 1), None);
    }
}
