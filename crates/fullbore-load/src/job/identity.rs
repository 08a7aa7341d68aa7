//! What makes a job the same job: what is loaded and where to, not how fast.

use std::path::Path;

use fullbore_read::discover;
use fullbore_read::error::{Error, Result};
use sha2::{Digest, Sha256};

use super::{Job, Write};

impl Job {
    /// The job with all its paths absolute, so that it means the same in any folder.
    pub fn with_absolute_paths(mut self) -> Result<Self> {
        for table in &mut self.tables {
            for source in table.sources.iter_mut().filter(|source| *source != "-") {
                *source = absolute(source)?;
            }
            for source in table.lookups.iter_mut().flat_map(|lookup| &mut lookup.sources) {
                *source = absolute(source)?;
            }
            for control in table.control.iter_mut().filter(|control| !control.contains('=')) {
                *control = absolute(control)?;
            }
            if let Some(file) = &mut table.schema_file {
                *file = absolute(file)?;
            }
        }
        Ok(self)
    }

    /// A hash of the job: of its tables and sources, and of how they are read and published. Left
    /// out is what may change when a run is resumed: streams and parsers, the method, limits, and
    /// the way to the server, where the ledger itself is. Two jobs that differ in nothing else are
    /// one. Sources count with their absolute paths.
    ///
    /// A part of a load is told by its number: which files it has is compared when it is resumed.
    pub fn identity(&self) -> Result<String> {
        if let Some(write) = &self.write {
            return Ok(Write::identity(&write.id));
        }
        if let Some(part) = self.part {
            return Ok(hash_of(format!("{} part {part}", self.shared_identity()).as_bytes()));
        }
        let job = self.clone().with_absolute_paths()?;
        Ok(hash_of(&serde_json::to_vec(&job.tables).expect("plain data becomes JSON")))
    }

    /// What all parts of a load have in common: everything but their files.
    pub fn shared_identity(&self) -> String {
        let mut tables = self.tables.clone();
        tables.iter_mut().for_each(|table| table.sources.clear());
        hash_of(&serde_json::to_vec(&tables).expect("plain data becomes JSON"))
    }
}

pub(super) fn hash_of(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn absolute(path: &str) -> Result<String> {
    let absolute = discover::absolute(Path::new(path))
        .map_err(|source| Error::Read { path: path.into(), source })?;
    Ok(absolute.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use fullbore_record::terms::Publish;

    use super::super::{Count, TableJob};
    use super::*;

    fn job(source: &str) -> Job {
        let table = TableJob { sources: vec![source.into()], ..TableJob::default() };
        Job { tables: vec![table], ..Job::default() }
    }

    #[test]
    fn how_fast_does_not_make_another_job_what_and_where_do() {
        let identity = |job: &Job| job.identity().expect("the folder is known");
        let one = job("a*.csv");
        let mut same = one.clone();
        (same.streams, same.to) = (Count::Fixed(3), Some("postgresql://ann:secret@db/x".into()));
        assert_eq!(identity(&same), identity(&one));
        let here = std::env::current_dir().expect("a folder").join("a*.csv");
        assert_eq!(identity(&job(here.to_str().expect("UTF-8"))), identity(&one));
        assert_ne!(identity(&job("/other/a*.csv")), identity(&one));
        let mut other = one.clone();
        other.tables[0].publish = Publish::Replace;
        assert_ne!(identity(&other), identity(&one));
    }

    #[test]
    fn what_is_not_asked_for_does_not_make_another_job() {
        let mut job = job("/a.csv");
        let written = |job: &Job| serde_json::to_value(&job.tables[0]).expect("plain data");
        assert_eq!(written(&job)["null"], serde_json::Value::Null);
        for key in ["quotes", "line_end", "ragged", "comment", "skip_lines", "skip_footer"] {
            assert!(written(&job).get(key).is_none(), "{key}");
        }
        for nulls in [vec![], vec!["NA"], vec!["NA", "-"]] {
            job.tables[0].null = nulls.into_iter().map(str::to_owned).collect();
            let back: TableJob = serde_json::from_value(written(&job)).expect("read again");
            assert_eq!(back, job.tables[0]);
        }
        assert_eq!(written(&job)["null"], serde_json::json!(["NA", "-"]));
        job.tables[0].null.truncate(1);
        assert_eq!(written(&job)["null"], "NA", "as it was written before there were several");
    }

    #[test]
    fn parts_have_all_but_their_files_in_common() {
        let part = |source: &str, part: &str| Job {
            part: Some(part.parse().expect("a part")),
            ..job(source)
        };
        let (one, two) = (part("a.csv", "1/2"), part("b.csv", "2/2"));
        assert_eq!(one.shared_identity(), two.shared_identity());
        let identity = |job: &Job| job.identity().expect("the folder is known");
        assert_ne!(identity(&one), identity(&two));
        assert_eq!(identity(&one), identity(&part("c.csv", "1/2")));
        assert_ne!(identity(&one), identity(&part("a.csv", "1/3")));
    }
}
