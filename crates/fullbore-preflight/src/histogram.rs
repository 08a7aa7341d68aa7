//! Latencies, counted in buckets that are never wider than 1/64 of what they hold.
//!
//! ```
//! # use fullbore_preflight::histogram::Histogram;
//! let mut histogram = Histogram::default();
//! for value in 1..=1000 {
//!     histogram.record(value);
//! }
//! let half = histogram.percentile(50.0);
//! assert!((500..=508).contains(&half));
//! ```

/// Buckets per power of two, as a power of two.
const SUB_BITS: u32 = 6;
const SUBS: u64 = 1 << SUB_BITS;

/// A histogram of whole numbers, mostly nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// Grows up to the largest bucket in use: at most 3,776 of them.
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Histogram {
    pub fn record(&mut self, value: u64) {
        let index = index_of(value);
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
        self.total += 1;
        self.max = self.max.max(value);
    }

    /// Adds what another one has counted.
    pub fn add(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// How many values were recorded.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The largest value, exactly.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// A value that this share of all values does not exceed; 0 if there are none.
    pub fn percentile(&self, percent: f64) -> u64 {
        let wanted = ((self.total as f64 * percent / 100.0).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_of(index).min(self.max);
            }
        }
        self.max
    }
}

fn index_of(value: u64) -> usize {
    if value < SUBS {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    // The leading one is implied by the shift.
    let sub = (value >> shift) - SUBS;
    (SUBS + u64::from(shift) * SUBS + sub) as usize
}

/// The largest value of a bucket.
fn upper_of(index: usize) -> u64 {
    let index = index as u64;
    if index < SUBS {
        return index;
    }
    let (shift, sub) = ((index - SUBS) / SUBS, (index - SUBS) % SUBS);
    // Written so that the very last bucket does not overflow.
    ((SUBS + sub) << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bucket_is_narrow(value: u64) {
            let upper = upper_of(index_of(value));
            prop_assert!(upper >= value);
            prop_assert!(upper - value <= value / SUBS);
            prop_assert_eq!(index_of(upper), index_of(value));
        }

        #[test]
        fn percentiles_are_those_of_the_sorted_values(
            mut values in proptest::collection::vec(0..10_000_000_u64, 1..500),
            cut in 0..500_usize,
            percent in 1..=100_u32,
        ) {
            let (mut first, mut second) = (Histogram::default(), Histogram::default());
            for (at, value) in values.iter().enumerate() {
                if at < cut { first.record(*value) } else { second.record(*value) }
            }
            first.add(&second);
            values.sort_unstable();
            let rank = (values.len() * percent as usize).div_ceil(100).max(1);
            let exact = values[rank - 1];
            let told = first.percentile(f64::from(percent));
            prop_assert!(told >= exact && told <= exact + exact / SUBS, "{told} for {exact}");
            prop_assert_eq!(first.max(), values[values.len() - 1]);
        }
    }

    #[test]
    fn nothing_recorded() {
        assert_eq!(Histogram::default().percentile(99.0), 0);
    }
}
