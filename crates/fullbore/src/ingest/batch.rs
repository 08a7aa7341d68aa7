//! One batch: an ordinary load into the batch's own table.

use std::collections::VecDeque;
use std::path::PathBuf;

use fullbore_load::job::{Count, IfLoaded};
use fullbore_postgres::levels::batches::Batch;
use fullbore_read::error::Result;
use fullbore_record::terms::Publish;

use super::Ingest;
use crate::load::{Audience, LoadOptions, Loaded, load};

/// Sessions of a batch, where nothing else is said: one alone fills a table in the transaction that makes it, so that its
/// rows are frozen, and its pages not logged where the server allows that. Pages of small batches are then written once.
const STREAMS: usize = 1;
/// Records of so many batches are kept, and of all that have rejects.
const RECORDS_MAX: usize = 100;

/// A batch whose rows are loaded.
#[derive(Debug, Clone, Default)]
pub struct LoadedBatch {
    pub number: u64,
    pub files: usize,
    pub rows: u64,
    pub rejected: u64,
    pub bytes: u64,
    pub seconds: f64,
    pub run_id: String,
    /// What held the load back, by its identifier.
    pub limit: Option<String>,
    /// The folder of its record.
    record: Option<PathBuf>,
}

/// Loads the files of a batch into its table, or what is missing of them.
pub fn load_batch(
    asked: &Ingest,
    leaf: &str,
    batch: &Batch,
    options: &LoadOptions,
    audience: &dyn Audience,
) -> Result<LoadedBatch> {
    let mut job = asked.job.clone();
    // Nobody reads the table yet, and nobody else loads these files.
    job.if_loaded = Some(IfLoaded::Again);
    if job.streams == Count::Auto {
        // A batch is over before more or fewer could be tried.
        job.streams = Count::Fixed(STREAMS);
    }
    for table in &mut job.tables {
        table.name = Some(leaf.to_owned());
        table.sources = batch.sources.iter().map(|source| source.name.clone()).collect();
        // Rows of a key are the last one's within the batch as well.
        (table.publish, table.key) = match asked.key.is_empty() {
            true => (Publish::Replace, Vec::new()),
            false => (Publish::Upsert, asked.key.clone()),
        };
        table.create = false;
        table.schema_file = None;
    }
    let options = LoadOptions {
        resume: true,
        run: None,
        reject_dir: options.reject_dir.clone(),
        ceilings: options.ceilings.clone(),
        whole: None,
        take_over: false,
        interrupted: options.interrupted.clone(),
    };
    let told =
        LoadedBatch { number: batch.number, files: batch.sources.len(), ..LoadedBatch::default() };
    match load(&job, &options, audience)? {
        Loaded::Finished { plan, outcome, .. } => Ok(LoadedBatch {
            rows: outcome.rows,
            rejected: outcome.rejected,
            bytes: outcome.bytes,
            seconds: outcome.seconds,
            run_id: plan.run_id.clone(),
            limit: outcome.verdict.as_ref().map(|(verdict, _)| verdict.limit.name().to_owned()),
            record: Some(plan.run_dir.clone()),
            ..told
        }),
        Loaded::Before { run, .. } => Ok(LoadedBatch {
            rows: run.rows,
            rejected: run.rejected,
            bytes: run.bytes,
            run_id: run.run_id,
            ..told
        }),
        Loaded::Failed { failure, .. } => Err(failure.error),
    }
}

/// The records of batches, which must not fill the disk.
#[derive(Default)]
pub struct Keeping {
    records: VecDeque<PathBuf>,
}

impl Keeping {
    pub fn loaded(&mut self, batch: &LoadedBatch) {
        let Some(record) = batch.record.clone().filter(|_| batch.rejected == 0) else { return };
        self.records.push_back(record);
        while self.records.len() > RECORDS_MAX {
            if let Some(old) = self.records.pop_front() {
                // Somebody may have removed it.
                let _ = std::fs::remove_dir_all(old);
            }
        }
    }
}
