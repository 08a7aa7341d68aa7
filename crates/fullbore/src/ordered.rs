//! A load whose rows are put in order first. Two runs: one parses the sources and sorts the rows ([`Sorted`]), the other
//! loads what it gives as one stream, so that the table has them in that order.

use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Instant;

use fullbore_load::job::{Count, IfLoaded, Job, RejectLimit, TableJob};
use fullbore_load::plan::{Plan, Planned, TablePlan};
use fullbore_load::run::{self, Outcome};
use fullbore_load::sorted::{SortKey, Sorted};
use fullbore_postgres::encode_copy::TextEncoder;
use fullbore_read::columnar::data::{ArrowData, Registered};
use fullbore_read::error::{Error, Result};
use fullbore_record::ceilings::size_words;
use fullbore_record::terms::{Method, Publish};
use fullbore_server::tuning::free_bytes;

use crate::check::refuse_given;
use crate::destinations::{Destinations, is_server};
use crate::ledger_state::{Decision, LedgerState};
use crate::load::{Audience, LoadOptions, Loaded, Ready, load as load_job, planned};
use crate::{saved, sources};

/// Bytes that rows take in memory, unless the job says.
const MEMORY: u64 = 512_000_000;

/// Where rows are written that do not fit, unless the job or the environment says. Not where a machine may keep
/// files in memory.
const FOLDER: &str = "/var/tmp";

/// Whether rows are to be put in order.
pub fn is_asked(job: &Job) -> bool {
    job.tables.iter().any(|table| !table.order_by.is_empty())
}

/// What a plan says of it.
pub fn notes(job: &Job, plan: &Plan) -> Vec<String> {
    if !is_asked(job) {
        return Vec::new();
    }
    let folder = folder(job);
    let mut notes = vec![format!(
        "rows are put in order first, in {} of memory; what does not fit is written to {}",
        size_words(memory(job)),
        folder.display()
    )];
    let bytes = plan.tables.iter().flat_map(|table| &table.files).map(|file| file.size).sum();
    notes.extend(free_bytes(&folder).and_then(|free| room_words(bytes, free, &folder)));
    notes
}

/// What is said where rows may not fit on the disk that they are sorted on: they take about as much as their files.
fn room_words(bytes: u64, free: u64, folder: &Path) -> Option<String> {
    (free < bytes).then(|| {
        format!(
            "sorting may take {} in {}, which has {} free: --sort-dir names another directory",
            size_words(bytes),
            folder.display(),
            size_words(free)
        )
    })
}

fn memory(job: &Job) -> u64 {
    job.sort_memory.map_or(MEMORY, |size| size.bytes())
}

fn folder(job: &Job) -> PathBuf {
    let of_environment = || std::env::var_os("TMPDIR").map_or_else(|| FOLDER.into(), PathBuf::from);
    job.sort_dir.clone().map_or_else(of_environment, PathBuf::from)
}

/// Refuses what the order can't be kept with.
pub fn check(job: &Job) -> Result<()> {
    if !is_asked(job) {
        let given =
            [(job.sort_memory.is_some(), "--sort-memory"), (job.sort_dir.is_some(), "--sort-dir")];
        return refuse_given(&given, "is for --order-by", "add --order-by, or ");
    }
    if let Some(table) = job.tables.iter().find(|table| table.order_by.is_empty()) {
        return Err(Error::usage_with_hint(
            format!("{}: no order_by, and other tables of the job have one", name(table)),
            "give it one too, or load it by a job of its own",
        ));
    }
    let publishes = |publish| job.tables.iter().any(|table| table.publish == publish);
    let given = [
        (publishes(Publish::Partitions), "--publish partitions"),
        (publishes(Publish::Upsert), "--publish upsert"),
        (job.tables.iter().any(|table| table.partition_by.is_some()), "--partition-by"),
        // It would keep them out only after the rows are sorted.
        (job.lock_writers, "--lock-writers"),
        (job.part.is_some(), "--part"),
        (job.on.is_some(), "--on"),
        (job.write.is_some(), "a write of an engine"),
        // Rows that were sorted are those of no file.
        (job.if_loaded.is_some_and(|policy| policy != IfLoaded::Again), "--if-loaded"),
        (!is_server(job.to.as_deref()), "a destination other than PostgreSQL"),
    ];
    refuse_given(&given, "does not go with --order-by", "omit --order-by, or ")?;
    job.tables.iter().try_for_each(|table| keys(table).map(drop))
}

