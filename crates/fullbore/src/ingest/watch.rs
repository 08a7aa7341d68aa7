//! What there is to load: files of folders, globs and prefixes of object stores, as they appear.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fullbore_load::job::Job;
use fullbore_postgres::levels::batches::{Source, Standing as Known};
use fullbore_read::StoreOptions;
use fullbore_read::discover::{finds, listed_in};
use fullbore_read::error::{Error, Result};

/// Files of a batch at most.
const FILES_MAX: usize = 1000;

/// When files make a batch.
pub struct Batching {
    pub every: Duration,
    pub bytes: u64,
    /// Whatever there is.
    pub at_once: bool,
}

/// A file that was seen.
#[derive(Debug, Clone)]
struct Seen {
    version: String,
    bytes: u64,
    modified_ns: i128,
    /// Since when it is waited for.
    since: Instant,
    standing: Standing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The ledger has not been asked for it.
    Unsure,
    /// It is to be loaded.
    Waiting,
    Taken,
}

/// The sources, as they were when they were last looked at.
pub struct Watch {
    sources: Vec<String>,
    store: StoreOptions,
    settle: Duration,
    /// By their names.
    seen: BTreeMap<String, Seen>,
}

impl Watch {
    pub fn new(job: &Job, settle: Duration) -> Result<Self> {
        let table = job.tables.first().ok_or_else(|| Error::usage("the job has no table"))?;
        // The same folder by another name is the same folder.
        let sources = table.sources.iter().map(|source| {
            let path = Path::new(source);
            match path.is_dir().then(|| path.canonicalize()) {
                Some(Ok(path)) => path.to_str().map_or_else(|| source.clone(), str::to_owned),
                _ => source.clone(),
            }
        });
        Ok(Self {
            sources: sources.collect(),
            store: job.store.clone(),
            settle,
            seen: BTreeMap::new(),
        })
    }

    /// Looks at the sources. Files that change are not seen yet.
    pub fn look(&mut self) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut before = std::mem::take(&mut self.seen);
        for source in &self.sources {
            for file in listed_in(source, &self.store)? {
                let is_whole = file.changed_ns.is_none_or(|changed| {
                    let last = changed.max(file.modified_ns);
                    now.as_nanos() as i128 - last >= self.settle.as_nanos() as i128
                });
                if !is_whole || is_hidden(&file.path) {
                    continue;
                }
                let Some(name) = file.path.to_str() else { continue };
                let known = before.remove(name).filter(|known| known.version == file.version);
                let seen = known.unwrap_or_else(|| Seen {
                    version: file.version,
                    bytes: file.bytes,
                    modified_ns: file.modified_ns,
                    since: Instant::now(),
                    standing: Standing::Unsure,
                });
                self.seen.insert(name.to_owned(), seen);
            }
        }
        Ok(())
    }

    /// All that there is.
    pub fn sources(&self) -> Vec<Source> {
        self.those(|_| true)
    }

    /// What the ledger has not been asked for.
    pub fn unsure(&self) -> Vec<Source> {
        self.those(|seen| seen.standing == Standing::Unsure)
    }

    /// Says what is known of the unsure ones, in their order; those whose rows are shown. What somebody has claimed stays
    /// unsure: it may be given up.
    pub fn settle(&mut self, standings: &[Known]) -> Vec<Source> {
        let mut shown = Vec::new();
        let unsure = self.seen.iter_mut().filter(|(_, seen)| seen.standing == Standing::Unsure);
        for ((name, seen), known) in unsure.zip(standings) {
            match known {
                Known::Free => seen.standing = Standing::Waiting,
                Known::Claimed => {}
                Known::Shown => {
                    seen.standing = Standing::Taken;
                    shown.push(Source { name: name.clone(), version: seen.version.clone() });
                }
            }
        }
        shown
    }

    /// What an earlier session took may not have been claimed, or be shown by now.
    pub fn doubt(&mut self) {
        for seen in self.seen.values_mut() {
            seen.standing = Standing::Unsure;
        }
    }

    /// Whether a name is one that these sources give their files.
    pub fn finds(&self, name: &str) -> bool {
        self.sources.iter().any(|source| finds(source, name.as_ref()))
    }

    /// Sources that somebody else was faster to claim.
    pub fn ask_again<'a>(&mut self, sources: impl Iterator<Item = &'a Source>) {
        for source in sources {
            if let Some(seen) = self.seen.get_mut(&source.name) {
                seen.standing = Standing::Unsure;
            }
        }
    }

    pub fn is_waiting(&self) -> bool {
        self.seen.values().any(|seen| seen.standing == Standing::Waiting)
    }

    /// The next batch, where it is time for one: the oldest files first.
    pub fn batch(&mut self, batching: &Batching) -> Option<Vec<Source>> {
        let waiting = self.seen.iter().filter(|(_, seen)| seen.standing == Standing::Waiting);
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort_by(|(one, a), (other, b)| (a.modified_ns, one).cmp(&(b.modified_ns, other)));
        let mut bytes = 0;
        let mut chosen = 0;
        while chosen < waiting.len().min(FILES_MAX) && (chosen == 0 || bytes < batching.bytes) {
            bytes += waiting[chosen].1.bytes;
            chosen += 1;
        }
        let is_full = bytes >= batching.bytes || chosen == FILES_MAX;
        let is_time = waiting.iter().any(|(_, seen)| seen.since.elapsed() >= batching.every);
        if chosen == 0 || !(is_full || is_time || batching.at_once) {
            return None;
        }
        let batch: Vec<Source> = waiting[..chosen]
            .iter()
            .map(|(name, seen)| Source { name: (*name).clone(), version: seen.version.clone() })
            .collect();
        for source in &batch {
            if let Some(seen) = self.seen.get_mut(&source.name) {
                seen.standing = Standing::Taken;
            }
        }
        Some(batch)
    }

    fn those(&self, which: impl Fn(&Seen) -> bool) -> Vec<Source> {
        let those = self.seen.iter().filter(|(_, seen)| which(seen));
        those
            .map(|(name, seen)| Source { name: name.clone(), version: seen.version.clone() })
            .collect()
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(['.', '_']))
}

