//! From a job to a plan: sources are looked at, targets described, work is cut.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fullbore_parse::Lane;
use fullbore_parse::types::FieldType;
use fullbore_read::constants::{MAX_FIELD_BYTES_DEFAULT, MAX_FIELD_BYTES_LIMIT};
use fullbore_read::content::{Budget, Content};
use fullbore_read::error::{Error, Result};
use fullbore_read::{SourceFile, StoreOptions};
use fullbore_record::terms::{Method, Publish, Verify};

use super::partitions::slots::{PartitionTarget, check_partition_options};
use super::recorded::Recorded;
use super::schema::{Schema, creation, guessed_types, guesses, inferred_columns};
use crate::constants::FINER_FOR_AUTO;
use crate::job::{Count, Job, TableJob};
use crate::plan::columns::{Shapes, match_columns};
use crate::plan::controls::controls;
use crate::plan::draft::Draft;
use crate::plan::header::settle;
use crate::plan::lineage::Lineage;
use crate::plan::look::{Sources, look};
use crate::plan::pieces::{Cuts, PieceSizes, arrange, cut as cut_sources, joined, sampled};
use crate::plan::streams::{Streams, streams_of};
use crate::plan::transform::{self, lookups};
use crate::plan::{Continuity, Plan, PlannedPiece, TablePlan, Tuning};
use crate::run_id::RunId;
use crate::target::{Choice, TableRequest, Target, TargetTable, Wanted};

/// Where a run keeps what it writes on this machine.
#[derive(Debug, Clone)]
pub struct Folders {
    /// A folder in it for each run.
    pub runs: PathBuf,
    pub rejects: PathBuf,
}

/// How a table of the run, by its number, differs from what it was as the run began.
pub type TargetChange<'a, T> = &'a dyn Fn(usize, &T) -> Option<String>;

/// A run that is gone on with.
pub struct Earlier<'a, T> {
    pub recorded: Recorded,
    /// Of each table, whether its rows are shown at once.
    pub atomic: Vec<bool>,
    pub target_change: TargetChange<'a, T>,
}

impl<T> Earlier<'_, T> {
    /// Refuses to resume where a table, planned anew, does not come out as it was.
    fn check(&self, number: usize, table: &TablePlan, target: Option<&T>) -> Result<()> {
        match target.and_then(|target| (self.target_change)(number, target)) {
            Some(change) => Err(self.recorded.refusal(&format!("the target changed: {change}"))),
            None => self.recorded.check(number, table),
        }
    }

    /// How a table was loaded, and whether at once.
    fn table(&self, number: usize) -> Option<(Method, bool)> {
        let table = self.recorded.tables.get(number)?;
        Some((table.method, self.atomic.get(number).copied().unwrap_or(false)))
    }
}