fn name(table: &TableJob) -> &str {
    table.name.as_deref().or(table.sources.first().map(String::as_str)).unwrap_or_default()
}

fn keys(table: &TableJob) -> Result<Vec<SortKey>> {
    sort_keys(&table.order_by)
}

/// What `--order-by` says, column by column.
pub fn sort_keys(order_by: &[String]) -> Result<Vec<SortKey>> {
    let key = |written: &String| {
        let (column, way) = written.trim().rsplit_once(' ').unwrap_or((written.trim(), "asc"));
        let (column, descends) = match way.to_ascii_lowercase().as_str() {
            "asc" => (column, false),
            "desc" => (column, true),
            _ => (written.trim(), false),
        };
        match column.trim() {
            "" => Err(Error::usage_with_hint(
                format!("--order-by {written:?} names no column"),
                "write --order-by COLUMN, or --order-by \"COLUMN desc\"",
            )),
            column => Ok(SortKey { column: column.to_owned(), descends }),
        }
    };
    order_by.iter().map(key).collect()
}

/// Sorts and loads.
pub fn load(job: &Job, options: &LoadOptions, audience: &dyn Audience) -> Result<Loaded> {
    let given = [(options.resume, "--resume"), (options.run.is_some(), "a run to resume")];
    refuse_given(&given, "does not go with --order-by", "load again from the start, or ")?;
    let opened = sources::open(job)?;
    let processors = available_parallelism().map_or(1, usize::from);
    let one_each = |count| match count {
        Count::Auto => Count::Fixed(processors),
        fixed => fixed,
    };
    // All streams sort, also where one session loads. More of them than processors would share the memory only.
    let parsing = Job {
        method: Method::Copy,
        streams: one_each(job.streams),
        // Nothing is sent yet.
        max_rate: None,
        ..opened.job.clone()
    };
    let Begun { ready, sorted, since } = begin(&parsing, options, audience)?;
    let plan = ready.plan;
    audience.begins(&plan, false)?;
    let began = Instant::now();
    let outcome = match run::run(&plan, &sorted, &ready.recorder, &options.interrupted) {
        Ok(outcome) => outcome,
        Err(failure) => return Ok(Loaded::Failed { plan, failure }),
    };
    // All rows are here: a snapshot that they were read under can end.
    drop(opened);
    audience.note(&words(&plan, &sorted, began.elapsed().as_secs_f64()), None);
    let mut held = Vec::new();
    let mut tables = Vec::new();
    for (number, (table, planned)) in job.tables.iter().zip(&plan.tables).enumerate() {
        let rows = ArrowData::stream(sorted.merged(planned, number)?);
        let order = table.order_by.join(", ");
        let told = format!("{} in order of {order}", planned.name);
        let source =
            Registered::new("sorted", &format!("{}-{number}", plan.run_id), rows.called(&told));
        let loading = loading(table, planned, source.uri(), &job.max_rejects);
        tables.push(TableJob { since: since[number].clone(), ..loading });
        held.push(source);
    }
    let loading = Job {
        tables,
        // One session: others would write between its rows.
        streams: Count::Fixed(1),
        parsers: one_each(job.parsers),
        max_rejects: RejectLimit::default(),
        sort_memory: None,
        sort_dir: None,
        ..job.clone()
    };
    let loaded = load_job(&loading, options, audience)?;
    drop(held);
    Ok(together(outcome, loaded))
}

/// The run that sorts, before it does.
struct Begun {
    ready: Ready,
    sorted: Sorted,
    /// What was known of tables that are replaced.
    since: Vec<Option<String>>,
}