#[cfg(test)]
mod tests {
    use fullbore_load::job::TableJob;

    use super::*;

    const ANY: Batching = Batching { every: Duration::from_secs(3600), bytes: 100, at_once: false };

    fn watch(folder: &Path) -> Watch {
        let table = TableJob {
            sources: vec![folder.to_str().expect("a path").to_owned()],
            ..TableJob::default()
        };
        let job = Job { tables: vec![table], ..Job::default() };
        Watch::new(&job, Duration::ZERO).expect("a job")
    }

    fn looked(watch: &mut Watch) -> usize {
        watch.look().expect("listed");
        let fresh = watch.unsure().len();
        watch.settle(&vec![Known::Free; fresh]);
        fresh
    }

    #[test]
    fn files_wait_for_others_until_it_is_time_or_they_are_enough() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut watch = watch(folder.path());
        assert_eq!(looked(&mut watch), 0);
        std::fs::write(folder.path().join("a.csv"), "1".repeat(60)).expect("written");
        assert_eq!(looked(&mut watch), 1);
        assert_eq!(watch.batch(&ANY), None);
        assert!(watch.batch(&Batching { every: Duration::ZERO, ..ANY }).is_some());
        assert!(!watch.is_waiting());
        std::fs::write(folder.path().join("b.csv"), "1".repeat(60)).expect("written");
        std::fs::write(folder.path().join("c.csv"), "1".repeat(60)).expect("written");
        std::fs::write(folder.path().join("d.csv"), "1".repeat(60)).expect("written");
        assert_eq!(looked(&mut watch), 3);
        assert_eq!(watch.batch(&ANY).map(|batch| batch.len()), Some(2));
        assert_eq!(watch.batch(&ANY), None);
        assert!(watch.is_waiting());
    }

    #[test]
    fn a_file_that_changed_is_another_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.csv");
        std::fs::write(&file, "1\n").expect("written");
        let mut watch = watch(folder.path());
        assert_eq!(looked(&mut watch), 1);
        assert_eq!(looked(&mut watch), 0);
        std::fs::write(&file, "1\n2\n").expect("written");
        assert_eq!(looked(&mut watch), 1);
        std::fs::write(folder.path().join(".b.csv.part"), "1\n").expect("written");
        assert_eq!(looked(&mut watch), 0);
    }
}
