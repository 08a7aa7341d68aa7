//! Finds orphaned files: files of relations without a catalog entry, which a crash during a load can
//! cause.
//!
//! The server creates a table's file with the table, and removes it if the transaction fails. A server
//! that crashes in between never removes it. Here such files are only listed; the user decides which to
//! remove.
//!
//! A file that the catalog does not show is not always an orphan. It can belong to a transaction
//! that still runs; to one that dropped the table, whose empty first file goes with the next
//! checkpoint; to a temporary table, which the server itself clears away when it starts.

mod ask;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fullbore_pgwire::Session;
use fullbore_read::error::Result;
use serde::Serialize;

use ask::Running;
use names::RelationFile;

/// After which a second look is taken, where the first one found orphans: files of a table that was
/// dropped in that moment are gone by then.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Files tell their time in whole seconds, and the kernel's clock for them lags behind a little.
const CLOCK_SLACK: i64 = 1;

/// The files of one relation, as far as the catalog does not know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnknownRelation {
    /// Its first file, below the server's data folder.
    pub path: String,
    /// The names of all its files: segments and forks.
    pub files: Vec<String>,
    pub bytes: u64,
    /// When the youngest of them was changed.
    pub modified: String,
}

/// What was found in one database.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Found {
    pub database: String,
    pub orphans: Vec<UnknownRelation>,
    /// Changed since the oldest running transaction began: can be a load in progress.
    pub in_progress: Vec<UnknownRelation>,
    /// Empty and changed since the last checkpoint: the next one removes it, if it was dropped.
    pub removed_soon: Vec<UnknownRelation>,
    /// Temporary relations that other sessions don't see, or that are left: removed at the
    /// server's next start.
    pub temporary: Vec<UnknownRelation>,
}

/// Looks through the folders of the connected database.
pub fn find(session: &mut Session) -> Result<Found> {
    let database = ask::begin(session)?;
    let mut found = look(session)?;
    if !found.orphans.is_empty() {
        std::thread::sleep(BETWEEN_LOOKS);
        let before = std::mem::take(&mut found.orphans);
        found = look(session)?;
        found.orphans.retain(|orphan| before.contains(orphan));
    }
    found.database = database;
    Ok(found)
}

/// The order matters. Files are listed first: a transaction that made one either runs on, and is
/// seen then, or has ended by the time the catalog is read, and is in there. A file's time comes
/// last, since a later one can only speak against an orphan.
fn look(session: &mut Session) -> Result<Found> {
    let listed = ask::names(session)?;
    let running = ask::running(session)?;
    let known = ask::known(session)?;

    let mut relations: BTreeMap<(String, RelationFile), BTreeSet<String>> = BTreeMap::new();
    for file in listed {
        if !known.contains(&(file.tablespace, file.relation.filenode)) {
            relations.entry((file.folder, file.relation)).or_default().insert(file.name);
        }
    }
    let paths: Vec<String> = relations
        .iter()
        .flat_map(|((folder, _), names)| names.iter().map(move |name| format!("{folder}/{name}")))
        .collect();
    let stats: BTreeMap<String, ask::Stat> =
        ask::stat(session, &paths)?.into_iter().map(|stat| (stat.path.clone(), stat)).collect();

    let mut found = Found::default();
    for ((folder, relation), names) in relations {
        let there: Vec<(&String, &ask::Stat)> = names
            .iter()
            .filter_map(|name| Some((name, stats.get(&format!("{folder}/{name}"))?)))
            .collect();
        // Gone in the meantime.
        let Some(youngest) = there.iter().map(|(_, stat)| *stat).max_by_key(|stat| stat.modified)
        else {
            continue;
        };
        let unknown = UnknownRelation {
            path: format!("{folder}/{}", relation.name()),
            files: there.iter().map(|(name, _)| (*name).clone()).collect(),
            bytes: there.iter().map(|(_, stat)| stat.bytes).sum(),
            modified: youngest.modified_text.clone(),
        };
        let list = match class(relation, youngest.modified, unknown.bytes, &running) {
            Class::Orphan => &mut found.orphans,
            Class::InProgress => &mut found.in_progress,
            Class::RemovedSoon => &mut found.removed_soon,
            Class::Temporary => &mut found.temporary,
        };
        list.push(unknown);
    }
    Ok(found)
}

#[derive(Debug, PartialEq, Eq)]
enum Class {
    Orphan,
    InProgress,
    RemovedSoon,
    Temporary,
}

fn class(relation: RelationFile, modified: i64, bytes: u64, running: &Running) -> Class {
    let is_since = |time: i64| modified + CLOCK_SLACK >= time;
    if relation.backend.is_some() {
        Class::Temporary
    } else if running.since.is_some_and(is_since) {
        Class::InProgress
    } else if bytes == 0 && is_since(running.checkpoint) {
        Class::RemovedSoon
    } else {
        Class::Orphan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        let file = RelationFile { filenode: 7, backend: None };
        let temporary = RelationFile { filenode: 7, backend: Some(1) };
        let quiet = Running { since: None, checkpoint: 500 };
        let busy = Running { since: Some(1000), checkpoint: 500 };
        assert_eq!(class(file, 999, 8192, &quiet), Class::Orphan);
        assert_eq!(class(file, 998, 8192, &busy), Class::Orphan);
        // The second in which the transaction began, with the clock's slack.
        assert_eq!(class(file, 999, 8192, &busy), Class::InProgress);
        assert_eq!(class(file, 999, 0, &busy), Class::InProgress);
        assert_eq!(class(file, 600, 0, &quiet), Class::RemovedSoon);
        assert_eq!(class(file, 400, 0, &quiet), Class::Orphan);
        assert_eq!(class(temporary, 1, 8192, &busy), Class::Temporary);
    }
}
