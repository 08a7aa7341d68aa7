//! Where the ramp of a transfer ends and its steady rate begins.
//!
//! TCP begins slowly: over a long path the first seconds say nothing of the rest. The ramp ends with
//! the first interval from which on the rate grows by no more than a little.

/// What was moved before and after the ramp's end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// The first sample of the steady part.
    pub from: usize,
    pub ramp_seconds: f64,
    pub ramp_bytes: u64,
    pub seconds: f64,
    pub bytes: u64,
}

impl Steady {
    pub fn bytes_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 / self.seconds } else { 0.0 }
    }
}

/// The ramp ends where an interval reaches this share of what the second half does in the mean, ...
const RAMP_SHARE: f64 = 0.9;

/// ... and is at most this share of the whole: what never gets steady is told as it was at the end.
const RAMP_MAX: f64 = 0.5;

/// Cuts a transfer in two. `totals` are bytes since the beginning at the end of each interval,
/// `interval_seconds` long each.
pub fn steady(totals: &[u64], interval_seconds: f64) -> Steady {
    let whole = totals.len();
    let at = |index: usize| if index == 0 { 0 } else { totals[index - 1] };
    let half = whole - (whole as f64 * RAMP_MAX) as usize;
    let last = at(whole);
    let late = last.saturating_sub(at(whole - half)) as f64 / half.max(1) as f64;
    let from = (0..whole - half)
        .find(|index| totals[*index].saturating_sub(at(*index)) as f64 >= late * RAMP_SHARE)
        // The interval in which it got there still has some of the ramp in it.
        .map_or(whole - half, |index| (index + 1).min(whole - half));
    Steady {
        from,
        ramp_seconds: from as f64 * interval_seconds,
        ramp_bytes: at(from),
        seconds: (whole - from) as f64 * interval_seconds,
        bytes: last.saturating_sub(at(from)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(rates: &[u64]) -> Vec<u64> {
        rates
            .iter()
            .scan(0, |sum, rate| {
                *sum += rate;
                Some(*sum)
            })
            .collect()
    }

    #[test]
    fn a_ramp_is_left_out() {
        let found = steady(&totals(&[1, 2, 4, 8, 16, 100, 100, 100, 100, 100, 100, 100]), 0.1);
        assert_eq!(found.from, 6);
        assert_eq!((found.bytes, found.ramp_bytes), (600, 131));
        assert!((found.bytes_per_second() - 1000.0).abs() < 1e-6);
    }

    #[test]
    fn no_ramp_costs_one_interval() {
        let found = steady(&totals(&[100; 10]), 1.0);
        assert_eq!((found.from, found.bytes), (1, 900));
    }

    #[test]
    fn what_grows_to_the_end_is_halved() {
        let found = steady(&totals(&[1, 2, 4, 8, 16, 32, 64, 128]), 1.0);
        assert_eq!(found.from, 4);
        assert_eq!(found.bytes, 240);
    }

    #[test]
    fn nothing_at_all() {
        for rates in [vec![], vec![0], vec![0, 0, 0]] {
            let found = steady(&totals(&rates), 1.0);
            assert_eq!(found.bytes, 0, "{rates:?}");
            assert_eq!(found.bytes_per_second(), 0.0);
        }
        assert_eq!(steady(&totals(&[7]), 1.0).bytes, 7);
    }
}
