//! `fullbore ingest`.

mod args;
mod figures;

use std::sync::Arc;
use std::time::Duration;

use fullbore::check::{refuse_databases, refuse_given};
use fullbore::ingest::{After, Duty, Ingest, LoadedBatch, Progress, ingest};
use fullbore::{Audience, Ended};
use fullbore_load::job::Job;
use fullbore_load::plan::Plan;
use fullbore_postgres::levels::policy::Policy;
use fullbore_read::error::{Error, Result};
use fullbore_record::Listener;
use fullbore_record::terms::Publish;
use fullbore_report::live::Plain;

use crate::load::job::job_of;
use crate::load::options::{Reporting, load_options};
use crate::load::signals::{listen_for_signals, say_at_once};
use crate::load::{LoadArgs, fail};
use crate::log_file;
use crate::words::{bytes, complain, counted, print_json, seconds, warn};
pub use args::IngestArgs;
use figures::Figures;

const EVERY: Duration = Duration::from_secs(10);
const SETTLE: Duration = Duration::from_secs(2);
const BATCH_BYTES: u64 = 256_000_000;
/// With those that are being loaded and merged these are about 15: more, and queries by an index pay for each (see
/// docs/guides/ingest.md).
const PARTS_MAX: u8 = 12;
/// The same where rows are dropped once they are old: as many are kept besides, of stretches that are over.
const PARTS_MAX_KEPT: u8 = 9;
/// Stretches of time, each of which is dropped as a whole.
const STRETCHES: i64 = 4;

pub fn run(args: &IngestArgs) -> Ended {
    let reporting = Reporting::of(&args.load);
    let done = asked(args).and_then(|asked| {
        if let Some(path) = &reporting.log_file {
            log_file::open(path)?;
        }
        listen_for_signals();
        say_at_once(
            "batches that were begun are finished by the next `fullbore ingest` of this table",
        );
        let terminal = Terminal { reporting: &reporting, figures: Arc::default() };
        let served = args.listen.as_deref().map(|at| serve(at, &terminal)).transpose()?;
        let done = ingest(&asked, &load_options(&args.load), &terminal, &terminal);
        served.into_iter().for_each(Plain::finish);
        done
    });
    match done {
        Ok(()) => Ended::Loaded,
        Err(Error::Interrupted) => Ended::Stopped,
        Err(error) if is_refusal(&error) => fail(&reporting, &error),
        Err(error) => {
            complain(&error.to_string(), error.hint());
            Ended::Stopped
        }
    }
}

fn serve(listen: &str, terminal: &Terminal<'_>) -> Result<Plain> {
    let served = Plain::start(listen, terminal.figures.clone()).map_err(|error| {
        Error::usage_with_hint(error.to_string(), error.hint().unwrap_or_default())
    })?;
    if !terminal.reporting.quiet {
        tell!("figures: http://{}/metrics", served.address());
    }
    Ok(served)
}

fn is_refusal(error: &Error) -> bool {
    use fullbore_read::error::DestinationFailure::Refused;
    matches!(error, Error::Usage { .. } | Error::Destination { kind: Refused, .. })
}

fn asked(args: &IngestArgs) -> Result<Ingest> {
    let load = &args.load;
    let publish = load.publish.is_some_and(|publish| publish != Publish::Append);
    let given = [
        (publish, "--publish"),
        (load.resume, "--resume"),
        (load.dry_run, "--dry-run"),
        (load.live.is_some(), "--live"),
    ];
    refuse_given(&given, WITHOUT_END, INSTEAD)?;
    // Each batch is merged by its key within itself.
    let publish = if load.key.is_empty() { None } else { Some(Publish::Upsert) };
    let mut job = job_of(&LoadArgs { publish, ..load.clone() })?;
    refuse_databases(&job)?;
    if job.tables.len() != 1 {
        return Err(Error::usage_with_hint(
            "fullbore ingest loads into one table",
            "start one for each table",
        ));
    }
    check_job(&job)?;
    job.tables[0].publish = Publish::Append;
    // Batches are not sorted, but merged in this order.
    let order_by = std::mem::take(&mut job.tables[0].order_by);
    let key = std::mem::take(&mut job.tables[0].key);
    if !key.is_empty() && !order_by.is_empty() {
        return Err(Error::usage_with_hint(
            "rows of merged partitions are in the order of their key",
            "omit --order-by, or --key",
        ));
    }
    let keep_s = args.keep.map(|keep| i64::try_from(keep.as_secs()).unwrap_or(i64::MAX));
    let after = match (&args.archive, args.delete) {
        (Some(folder), _) => After::Archive(folder.clone()),
        (None, true) => After::Delete,
        (None, false) => After::Keep,
    };
    Ok(Ingest {
        job,
        every: args.every.unwrap_or(EVERY),
        batch_bytes: args.batch_bytes.map_or(BATCH_BYTES, |size| size.bytes()),
        batch_rows: args.batch_rows,
        settle: args.settle.unwrap_or(SETTLE),
        after,
        keep: args.keep,
        order_by,
        key,
        policy: Policy {
            parts_max: usize::from(args.partitions.unwrap_or(match keep_s {
                Some(_) => PARTS_MAX_KEPT,
                None => PARTS_MAX,
            })),
            stretch_s: keep_s.map(|keep| (keep / STRETCHES).max(1)),
        },
        adopt: args.adopt,
        once: args.once,
        forget: args.forget.clone(),
        replays: args.replay,
    })
}

