//! The bottleneck of each host, and which of them the others waited for.

use crate::diagnose::{Circumstances, HostShare, Verdict, name_slow, verdict as verdict_of};
use crate::observe::Observation;

use super::place::Place;
use super::sum;

/// Stragglers of all parts are named, not listed without end.
pub const NAMED_MAX: usize = 5;

/// The verdict on all places together, with one for each host.
pub fn verdict(
    places: &[Place],
    seen: Vec<Observation>,
    about: &Circumstances,
    now: f64,
) -> Verdict {
    let mut all = Observation::default();
    let mut hosts: Vec<(HostShare, Observation, f64)> = Vec::new();
    for (place, observed) in places.iter().zip(seen) {
        sum::join(&mut all, observed.clone());
        let ((bytes, seconds), until) = (place.pace(), place.ended_at(now));
        match hosts.iter_mut().find(|(host, ..)| host.host == place.host) {
            Some((host, of_host, last)) => {
                host.bytes += bytes;
                host.seconds += seconds;
                *last = last.max(until);
                sum::join(of_host, observed);
            }
            None => {
                let host = HostShare {
                    host: place.host.clone(),
                    bytes,
                    seconds,
                    limit: None,
                    times_slower: None,
                    alone_seconds: None,
                };
                hosts.push((host, observed, until));
            }
        }
    }
    let mut verdict = verdict_of(&all, about);
    let ended: Vec<f64> = hosts.iter().map(|(_, _, until)| *until).collect();
    let mut hosts: Vec<HostShare> = hosts
        .into_iter()
        .map(|(mut host, observed, _)| {
            let own = verdict_of(&observed, about);
            host.limit = own.shares.first().copied();
            host
        })
        .collect();
    name_slow(&mut hosts, &ended);
    hosts.sort_by(|a, b| a.host.cmp(&b.host));
    verdict.hosts = hosts;
    verdict
}