/// Drafts the plan; nothing is touched. Without a server the columns are inferred. Of a run that goes
/// on, the cuts are taken as they were, and all else must come out as it was.
pub fn assemble<T: Target>(
    job: &Job,
    target: Option<&T>,
    folders: Folders,
    earlier: Option<Earlier<'_, T::Table>>,
) -> Result<Draft<T::Table>> {
    let Streams { count: streams, most, note: crowded } = streams_of(job, target)?;
    let parsers = match job.parsers {
        Count::Fixed(parsers) => parsers,
        Count::Auto => std::thread::available_parallelism().map_or(2, usize::from).min(streams),
    };
    // Parts of a load would each judge what the others do to it.
    // And of a load that gives way no number of streams says anything.
    let is_tuned =
        job.streams == Count::Auto && job.part.is_none() && !job.polite && target.is_some();
    let tuning = Tuning {
        first: streams,
        first_parsers: parsers,
        most,
        parsers: job.parsers == Count::Auto,
        is_known: false,
    };
    let max_field_bytes = job.max_field_bytes.unwrap_or(MAX_FIELD_BYTES_DEFAULT);
    if max_field_bytes > MAX_FIELD_BYTES_LIMIT {
        return Err(Error::usage(format!(
            "--max-field-bytes can be at most {MAX_FIELD_BYTES_LIMIT}, COPY's own limit"
        )));
    }
    let run_id = match &earlier {
        Some(earlier) => earlier.recorded.run_id.clone(),
        None => RunId::draw()?.into(),
    };
    let loaded_at = now_unix_us();
    let mut tables = Vec::new();
    let mut targets = Vec::new();
    let mut statements = Vec::new();
    let mut pieces = Vec::new();
    let mut not_resumable = None;
    let replaced: Vec<String> = replaced_by(job);
    for (number, table_job) in job.tables.iter().enumerate() {
        let then = earlier.as_ref().and_then(|earlier| earlier.table(number));
        // Another method would need other pieces.
        let method = then.map_or(method_of(job, table_job), |(method, _)| method);
        let wanted = Wanted { method, compress: job.compress, io: job.direct_io };
        // A limit is for all rows of a run: none is shown before it is known to hold.
        let must_hold = job.max_rejects.allows_any() || !table_job.control.is_empty();
        let is_limited = table_job.publish == Publish::Append && must_hold;
        let atomic = match then {
            Some((_, is_atomic)) => is_atomic,
            None => table_job.atomic || is_limited && target.is_some(),
        };
        let asked = table_job.asked();
        let table_job = TableJob { atomic, ..table_job.clone() };
        // More streams than it begins with need more pieces; but a partition is a piece.
        let is_cut_finer = is_tuned && table_job.publish != Publish::Partitions;
        let sizes = PieceSizes {
            streams: if is_cut_finer { most.min(FINER_FOR_AUTO * streams) } else { streams },
            record_bytes_max: max_field_bytes,
            wanted: job.piece_size,
            least: target.map_or(0, Target::piece_bytes_least),
            sample: job.sample,
        };
        let (verify, store) = (job.verify, &job.store);
        let run = Run { id: &run_id, loaded_at, verify, sizes, store, replaced: &replaced };
        let cut = Cut { is_made: earlier.is_some(), is_part: job.part.is_some() };
        let mut made = assemble_table(table_job, number, wanted, target, cut, run)?;
        made.plan.asked = asked;
        if let Some(earlier) = &earlier {
            earlier.check(number, &made.plan, made.target.as_ref())?;
            earlier.recorded.go_on_with(number, &mut made.plan);
        }
        if let (Some(table), Some(target), None) = (&made.target, target, &not_resumable) {
            let reason = target.not_resumable(table)?;
            not_resumable = reason.map(|reason| (made.plan.name.clone(), reason));
        }
        tables.push(made.plan);
        statements.push(made.statement);
        targets.extend(made.target);
        pieces.extend(made.pieces);
    }
    if let Some(table) = tables.first_mut() {
        table.notes.extend(crowded);
    }
    let plan = Plan {
        run_dir: folders.runs.join(&run_id),
        run_id,
        tables,
        pieces: match earlier {
            Some(earlier) => earlier.recorded.pieces,
            None => arrange(pieces, job.tables_at_once),
        },
        streams,
        parsers,
        tuning: is_tuned.then_some(tuning),
        max_rate: job.max_rate,
        max_rejects: job.max_rejects,
        max_field_bytes,
        reject_dir: folders.rejects,
        tables_at_once: job.tables_at_once,
        continuity: Continuity::default(),
        verify: job.verify,
        placement: job.placement,
        is_polite: job.polite,
        compress: job.compress,
        statistics: job.statistics,
        ceilings: None,
        destination: String::new(),
    };
    Ok(Draft { plan, targets, statements, not_resumable })
}

/// The tables that are replaced together; none where they are kept, which foreign keys would tie to each other.
fn replaced_by(job: &Job) -> Vec<String> {
    let replaced = job.tables.iter().filter(|table| table.publish == Publish::Replace);
    if replaced.clone().any(|table| table.keep_old) {
        return Vec::new();
    }
    replaced.filter_map(|table| table.name.clone()).collect()
}

/// A replacement that several hosts fill can't be filled directly.
fn method_of(job: &Job, table: &TableJob) -> Method {
    let is_shared = job.part.is_some() && table.publish == Publish::Replace;
    if is_shared && job.method == Method::Auto { Method::Copy } else { job.method }
}

/// What decides how a table's sources are cut.
#[derive(Clone, Copy)]
struct Cut {
    /// They were cut before: the run goes on.
    is_made: bool,
    /// Other hosts load other files of the same load.
    is_part: bool,
}

struct AssembledTable<T> {
    plan: TablePlan,
    target: Option<T>,
    statement: Option<String>,
    pieces: Vec<PlannedPiece>,
}

/// What the tables of a run have in common.
#[derive(Clone, Copy)]
struct Run<'a> {
    id: &'a str,
    /// Microseconds since 1970 UTC.
    loaded_at: i64,
    verify: Verify,
    sizes: PieceSizes,
    /// How object stores are reached.
    store: &'a StoreOptions,
    /// The tables that are replaced.
    replaced: &'a [String],
}

