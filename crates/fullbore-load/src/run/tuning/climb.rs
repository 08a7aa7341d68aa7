//! How many streams a run needs, by what more or fewer of them bring. Pure.
//!
//! Each number is measured for some seconds, in slices, until its rate is known well enough. While twice as many
//! bring something, the number is doubled (the first time quadrupled where streams wait for their windows); then
//! the smallest one is looked for that is within a few percent of the best, since streams that bring nothing cost
//! sessions, memory and the server's attention. What is settled stays so until the rate or what limits it changes.

use std::collections::BTreeMap;

/// More streams are kept from this gain on.
const GAIN_MIN: f64 = 1.05;

/// Fewer are enough from this part of the best rate on. What is aimed at is 5% of the best of all numbers; that of
/// those tried is a little less, and each is measured for seconds only.
const ENOUGH: f64 = 0.965;

/// A rate is known when its standard error is this part of it; or when it differs by so many errors from what it must
/// reach.
const ERROR_MAX: f64 = 0.015;
const ERRORS_SURE: f64 = 2.0;

/// Slices that are measured of a number, at least and at most.
const SLICES_MIN: usize = 4;
const SLICES_MAX: usize = 10;

/// Numbers that are this close are not told apart: so at most 1.3 times those that are enough are taken.
const CLOSE: f64 = 0.23;

/// What is settled is looked at again when so many slices together are off by this much, ...
const CHANGE_SLICES: usize = 12;
const CHANGE_MIN: f64 = 0.30;

/// ... at once when it is less than this part of what another number was measured at: buffers had made it look
/// better than it is, ...
const AS_MEASURED: f64 = 0.85;

/// ... or when for so many what limits the run asks for more; each time after twice as many slices.
const PATIENCE_SLICES: usize = 40;

/// What the bottleneck says of more streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cue {
    /// They bring more.
    More,
    Unclear,
    /// They would only share what there is.
    Enough,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Try so many.
    Try(usize),
    /// So many are what the run needs.
    Settle(usize),
}

/// A rate, known by its slices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Known {
    pub rate: f64,
    error: f64,
}

impl Known {
    fn by(slices: &[f64]) -> Self {
        let count = slices.len() as f64;
        let rate = slices.iter().sum::<f64>() / count;
        let spread = slices.iter().map(|slice| (slice - rate).powi(2)).sum::<f64>();
        let error = (spread / (count - 1.0).max(1.0) / count).sqrt();
        Self { rate, error }
    }
}

/// The search for a number of streams.
#[derive(Debug)]
pub struct Climb {
    most: usize,
    now: usize,
    known: BTreeMap<usize, Known>,
    slices: Vec<f64>,
    cues: Vec<Cue>,
    phase: Phase,
    /// Slices since it was settled, and those after which it may be looked at again.
    settled_for: usize,
    patience: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Climbing,
    Searching,
    Settled,
}

impl Climb {
    /// Begins with so many streams, of at most `most`. What an earlier run of the job settled on is taken for
    /// settled.
    pub fn new(first: usize, most: usize, is_settled: bool) -> Self {
        let most = most.max(1);
        Self {
            most,
            now: first.clamp(1, most),
            known: BTreeMap::new(),
            slices: Vec::new(),
            cues: Vec::new(),
            phase: if is_settled { Phase::Settled } else { Phase::Climbing },
            settled_for: 0,
            patience: PATIENCE_SLICES,
        }
    }

    /// Forgets all rates: what is sent has changed.
    pub fn begin_again(&mut self) {
        *self = Self { patience: self.patience, ..Self::new(self.now, self.most, false) };
    }

    /// The number that is in use.
    pub fn streams(&self) -> usize {
        self.now
    }

    /// Whether nothing is being tried.
    pub fn is_settled(&self) -> bool {
        self.phase == Phase::Settled
    }

    /// The smallest number that is enough, as far as is known.
    pub fn best_known(&self) -> Option<usize> {
        let best = self.best()?.rate;
        self.known
            .iter()
            .find(|(_, known)| known.rate >= ENOUGH * best)
            .map(|(streams, _)| *streams)
    }

    /// The rates that were measured, by number of streams.
    pub fn known(&self) -> impl Iterator<Item = (usize, f64)> {
        self.known.iter().map(|(streams, known)| (*streams, known.rate))
    }

    /// There are no more than so many.
    pub fn limit(&mut self, most: usize) {
        self.most = most.max(1);
        self.now = self.now.min(self.most);
    }

    /// What was measured is of another time: a pause, or a server that was gone.
    pub fn forget_slices(&mut self) {
        self.slices.clear();
        self.cues.clear();
    }