/// Begins the run that sorts.
fn begin(job: &Job, options: &LoadOptions, audience: &dyn Audience) -> Result<Begun> {
    let to = Destinations::open(job, &|warning| audience.warn(warning))?;
    let mut state = LedgerState::ask(job, to.server(), false)?;
    let decision = Decision::Begin { notes: Vec::new() };
    let Planned { mut plan, statements, .. } = planned(job, &to, options, &mut state, &decision)?;
    // Nothing of it is in the database, which so can't refuse a row either.
    plan.continuity.is_resumable = false;
    for table in &mut plan.tables {
        table.is_constrained = false;
    }
    // What others write from here on is not in the rows that are read.
    let since = job.tables.iter().zip(&plan.tables).map(|(table, planned)| match to.server() {
        Some(server) if table.publish == Publish::Replace => server.known_now(&planned.name),
        _ => Ok(None),
    });
    let since = since.collect::<Result<Vec<_>>>()?;
    let keys = job.tables.iter().map(keys).collect::<Result<Vec<_>>>()?;
    let sorted = Sorted::new(folder(job), memory(job), keys, || Box::new(TextEncoder::default()));
    let ready = Ready::new(plan, job, saved::Way::default(), &statements, options, audience)?;
    Ok(Begun { ready, sorted, since })
}

fn words(plan: &Plan, sorted: &Sorted, seconds: f64) -> String {
    let extents = (0..plan.tables.len()).map(|table| sorted.extent(table));
    let (rows, bytes, runs) = extents.fold((0, 0, 0), |(rows, bytes, runs), extent| {
        (rows + extent.rows, bytes + extent.spilled, runs + extent.runs)
    });
    let runs = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
    format!("{rows} rows sorted in {seconds:.1} s: {runs}, {} on disk", size_words(bytes))
}

/// What is asked of the table whose rows are sorted: nothing more that is about its files.
fn loading(
    table: &TableJob,
    planned: &TablePlan,
    source: &str,
    max_rejects: &RejectLimit,
) -> TableJob {
    let types = planned
        .columns
        .iter()
        .filter(|column| planned.shape.columns.iter().any(|sent| sent.name == column.name));
    let is_typed = table.create && table.schema_file.is_none();
    TableJob {
        name: Some(planned.name.clone()),
        sources: vec![source.to_owned()],
        publish: table.publish,
        keep_old: table.keep_old,
        // As it is where rows may be rejected.
        atomic: table.atomic || table.publish == Publish::Append && max_rejects.allows_any(),
        columns: Some(planned.shape.columns.iter().map(|column| column.name.clone()).collect()),
        create: table.create,
        schema_file: table.schema_file.clone(),
        control: planned.controls.iter().map(ToString::to_string).collect(),
        types: match is_typed {
            true => types.map(|column| format!("{}={}", column.name, column.type_name)).collect(),
            false => Vec::new(),
        },
        ..TableJob::default()
    }
}

/// What both runs came to: the rows of the second, from the sources of the first.
fn together(sorting: Outcome, mut loaded: Loaded) -> Loaded {
    let outcome = match &mut loaded {
        Loaded::Finished { outcome, .. } => outcome.as_mut(),
        Loaded::Failed { failure, .. } => &mut failure.outcome,
        Loaded::Before { .. } => return loaded,
    };
    outcome.rejected += sorting.rejected;
    outcome.bytes = sorting.bytes;
    outcome.seconds += sorting.seconds;
    let mut rejects = sorting.reject_files;
    rejects.append(&mut outcome.reject_files);
    outcome.reject_files = rejects;
    let sorted = sorting.phases.iter().find(|phase| phase.name == "load");
    for phase in outcome.phases.iter_mut().filter(|phase| phase.name == "load") {
        phase.seconds += sorted.map_or(0.0, |phase| phase.seconds);
    }
    for (table, its) in outcome.tables.iter_mut().zip(&sorting.tables) {
        table.rejected += its.rejected;
        table.bytes = its.bytes;
        table.counts = its.counts;
    }
    loaded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_too_small_to_sort_is_told_before() {
        let words = |bytes, free| room_words(bytes, free, Path::new("/var/tmp"));
        assert_eq!(words(10_000_000, 10_000_000), None);
        let said = words(4_400_000_000_000, 25_300_000_000).expect("words");
        assert!(said.starts_with("sorting may take 4.4 TB in /var/tmp, which has 25.3 GB free"));
    }
}