fn assemble_table<T: Target>(
    mut job: TableJob,
    number: usize,
    wanted: Wanted,
    asked: Option<&T>,
    cut: Cut,
    run: Run<'_>,
) -> Result<AssembledTable<T::Table>> {
    let Cut { is_made: is_cut, is_part } = cut;
    let mut sources = look(&job, run.store)?;
    sources.lookups = lookups::read(&job, run.store, asked)?;
    // No row is seen before all of them were read.
    let is_hidden = asked.is_none() || job.publish != Publish::Append || job.atomic;
    for file in sources.files.iter_mut().filter(|file| file.object.is_some()) {
        Arc::make_mut(file).is_guessed = is_hidden && !job.scan_quotes;
    }
    let name = match &job.name {
        Some(name) => name.clone(),
        None if sources.files[0].arrow.is_some() => {
            let words = "Arrow data has no file name to name the table after";
            return Err(Error::usage_with_hint(words, "name the table with --table"));
        }
        None => name_of(&sources.files[0].path)?,
    };
    job.name = Some(name.clone());
    if asked.is_some() && job.publish.joins_rows() && !is_cut {
        // Before a row moves: the ledger knows them again by it.
        let mut budget = Budget::of_table();
        for file in &mut sources.files {
            let content = Content::of(file, &mut budget)?;
            Arc::make_mut(file).content = content;
        }
    }
    let mut schema = Schema::default();
    let (columns, mut target, statement) = match asked {
        Some(asked) => {
            if !is_cut && job.create {
                check_not_made(&job, asked)?;
            }
            let target = describe(
                &job,
                &mut sources,
                (wanted.method, is_cut, run.replaced),
                asked,
                &mut schema,
            )?;
            if is_cut && target.create().is_none() {
                // Of a table that the run made before, the types are guesses still.
                guesses(&job, &sources, target.columns(), &mut schema)?;
            }
            let statement = target.create().map(str::to_owned);
            (target.columns().to_vec(), Some(target), statement)
        }
        None => {
            settle(&job, &mut sources, None)?;
            (inferred_columns(&job, &sources, &mut schema)?, None, None)
        }
    };
    let routes_rows = asked.is_some_and(Target::routes_rows);
    check_partition_options(&job, routes_rows)?;
    let controls = controls(&job, &sources)?;
    let transformed =
        transform::asked::asked(&job, &sources, Some(&columns), run.loaded_at, &guessed_types)?;
    let judges = asked.is_some_and(Target::judges);
    let mut shapes =
        match_columns(&job, &sources, &columns, &schema.inferred, transformed, judges)?;
    if run.verify == Verify::Full && asked.is_some() {
        sum_by_server(&mut shapes);
    }
    let Cuts { mut pieces, piece_bytes, joints } = match is_cut {
        true => Cuts { piece_bytes: run.sizes.of_streams(), ..Cuts::default() },
        false => cut_sources(&sources.files, &sources.format, number, run.sizes)?,
    };
    let choice = match (&mut target, asked) {
        (Some(target), Some(asked)) => asked.choose(target, wanted, &shapes)?,
        _ => Choice { method: Method::Copy, reason: "there is no server".into() },
    };
    // Partitions are cut along keys first.
    let becomes_partitions = job.publish == Publish::Partitions && asked.is_some() && !routes_rows;
    if let (Some(sample), false) = (run.sizes.sample, becomes_partitions) {
        pieces = sampled(pieces, sample);
    }
    let is_joined = job.publish.has_one_session(choice.method);
    if is_joined {
        pieces = joined(pieces, &sources.files, &sources.format);
    }
    let mut partition_notes = Vec::new();
    if let (true, Some(asked), Some(target), false) = (becomes_partitions, asked, &target, is_cut) {
        let to =
            PartitionTarget { asked, target, job: &job, table: number, sizes: run.sizes, is_part };
        pieces = to.pieces(&sources, &shapes.typed, pieces, &mut partition_notes)?;
    }
    if let (Some(sample), true) = (run.sizes.sample, becomes_partitions) {
        pieces = sampled(pieces, sample);
    }
    let mut notes = sources.notes.clone();
    notes.extend(target.iter().flat_map(|target| target.notes().to_vec()));
    notes.extend(schema.warnings);
    notes.extend(shapes.rounded.iter().map(|column| {
        format!(
            "column {column} is stored in nanoseconds, which are rounded to PostgreSQL's \
             microseconds"
        )
    }));
    notes.append(&mut shapes.notes);
    let is_known =
        |file: &Arc<SourceFile>| file.is_seekable() || file.arrow.is_some() && file.is_regular;
    let known = sources.files.iter().all(is_known);
    let bytes = known.then(|| match run.sizes.sample {
        Some(_) => pieces.iter().map(|piece| piece.bytes).sum(),
        None => sources.files.iter().map(|f| f.end() - f.data_start.min(f.end())).sum(),
    });
    if let (Some(target), Some(asked)) = (&target, asked) {
        schema.notes.extend(asked.space_words(target, choice.method, bytes)?);
    }
    let refuses = target.as_ref().is_some_and(TargetTable::refuses_nulls);
    let not_null = columns.iter().filter(|column| refuses && !column.is_nullable);
    let sent = &shapes.typed.columns;
    let not_null = not_null
        .filter_map(|column| sent.iter().position(|sent| sent.name == column.name))
        .filter(|place| *place < sent.len() - shapes.lineage.len())
        .collect();
    let plan = TablePlan {
        not_null,
        name,
        files: sources.files,
        format: sources.format,
        shape: shapes.typed,
        text_shape: shapes.text,
        lane: shapes.lane,
        lane_reason: shapes.lane_reason,
        method: choice.method,
        method_reason: choice.reason,
        publish: job.publish,
        upsert: target.as_ref().and_then(TargetTable::upsert).cloned(),
        columns,
        bytes,
        piece_bytes,
        joints,
        is_joined,
        header_line: sources.header_line,
        lineage: Lineage {
            columns: shapes.lineage,
            run_id: run.id.to_owned(),
            loaded_at: run.loaded_at,
        },
        transform: shapes.transform,
        controls,
        is_atomic: job.atomic,
        is_constrained: target.as_ref().is_some_and(TargetTable::is_constrained),
        keeps_old: target.as_ref().is_some_and(TargetTable::keeps_old),
        asked: BTreeMap::new(),
        // A row of the server has a header, which is about a fifth of a short one.
        count_bytes: bytes.filter(|_| asked.is_some() && !is_part).map(|bytes| bytes / 5 * 6),
        rounded: shapes.rounded,
        notes: notes.into_iter().chain(partition_notes).collect(),
        schema_notes: schema.notes,
        inferred: schema.inferred,
    };
    Ok(AssembledTable { plan, target, statement, pieces })
}

