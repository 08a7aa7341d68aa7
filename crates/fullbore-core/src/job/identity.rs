//! What makes a job the same job: what is loaded and where to, not how fast.

use sha2::{Digest, Sha256};

use super::Job;
use crate::error::{Error, Result};

impl Job {
    /// The job with all its paths absolute, so that it means the same in any folder.
    pub fn with_absolute_paths(mut self) -> Result<Self> {
        for table in &mut self.tables {
            for source in table.sources.iter_mut().filter(|source| *source != "-") {
                *source = absolute(source)?;
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
    pub fn identity(&self) -> Result<String> {
        let job = self.clone().with_absolute_paths()?;
        let text = serde_json::to_vec(&job.tables).expect("plain data becomes JSON");
        let hash = Sha256::digest(&text);
        Ok(hash.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

fn absolute(path: &str) -> Result<String> {
    let absolute =
        std::path::absolute(path).map_err(|source| Error::Read { path: path.into(), source })?;
    Ok(absolute.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::{Count, Publish, TableJob};
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
}
