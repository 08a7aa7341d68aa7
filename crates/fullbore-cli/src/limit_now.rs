//! What limits a load now: a few words during the load.

use std::collections::VecDeque;
use std::sync::Mutex;

use fullbore_record::diagnose::{Circumstances, Limit, verdict};
use fullbore_record::observe::{Observation, Settings};
use fullbore_record::{Entry, Event};

/// Observations, about a second apart, that the line of a load looks back on.
const LOOK_BACK: usize = 10;

/// What limits a load now, as its observations come in.
#[derive(Debug, Default)]
pub struct Now(Mutex<Recent>);

#[derive(Debug, Default)]
struct Recent {
    settings: Settings,
    observations: VecDeque<Observation>,
}

impl Now {
    /// Takes an entry of the record; what limits the load now, where that has become known anew.
    pub fn take(&self, entry: &Entry) -> Option<String> {
        let mut recent = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match &entry.event {
            Event::ServerSettings { settings } => {
                recent.settings = settings.clone();
                None
            }
            Event::Observed { observation } => {
                recent.observations.push_back(observation.as_ref().clone());
                if recent.observations.len() > LOOK_BACK {
                    recent.observations.pop_front();
                }
                let (first, last) = (recent.observations.front()?, recent.observations.back()?);
                let about = Circumstances::of(Some(&recent.settings), 0);
                let verdict = verdict(&last.since(first), &about);
                let words = verdict.limit.name();
                (verdict.limit != Limit::None)
                    .then(|| format!("{words} {:.0}%", verdict.share * 100.0))
            }
            _ => None,
        }
    }
}
