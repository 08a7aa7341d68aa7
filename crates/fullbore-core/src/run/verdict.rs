//! What held a run back: the verdict on what was seen of it, with advice for the settings in use.

use crate::diagnose::{Circumstances, InUse, Limit, Verdict, advise, stragglers, verdict};
use crate::job::{Method, Publish};
use crate::observe::Seen;
use crate::observe::pieces::PieceTime;
use crate::plan::{PieceInput, Plan};

/// The verdict on the time in which rows moved, and what to do about it.
pub fn pronounce(plan: &Plan, seen: &Seen, pieces: &[PieceTime]) -> (Verdict, Vec<String>) {
    let settings = seen.settings.clone().unwrap_or_default();
    let about = Circumstances { server_is_here: settings.is_here, tables: plan.tables.len() };
    let whole = seen.whole();
    let mut verdict = verdict(&whole, &about);
    verdict.stragglers = stragglers(pieces, |piece| file_of(plan, piece));
    let main = plan.tables.iter().max_by_key(|table| table.bytes);
    let used = InUse {
        streams: plan.streams,
        parsers: plan.parsers,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        method: main.map_or(Method::Copy, |table| table.method),
        publish: main.map_or(Publish::Append, |table| table.publish),
        is_read_by_one: plan
            .pieces
            .iter()
            .any(|piece| matches!(piece.input, PieceInput::Stream { .. })),
        settings,
    };
    let limits: Vec<Limit> = match verdict.limit {
        // Both that lead.
        Limit::Mixed => verdict.shares.iter().take(2).map(|share| share.limit).collect(),
        limit => vec![limit],
    };
    let lines = limits.into_iter().flat_map(|limit| advise(limit, &whole, &used));
    (verdict, lines.collect())
}

/// The name of the file that a piece is from.
fn file_of(plan: &Plan, piece: &PieceTime) -> String {
    let file = piece.file.and_then(|file| plan.tables[piece.table].files.get(file));
    file.map_or_else(String::new, |file| file.path.display().to_string())
}