    /// Takes the rate of another slice of time, and what the bottleneck said in it.
    pub fn slice(&mut self, rate: f64, cue: Cue) -> Option<Step> {
        self.slices.push(rate);
        self.cues.push(cue);
        if self.phase == Phase::Settled {
            return self.watch();
        }
        let known = Known::by(&self.slices);
        let best = self.best();
        if self.slices.len() < SLICES_MAX && !self.is_sure(known, best) {
            return None;
        }
        self.known.insert(self.now, known);
        let cue = most_of(&self.cues);
        // How far away it is may not be known from the first moment.
        let begins_low = best.is_none() && self.cues.last() == Some(&Cue::More);
        self.forget_slices();
        if self.phase == Phase::Climbing {
            let gained = best.is_none_or(|best| known.rate >= GAIN_MIN * best.rate);
            if gained && cue != Cue::Enough && self.now < self.most {
                let times = if begins_low { 4 } else { 2 };
                return Some(self.go((times * self.now).min(self.most)));
            }
            self.phase = Phase::Searching;
        }
        Some(self.search())
    }

    /// The next number between one that is enough and one that is not.
    fn search(&mut self) -> Step {
        let best = self.best().map_or(0.0, |best| best.rate);
        // In doubt, fewer are; but of rates that vary much, not any.
        let doubt = |known: &Known| (known.error / 2.0).min((1.0 - ENOUGH) * best);
        let is_enough = |known: &Known| known.rate + doubt(known) >= ENOUGH * best;
        let enough = self.known.iter().find(|(_, known)| is_enough(known));
        let high = enough.map_or(self.now, |(streams, _)| *streams);
        let low = self.known.range(..high).next_back().map_or(0, |(streams, _)| *streams);
        let gap = high - low;
        if gap <= 1 || (gap as f64) < CLOSE * high as f64 {
            self.phase = Phase::Settled;
            self.settled_for = 0;
            self.now = high;
            return Step::Settle(high);
        }
        let between = match low {
            0 => high / 2,
            low => ((low * high) as f64).sqrt().round() as usize,
        };
        self.go(between.clamp(low + 1, high - 1))
    }

    fn go(&mut self, streams: usize) -> Step {
        self.now = streams;
        Step::Try(streams)
    }

    /// Looks whether what was settled still holds.
    fn watch(&mut self) -> Option<Step> {
        self.settled_for += 1;
        if self.slices.len() < CHANGE_SLICES {
            return None;
        }
        let now = Known::by(&self.slices);
        let cue = most_of(&self.cues);
        self.forget_slices();
        let others = self.known.iter().filter(|(streams, _)| **streams != self.now);
        let promised = others.map(|(_, known)| known.rate).fold(0.0, f64::max);
        if now.rate + now.error / 2.0 < AS_MEASURED * promised {
            self.known.insert(self.now, now);
            self.phase = Phase::Searching;
            return Some(self.search());
        }
        if self.settled_for < self.patience {
            // Windows still grow and buffers fill: what that comes to is what it is like here.
            self.known.insert(self.now, now);
            return None;
        }
        let then = *self.known.entry(self.now).or_insert(now);
        let is_changed = (now.rate - then.rate).abs() > CHANGE_MIN * then.rate;
        let is_asked = cue == Cue::More && self.now < self.most;
        if !is_changed && !is_asked {
            return None;
        }
        self.patience *= 2;
        self.known.clear();
        self.known.insert(self.now, now);
        match cue {
            Cue::Enough => {
                self.phase = Phase::Searching;
                Some(self.search())
            }
            _ if self.now < self.most => {
                self.phase = Phase::Climbing;
                Some(self.go((2 * self.now).min(self.most)))
            }
            _ => None,
        }
    }

    /// Whether more slices would change nothing.
    fn is_sure(&self, known: Known, best: Option<Known>) -> bool {
        if self.slices.len() < SLICES_MIN {
            return false;
        }
        let must = if self.phase == Phase::Climbing { GAIN_MIN } else { ENOUGH };
        let differs = best.is_some_and(|best| {
            let error = known.error.hypot(must * best.error);
            (known.rate - must * best.rate).abs() > ERRORS_SURE * error
        });
        differs || known.error <= ERROR_MAX * known.rate
    }

    fn best(&self) -> Option<Known> {
        self.known.values().copied().max_by(|a, b| a.rate.total_cmp(&b.rate))
    }
}

