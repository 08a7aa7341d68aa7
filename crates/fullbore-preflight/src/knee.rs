//! The knee of a curve: the smallest setting that is nearly as good as the best.

use crate::limits::KNEE_SHARE;

/// The index of the setting with the least cost among those whose rate is within 5% of the best.
///
/// ```
/// # use fullbore_preflight::knee::knee;
/// let rates = [100.0, 190.0, 199.0, 200.0];
/// assert_eq!(knee(&rates, |at| at), Some(1));
/// ```
pub fn knee<Cost: Ord>(rates: &[f64], cost: impl Fn(usize) -> Cost) -> Option<usize> {
    let best = rates.iter().copied().fold(0.0, f64::max);
    let good = (0..rates.len()).filter(|at| rates[*at] > 0.0 && rates[*at] >= best * KNEE_SHARE);
    good.min_by_key(|at| cost(*at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_of_the_good_ones() {
        let in_flight = [64, 16, 32, 4];
        let rates = [1000.0, 960.0, 940.0, 300.0];
        assert_eq!(knee(&rates, |at| in_flight[at]), Some(1));
        assert_eq!(knee(&[], |at| at), None);
        assert_eq!(knee(&[0.0], |at| at), None, "no rate has no knee");
    }
}
