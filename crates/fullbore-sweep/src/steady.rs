//! The ramp of a load, and its steady rate: a WAN's slow start or cold caches are no reason to call a setting slow.

/// A run is steady from where its rate has reached this share of what it is later: the fifth field report's
/// "steady 90%" over a WAN.
const STEADY_FROM: f64 = 0.9;

/// Windows that a run is cut into: a ramp that is shorter than one of them is not told apart.
const WINDOWS: usize = 20;

/// How fast a run was, and how long it took to become so.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Seconds until its rate was steady.
    pub ramp_s: f64,
    /// Bytes a second from then on.
    pub steady: f64,
}

/// The pace of a run, from samples of its age in seconds and the bytes by then, in their order. None where the
/// samples say too little.
pub fn pace(samples: &[(f64, u64)]) -> Option<Pace> {
    let (first, last) = (samples.first()?, samples.last()?);
    let seconds = last.0 - first.0;
    if seconds <= 0.0 || samples.len() < WINDOWS {
        return None;
    }
    let at = |when: f64| bytes_at(samples, when);
    let edge = |window: usize| first.0 + seconds * window as f64 / WINDOWS as f64;
    let rates: Vec<f64> =
        (0..WINDOWS).map(|n| (at(edge(n + 1)) - at(edge(n))) * WINDOWS as f64 / seconds).collect();
    // What it became: of the later half, without its tail.
    let mut later = rates[WINDOWS / 2..WINDOWS - 1].to_vec();
    later.sort_by(f64::total_cmp);
    let usual = later[later.len() / 2];
    let ramp = rates.iter().take(WINDOWS / 2).position(|rate| *rate >= STEADY_FROM * usual);
    let from = edge(ramp.unwrap_or(WINDOWS / 2));
    let until = edge(WINDOWS - 1);
    Some(Pace { ramp_s: from - first.0, steady: (at(until) - at(from)) / (until - from) })
}

/// Bytes at a moment, between the samples before and after it.
fn bytes_at(samples: &[(f64, u64)], when: f64) -> f64 {
    let after = samples.partition_point(|(seconds, _)| *seconds < when);
    let (Some(next), Some(previous)) = (samples.get(after), samples.get(after.wrapping_sub(1)))
    else {
        let edge = if after == 0 { samples.first() } else { samples.last() };
        return edge.map_or(0.0, |(_, bytes)| *bytes as f64);
    };
    let share = (when - previous.0) / (next.0 - previous.0);
    previous.1 as f64 + (next.1 as f64 - previous.1 as f64) * share
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of a run with this rate at each of its ages, 10 a second.
    fn samples(seconds: usize, rate: impl Fn(f64) -> f64) -> Vec<(f64, u64)> {
        let mut bytes = 0.0;
        let mut all = vec![(0.0, 0)];
        for n in 1..=seconds * 10 {
            let age = n as f64 / 10.0;
            bytes += rate(age) / 10.0;
            all.push((age, bytes as u64));
        }
        all
    }

    #[test]
    fn a_ramp_is_told_from_what_follows() {
        // Slow start: doubles each second until 100 MB/s, which it reaches in the seventh.
        let slow = pace(&samples(40, |age| (1e6 * 2_f64.powf(age)).min(1e8))).expect("enough");
        assert!((slow.steady / 1e8 - 1.0).abs() < 0.01, "{slow:?}");
        assert!((6.0..=8.0).contains(&slow.ramp_s), "{slow:?}");
        let flat = pace(&samples(40, |_| 5e7)).expect("enough");
        assert!(flat.ramp_s == 0.0 && (flat.steady / 5e7 - 1.0).abs() < 0.01, "{flat:?}");
        // A tail of idle streams belongs to neither.
        let tail = pace(&samples(40, |age| if age > 38.5 { 1e6 } else { 1e8 })).expect("enough");
        assert!((tail.steady / 1e8 - 1.0).abs() < 0.02, "{tail:?}");
    }

    #[test]
    fn too_little_is_no_pace() {
        assert_eq!(pace(&[]), None);
        assert_eq!(pace(&[(0.0, 0), (1.0, 100)]), None);
        assert_eq!(pace(&vec![(1.0, 5); 50]), None);
    }
}