/// The cue of most slices; unclear without one.
fn most_of(cues: &[Cue]) -> Cue {
    let count = |of: Cue| cues.iter().filter(|cue| **cue == of).count();
    let is_most = |of: &Cue| 2 * count(*of) > cues.len();
    [Cue::More, Cue::Enough].into_iter().find(is_most).unwrap_or(Cue::Unclear)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a search comes to, and after how many slices, where so many streams have such a rate, give or take.
    fn settles(
        mut climb: Climb,
        noise: f64,
        seed: u64,
        rate: impl Fn(usize) -> f64,
        cue: impl Fn(usize) -> Cue,
    ) -> (usize, usize) {
        let mut random = fastrand::Rng::with_seed(seed);
        for slices in 1..400 {
            let streams = climb.streams();
            let off = 1.0 + noise * (random.f64() + random.f64() + random.f64() - 1.5) * 2.0;
            if let Some(Step::Settle(streams)) = climb.slice(rate(streams) * off, cue(streams)) {
                return (streams, slices);
            }
        }
        (climb.streams(), 400)
    }

    #[test]
    fn what_each_stream_adds_is_taken() {
        // A window of its own for each, up to what the line carries.
        let line = |streams: usize| (streams as f64 * 10.0).min(230.0);
        let cue = |streams| if streams < 23 { Cue::More } else { Cue::Enough };
        let found = |seed| settles(Climb::new(4, 64, false), 0.03, seed, line, cue);
        let right = (0..100).filter(|seed| (22..=27).contains(&found(*seed).0)).count();
        assert!(right >= 90, "{right} of 100");
        assert!((0..100).all(|seed| found(seed).1 <= 60));
    }

    #[test]
    fn fewer_are_taken_where_they_are_enough() {
        let (flat, enough) = (|_| 100.0, |_| Cue::Enough);
        let found = |seed| settles(Climb::new(4, 64, false), 0.03, seed, flat, enough);
        let right = (0..100).filter(|seed| found(*seed).0 == 1).count();
        assert!(right >= 90, "{right} of 100");
        assert!((0..100).all(|seed| found(seed).1 <= 50));
        // A little is lost with each that is taken away.
        let rates = |streams: usize| [0.0, 60.0, 83.0, 91.0, 100.0][streams.min(4)];
        let found = |seed| settles(Climb::new(4, 64, false), 0.03, seed, rates, enough).0;
        let right = (0..100).filter(|seed| found(*seed) == 4).count();
        assert!(right >= 90, "{right} of 100");
    }

    #[test]
    fn what_limits_the_run_has_a_veto() {
        let rates = |streams: usize| streams.min(4) as f64;
        let mut climb = Climb::new(4, 64, false);
        let mut tried = Vec::new();
        for _ in 0..200 {
            match climb.slice(rates(climb.streams()), Cue::Enough) {
                Some(Step::Try(streams)) => tried.push(streams),
                Some(Step::Settle(_)) => break,
                None => {}
            }
        }
        assert!(tried.iter().all(|streams| *streams < 4), "{tried:?}");
        assert!(climb.is_settled() && climb.streams() == 4);
    }

    #[test]
    fn what_only_looked_good_enough_is_corrected() {
        // Of one stream, buffers take in more for a while than it can deliver.
        let mut climb = Climb::new(2, 64, false);
        let mut alone = 0;
        for _ in 0..60 {
            alone += usize::from(climb.streams() == 1);
            let rate = match climb.streams() {
                1 if alone < 16 => 18.0,
                1 => 10.0,
                _ => 18.5,
            };
            climb.slice(rate, Cue::Enough);
        }
        assert!((16 + CHANGE_SLICES..40).contains(&alone), "{alone}");
        assert!(climb.is_settled() && climb.streams() == 2);
    }

    #[test]
    fn what_is_settled_is_looked_at_again_when_it_changes() {
        let mut climb = Climb::new(4, 64, true);
        let mut steps = Vec::new();
        for slice in 0..200 {
            // A line of another capacity from then on.
            let rate = if slice < 100 { 40.0 } else { 10.0 * climb.streams() as f64 + 40.0 };
            let cue = if slice < 100 { Cue::Enough } else { Cue::More };
            steps.extend(climb.slice(rate, cue).map(|step| (slice, step)));
        }
        let (first, step) = &steps[0];
        assert!((100..=140).contains(first) && *step == Step::Try(8), "{steps:?}");
        // Without a change nothing is tried.
        let mut calm = Climb::new(4, 64, true);
        assert!(
            (0..500).all(|slice| calm.slice(40.0 + f64::from(slice % 3), Cue::Enough).is_none())
        );
    }
}