/// Why an option is refused, and what there is instead.
const WITHOUT_END: &str = "is not for batches without end";
const INSTEAD: &str = "use `fullbore load`, or ";

/// What a job may ask for, and batches without end do not have.
fn check_job(job: &Job) -> Result<()> {
    let table = &job.tables[0];
    let publishes = table.publish != Publish::Append && table.key.is_empty();
    let given = [
        (publishes, "--publish"),
        (table.atomic, "--atomic"),
        (table.query.is_some(), "--query"),
        (!table.control.is_empty(), "--control"),
        (table.partition_by.is_some(), "--partition-by"),
        (table.on_conflict.is_some(), "--on-conflict"),
        (table.delete_missing, "--delete-missing"),
        (job.if_loaded.is_some(), "--if-loaded"),
        (job.no_ledger, "--no-ledger"),
        (job.part.is_some(), "--part"),
        (job.on.is_some(), "--on"),
        (job.sort_memory.is_some(), "--sort-memory"),
        (job.sort_dir.is_some(), "--sort-dir"),
    ];
    refuse_given(&given, WITHOUT_END, INSTEAD)
}

/// Tells people at a terminal, or programs line by line.
struct Terminal<'a> {
    reporting: &'a Reporting,
    figures: Arc<Figures>,
}

impl Terminal<'_> {
    fn say(&self, event: &str, words: String, mut data: serde_json::Value) {
        tracing::info!("{words}");
        if self.reporting.json {
            data["event"] = event.into();
            print_json(&data);
        } else if !self.reporting.quiet {
            tell!("{words}");
        }
    }
}

impl Progress for Terminal<'_> {
    fn begins(&self, table: &str) {
        self.figures.begins(table);
        self.say(
            "begins",
            format!("ingesting into {table}"),
            serde_json::json!({ "table": table }),
        );
    }

    fn loaded(&self, batch: &LoadedBatch) {
        self.figures.loaded(batch);
        let rejected = match batch.rejected {
            0 => String::new(),
            some => format!(", {} rejected", counted(some, "row")),
        };
        let words = format!(
            "batch {}: {}, {}{rejected}, {} in {}",
            batch.number,
            counted(batch.files as u64, "file"),
            counted(batch.rows, "row"),
            bytes(batch.bytes),
            seconds(batch.seconds)
        );
        let data = serde_json::json!({
            "batch": batch.number,
            "files": batch.files,
            "rows": batch.rows,
            "rejected": batch.rejected,
            "bytes": batch.bytes,
            "seconds": batch.seconds,
            "run_id": batch.run_id,
            "limit": batch.limit,
        });
        self.say("loaded", words, data);
    }

    fn merged(&self, parts: usize, rows: u64, left: usize, took: Duration) {
        self.figures.merged(rows, left);
        let words = format!(
            "merged {} into one of {} in {}; {}",
            counted(parts as u64, "partition"),
            counted(rows, "row"),
            seconds(took.as_secs_f64()),
            counted(left as u64, "partition")
        );
        let data = serde_json::json!({
            "partitions": parts, "rows": rows, "left": left, "seconds": took.as_secs_f64()
        });
        self.say("merged", words, data);
    }

    fn expired(&self, rows: u64) {
        self.figures.expired(rows);
        let words = format!("dropped {} older than --keep", counted(rows, "row"));
        self.say("expired", words, serde_json::json!({ "rows": rows }));
    }

    fn left_out(&self, count: u64) {
        warn(&format!(
            "the sender ended within a record: its {} are left out",
            counted(count, "byte")
        ));
    }

    fn trouble(&self, of: Duty, error: &Error) {
        self.figures.failed(of);
        warn(&error.to_string());
    }

    fn rests(&self, of: Duty) {
        self.figures.recovered(of);
    }
}

impl Audience for Terminal<'_> {
    fn warn(&self, words: &str) {
        warn(words);
    }

    fn note(&self, words: &str, _: Option<&str>) {
        tracing::info!("{words}");
    }

    fn planned(&self, _: &Plan) -> Option<Listener> {
        None
    }

    fn begins(&self, _: &Plan, _: bool) -> Result<()> {
        Ok(())
    }
}
