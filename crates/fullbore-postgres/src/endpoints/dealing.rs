//! Which way a piece takes, by policy. It knows no network.

/// Deals pieces to ways.
pub struct Dealer {
    by_queue: bool,
    lanes: Vec<Lane>,
}

#[derive(Clone, Copy)]
struct Lane {
    weight: i64,
    /// Its claim to the next turn: smooth weighted round robin, as nginx has it.
    credit: i64,
    /// Bytes of its pieces that are not sent.
    left: u64,
}

impl Dealer {
    /// By the fewest bytes left, in turn among equals; or in turn by weight alone.
    pub fn new(by_queue: bool, weights: Vec<u32>) -> Self {
        let lane = |weight: u32| Lane { weight: weight.into(), credit: 0, left: 0 };
        Self { by_queue, lanes: weights.into_iter().map(lane).collect() }
    }

    /// Deals a piece to one of those that are open, of which there is one at least.
    pub fn deal(&mut self, open: &[bool], bytes: u64) -> usize {
        let mut candidates: Vec<usize> = (0..self.lanes.len()).filter(|at| open[*at]).collect();
        if self.by_queue {
            let fewest = candidates.iter().map(|at| self.lanes[*at].left).min();
            candidates.retain(|at| Some(self.lanes[*at].left) == fewest);
        }
        let mut whole = 0;
        for at in &candidates {
            self.lanes[*at].credit += self.lanes[*at].weight;
            whole += self.lanes[*at].weight;
        }
        // The first of equals, so that the order is that in which they were given.
        let chosen = candidates.into_iter().rev().max_by_key(|at| self.lanes[*at].credit);
        let at = chosen.unwrap_or_default();
        self.lanes[at].credit -= whole;
        self.add(at, bytes);
        at
    }

    pub fn add(&mut self, at: usize, bytes: u64) {
        self.lanes[at].left += bytes;
    }

    pub fn done(&mut self, at: usize, bytes: u64) {
        self.lanes[at].left -= bytes.min(self.lanes[at].left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_turn_and_by_weight() {
        let deal = |weights: &[u32], open: &[bool]| {
            let mut dealer = Dealer::new(false, weights.to_vec());
            (0..6).map(|_| dealer.deal(open, 7)).collect::<Vec<_>>()
        };
        assert_eq!(deal(&[1, 1], &[true, true]), [0, 1, 0, 1, 0, 1]);
        assert_eq!(deal(&[1, 1, 1], &[true, false, true]), [0, 2, 0, 2, 0, 2]);
        assert_eq!(deal(&[2, 1], &[true, true]), [0, 1, 0, 0, 1, 0]);
    }

    /// Pieces on two ways, one twice as fast: each gets as much as it carries.
    #[test]
    fn by_queue_a_faster_way_gets_more() {
        let mut dealer = Dealer::new(true, vec![1, 1]);
        let (mut pieces, mut dealt) = (vec![None; 8], [0; 2]);
        for _ in 0..3000 {
            for piece in &mut pieces {
                if piece.is_none() {
                    let at = dealer.deal(&[true, true], 100_000);
                    dealt[at] += 1;
                    *piece = Some((at, 100_000_u64));
                }
            }
            for (at, speed) in [(0, 12_000), (1, 6_000)] {
                let on_it =
                    |piece: &&mut Option<(usize, u64)>| piece.is_some_and(|(on, _)| on == at);
                let many = pieces.iter_mut().filter(on_it).count() as u64;
                for piece in pieces.iter_mut().filter(on_it) {
                    let (_, left) = piece.as_mut().expect("it is on it");
                    let sent = (speed / many.max(1)).max(1).min(*left);
                    *left -= sent;
                    dealer.done(at, sent);
                    if *left == 0 {
                        *piece = None;
                    }
                }
            }
        }
        let ratio = f64::from(dealt[0]) / f64::from(dealt[1]);
        assert!((1.6..2.4).contains(&ratio), "{dealt:?}");
    }
}
