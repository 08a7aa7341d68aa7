//! Another rate for a run in progress: a file in its folder, which the run looks for.

use std::fs;

use fullbore_load::job::MaxRate;
use fullbore_load::run::pace::FILE;
use fullbore_read::error::{Error, Result};
use fullbore_record::{RunState, summary_of};

use crate::state::folder_of;

/// Limits what all streams of a run send together, or lifts the limit. The run notices within a second, and
/// keeps to it when it is resumed.
pub fn throttle(run: &str, rate: Option<MaxRate>) -> Result<()> {
    let folder = folder_of(run)?;
    let state = summary_of(&folder).map(|run| run.state);
    if !matches!(state, Some(RunState::Unfinished | RunState::Stopped)) {
        let state = state.map_or("unknown", RunState::name);
        return Err(Error::usage_with_hint(
            format!("run {run} can't be throttled: its state is {state}"),
            "see `fullbore runs list`",
        ));
    }
    let text = rate.map_or("none".to_owned(), |rate| rate.to_string());
    let (path, new) = (folder.join(FILE), folder.join(format!("{FILE}.new")));
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
    written.map_err(|source| Error::Read { path, source })
}
