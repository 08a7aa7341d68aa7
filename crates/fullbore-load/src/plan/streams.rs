//! How many streams a load begins with, and how many it may come to have.

use fullbore_read::error::Result;

use crate::constants::STREAMS_MAX;
use crate::job::{Count, Job};
use crate::target::Target;

/// Streams that pay on a machine: two for each core, since at any moment some wait for the server's
/// disk (measured with 2 cores, by copy: 8% more with 4 than with 3, which are 9% more than 2).
pub fn automatic_streams() -> usize {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    (2 * cores).clamp(2, 16)
}

/// The streams that a load has.
pub struct Streams {
    pub count: usize,
    /// Of an automatic number, the largest that it may become.
    pub most: usize,
    /// What is to be said where there are not connections enough for them.
    pub note: Option<String>,
}

/// The streams of a load. Beside the session that is open, one watches the server, and one what `--pause-when` is
/// about. A stream has a session for each endpoint.
pub fn streams_of<T: Target>(job: &Job, target: Option<&T>) -> Result<Streams> {
    let (wanted, largest) = match job.streams {
        Count::Fixed(streams) => (streams, streams),
        Count::Auto => (automatic_streams(), STREAMS_MAX),
    };
    let room = target.map(Target::room).transpose()?.flatten();
    let Some(room) = room else { return Ok(Streams { count: wanted, most: largest, note: None }) };
    let beside = 1 + usize::from(job.pause_when.is_some());
    let sessions = job.endpoints.len().max(1);
    let most = (room.left.saturating_sub(beside) / sessions).max(1);
    if wanted <= most {
        return Ok(Streams { count: wanted, most: largest.min(most), note: None });
    }
    let words = &room.words;
    let (count, note) = match job.streams {
        Count::Auto => (most, format!("{most} of {wanted} streams: {words}")),
        Count::Fixed(_) => {
            let note = format!(
                "{wanted} streams were requested, but {words}: streams with a connection do the \
                 work of the others"
            );
            (wanted, note)
        }
    };
    Ok(Streams { count, most, note: Some(note) })
}
