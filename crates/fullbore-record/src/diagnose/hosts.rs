//! Hosts of a load on several: the bottleneck of each, and which of them the others waited for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Share;

/// A host is slow from so many times the median time per byte on.
const TIMES_SLOWER_MIN: f64 = 1.5;

/// To have been the last one at work is told from this part of the time on.
const ALONE_MIN: f64 = 0.1;

/// One host of a load on several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostShare {
    pub host: String,
    /// Source bytes that it sent.
    pub bytes: u64,
    /// Time in which it had a part.
    pub seconds: f64,
    /// Its largest cause; null where too little was observed.
    pub limit: Option<Share>,
    /// Time per byte as a multiple of the median host, if large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_slower: Option<f64>,
    /// Seconds in which no other host was loading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_seconds: Option<f64>,
}

/// Says which hosts took longer than the others for each byte, and which was the last.
pub fn name_slow(hosts: &mut [HostShare], ended: &[f64]) {
    let mut paces: Vec<f64> = hosts.iter().filter_map(pace).collect();
    paces.sort_by(f64::total_cmp);
    if paces.len() > 1 {
        // Of two hosts the faster one is the measure.
        let median = paces[(paces.len() - 1) / 2];
        for host in hosts.iter_mut() {
            let times = pace(host).map(|pace| pace / median);
            host.times_slower = times.filter(|times| *times >= TIMES_SLOWER_MIN);
        }
        let mut order: Vec<usize> = (0..hosts.len()).collect();
        order.sort_by(|a, b| ended[*b].total_cmp(&ended[*a]));
        let (last, before) = (order[0], order[1]);
        let alone = ended[last] - ended[before];
        if alone >= (hosts[last].seconds * ALONE_MIN).max(1.0) {
            hosts[last].alone_seconds = Some(alone);
        }
    }
}

/// Seconds a byte.
fn pace(host: &HostShare) -> Option<f64> {
    (host.bytes > 0 && host.seconds > 0.0).then(|| host.seconds / host.bytes as f64)
}