/// Describes a table's target, and decides what the first line of its files is: by the target's columns
/// where they are known without the files, else before these are inferred.
fn describe<T: Target>(
    job: &TableJob,
    sources: &mut Sources,
    (method, is_resumed, replaced): (Method, bool, &[String]),
    asked: &T,
    schema: &mut Schema,
) -> Result<T::Table> {
    let name = job.name.clone().unwrap_or_default();
    let is_inferred =
        job.create && job.schema_file.is_none() && asked.existing_columns(&name)?.is_none();
    if is_inferred {
        settle(job, sources, None)?;
    }
    let create = match is_inferred || job.schema_file.is_some() {
        true => creation(asked, job, &name, sources, schema)?,
        false => None,
    };
    let target = asked.describe(&TableRequest {
        name,
        publish: job.publish,
        atomic: job.atomic,
        upsert: job.upsert(),
        create,
        method,
        keep_old: job.keep_old,
        is_fresh: job.fresh,
        since: job.since.clone(),
        is_resumed,
        replaced_with: replaced.to_vec(),
    })?;
    if !is_inferred {
        settle(job, sources, Some(target.columns()))?;
    }
    Ok(target)
}

/// Refuses what says how a table is to be made, where there is one that was made in another way.
fn check_not_made<T: Target>(job: &TableJob, asked: &T) -> Result<()> {
    let name = job.name.as_deref().unwrap_or_default();
    match asked.existing_columns(name)? {
        Some(columns) => asked.check_given_types(name, &columns, &job.types),
        None => Ok(()),
    }
}

/// The moment that rows are marked with as that of their load.
fn now_unix_us() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

/// Rows with values whose stored form only the server knows go as text: it sums them itself then.
fn sum_by_server(shapes: &mut Shapes) {
    let is_jsonb = |field_type: &FieldType| match field_type {
        FieldType::Array(item) => **item == FieldType::Jsonb,
        other => *other == FieldType::Jsonb,
    };
    let column = shapes.typed.columns.iter().find(|column| is_jsonb(&column.field_type));
    if let (Some(column), Lane::Binary) = (column, shapes.lane) {
        shapes.lane = Lane::Text;
        shapes.lane_reason = Some(format!(
            "--verify full: only the server knows how it stores jsonb ({})",
            column.name
        ));
    }
}

/// A table's name from its first file's: `data/orders.2024.csv.gz` gives `orders`.
pub fn name_of(path: &Path) -> Result<String> {
    let stem = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let base = stem.split('.').next().unwrap_or_default().to_lowercase();
    if base.is_empty() || base == "-" {
        return Err(Error::usage("name the target with --table"));
    }
    let is_plain = base.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && base.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain {
        return Ok(base);
    }
    Ok(format!("\"{}\"", base.replace('"', "\"\"")))
}
