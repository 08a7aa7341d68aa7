//! From a job to a plan: sources are looked at, targets described, work is cut.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fullbore_core::constants::{MAX_FIELD_BYTES_DEFAULT, MAX_FIELD_BYTES_LIMIT};
use fullbore_core::destination::TargetColumn;
use fullbore_core::error::{Error, Result};
use fullbore_core::job::{Count, Job, Method, Publish, TableJob};
use fullbore_core::parse::types::FieldType;
use fullbore_core::plan::columns::match_columns;
use fullbore_core::plan::infer::{InferredColumn, Sample, infer, option_text};
use fullbore_core::plan::look::{Sources, look};
use fullbore_core::plan::pieces::{STREAM_PIECE_BYTES, arrange, cut, joined};
use fullbore_core::plan::{Continuity, Format, Plan, PlannedPiece, TablePlan};
use fullbore_core::source::parquet;
use fullbore_postgres::connection::QualifiedName;
use fullbore_postgres::direct::choice::{Choice, Wanted, choose};
use fullbore_postgres::ledger::runs::LedgerRun;
use fullbore_postgres::schema::{self, NewColumn};
use fullbore_postgres::{Postgres, TableRequest, Target};

use crate::load::check_resumed;
use crate::partition::{PartitionTarget, check_partition_options};
use crate::state::{new_run_id, runs_dir};
use crate::words::counted;

/// A plan and what it was made from.
pub struct Assembled {
    pub plan: Plan,
    pub targets: Vec<Target>,
    /// The statements that make tables, where they are to be made.
    pub statements: Vec<Option<String>>,
    /// A table whose pieces a ledger can't be kept of, and why.
    pub not_resumable: Option<(String, String)>,
}

/// Streams that pay on a machine: one for each core, and half as many again, since at any moment
/// some wait for the server's disk (measured into one table: 9% more with 3 on 2 cores than with 2).
fn automatic_streams() -> usize {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    (cores + cores / 2).clamp(2, 16)
}

/// Makes the plan; nothing is touched. Without a server the columns are inferred. Of a run that goes
/// on, the cuts are taken as they were, and all else must come out as it was.
pub fn assemble(
    job: &Job,
    postgres: Option<&Postgres>,
    reject_dir: PathBuf,
    earlier: Option<&LedgerRun>,
) -> Result<Assembled> {
    let streams = match job.streams {
        Count::Fixed(streams) => streams,
        Count::Auto => automatic_streams(),
    };
    let parsers = match job.parsers {
        Count::Fixed(parsers) => parsers,
        Count::Auto => std::thread::available_parallelism().map_or(2, usize::from).min(streams),
    };
    let max_field_bytes = job.max_field_bytes.unwrap_or(MAX_FIELD_BYTES_DEFAULT);
    if max_field_bytes > MAX_FIELD_BYTES_LIMIT {
        return Err(Error::usage(format!(
            "--max-field-bytes can be at most {MAX_FIELD_BYTES_LIMIT}, COPY's own limit"
        )));
    }
    let recorded = earlier.map(LedgerRun::recorded);
    let run_id = recorded.as_ref().map_or_else(new_run_id, |recorded| recorded.run_id.clone());
    let mut tables = Vec::new();
    let mut targets = Vec::new();
    let mut statements = Vec::new();
    let mut pieces = Vec::new();
    let mut not_resumable = None;
    for (number, table_job) in job.tables.iter().enumerate() {
        let then = earlier.and_then(|earlier| earlier.tables.get(number));
        // Another method would need other pieces.
        let method = then.map_or(job.method, |then| then.plan.method);
        let wanted = Wanted { method, codec: job.compress, io: job.direct_io };
        let is_cut = recorded.is_some();
        let made = assemble_table(table_job, number, wanted, postgres, streams, is_cut)?;
        if let Some(earlier) = earlier {
            check_resumed(earlier, number, &made.plan, made.target.as_ref())?;
        }
        if let (Some(target), Some(postgres), None) = (&made.target, postgres, &not_resumable) {
            let reason = postgres.not_resumable(target)?;
            not_resumable = reason.map(|reason| (made.plan.name.clone(), reason));
        }
        tables.push(made.plan);
        statements.push(made.statement);
        targets.extend(made.target);
        pieces.extend(made.pieces);
    }
    let plan = Plan {
        run_dir: runs_dir()?.join(&run_id),
        run_id,
        tables,
        pieces: match recorded {
            Some(recorded) => recorded.pieces,
            None => arrange(pieces, job.tables_at_once),
        },
        streams,
        parsers,
        max_rejects: job.max_rejects,
        max_field_bytes,
        reject_dir,
        tables_at_once: job.tables_at_once,
        continuity: Continuity::default(),
    };
    Ok(Assembled { plan, targets, statements, not_resumable })
}

struct AssembledTable {
    plan: TablePlan,
    target: Option<Target>,
    statement: Option<String>,
    pieces: Vec<PlannedPiece>,
}

fn assemble_table(
    job: &TableJob,
    number: usize,
    wanted: Wanted,
    postgres: Option<&Postgres>,
    streams: usize,
    is_cut: bool,
) -> Result<AssembledTable> {
    let mut job = job.clone();
    let sources = look(&job)?;
    let name = match &job.name {
        Some(name) => name.clone(),
        None => name_of(&sources)?,
    };
    job.name = Some(name.clone());
    let mut schema = Schema::default();
    let (columns, mut target, statement) = match postgres {
        Some(postgres) => {
            let create = creation(&job, &name, &sources, &mut schema)?;
            let target = postgres.describe(&TableRequest {
                name: name.clone(),
                publish: job.publish,
                atomic: job.atomic,
                create,
                method: wanted.method,
            })?;
            let statement = target.create.clone();
            if statement.is_none() {
                // The table is there already: what was inferred of the files does not matter.
                schema = Schema::default();
            }
            (target.columns.clone(), Some(target), statement)
        }
        None => (inferred_columns(&job, &sources, &mut schema)?, None, None),
    };
    check_partition_options(&job)?;
    let shapes = match_columns(&job, &sources, &columns)?;
    let (mut pieces, piece_bytes) = match is_cut {
        true => (Vec::new(), STREAM_PIECE_BYTES),
        false => cut(&sources.files, &sources.format, number, streams)?,
    };
    let choice = match &mut target {
        Some(target) => choose(target, wanted, &shapes)?,
        None => Choice { method: Method::Copy, reason: "there is no server".into() },
    };
    if choice.method == Method::Direct && job.publish == Publish::Replace {
        // One new table can be filled directly by one session only.
        pieces = joined(pieces, &sources.files);
    }
    let mut partition_notes = Vec::new();
    if let (Publish::Partitions, Some(postgres), Some(target), false) =
        (job.publish, postgres, &target, is_cut)
    {
        let to = PartitionTarget { postgres, target, job: &job, table: number, streams };
        pieces = to.pieces(&sources, &shapes.typed, pieces, &mut partition_notes)?;
    }
    let mut notes = sources.notes.clone();
    notes.extend(schema.warnings);
    let known = sources.files.iter().all(|file| file.is_seekable());
    let bytes = known
        .then(|| sources.files.iter().map(|file| file.size - file.data_start.min(file.size)).sum());
    let plan = TablePlan {
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
        columns,
        bytes,
        piece_bytes,
        header_line: sources.header_line,
        is_atomic: job.atomic,
        notes: notes.into_iter().chain(partition_notes).collect(),
        schema_notes: schema.notes,
        inferred: schema.inferred,
    };
    Ok(AssembledTable { plan, target, statement, pieces })
}

/// What is to be said of a schema that was inferred.
#[derive(Default)]
struct Schema {
    /// Why each column has its type.
    notes: Vec<String>,
    /// What should be known before the load.
    warnings: Vec<String>,
    /// Columns whose types are guesses, with the types' names.
    inferred: BTreeMap<String, String>,
}

/// A table's name from its first file's: `data/orders.2024.csv.gz` gives `orders`.
fn name_of(sources: &Sources) -> Result<String> {
    let path = &sources.files[0].path;
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
    QualifiedName::new(None, &base)
        .map(|name| name.to_string())
        .map_err(|error| Error::usage(error.to_string()))
}

/// The statement that would make the table, where one is asked for.
fn creation(
    job: &TableJob,
    name: &str,
    sources: &Sources,
    said: &mut Schema,
) -> Result<Option<String>> {
    if !job.create {
        return Ok(None);
    }
    let wrong =
        |error: fullbore_postgres::connection::ConnectionError| Error::usage(error.to_string());
    let partition_by = job.partition_by.as_deref();
    if let Some(path) = &job.schema_file {
        let path = PathBuf::from(path);
        let sql = std::fs::read_to_string(&path).map_err(|source| Error::Read { path, source })?;
        return schema::with_partition(&sql, partition_by).map(Some).map_err(wrong);
    }
    let inferred = inferred(job, sources, said)?;
    let columns: Vec<NewColumn> = inferred
        .into_iter()
        .map(|(name, field_type)| {
            let type_name = given_type(job, &name)
                .map_or_else(|| schema::type_name(&field_type), str::to_owned);
            NewColumn { name, type_name }
        })
        .collect();
    check_given_types(job, columns.iter().map(|column| column.name.as_str()))?;
    let table = QualifiedName::parse(name).map_err(wrong)?;
    schema::create_table(&table, &columns, partition_by).map(Some).map_err(wrong)
}

/// The type that the job gives a column.
fn given_type<'a>(job: &'a TableJob, column: &str) -> Option<&'a str> {
    let given = job.types.iter().filter_map(|given| given.split_once('='));
    given.filter(|(name, _)| *name == column).map(|(_, type_name)| type_name).next_back()
}

/// Refuses a type given to a column that is not there.
fn check_given_types<'a>(
    job: &TableJob,
    columns: impl Iterator<Item = &'a str> + Clone,
) -> Result<()> {
    for given in &job.types {
        let column = given.split_once('=').map(|(column, _)| column);
        if !columns.clone().any(|known| Some(known) == column) {
            return Err(Error::usage_with_hint(
                format!("--type {given}: the files have no such column"),
                "write --type column=type",
            ));
        }
    }
    Ok(())
}

/// Names and types of the columns, from samples of the files.
fn inferred(
    job: &TableJob,
    sources: &Sources,
    said: &mut Schema,
) -> Result<Vec<(String, FieldType)>> {
    let Format::Delimited(dialect) = &sources.format else {
        let schema = parquet::inspect(&sources.files[0])?.schema;
        return schema
            .fields()
            .iter()
            .map(|field| Ok((field.name().clone(), parquet::field_type(field.data_type())?)))
            .collect();
    };
    let names: Vec<String> = match (&job.columns, &sources.names, sources.fields) {
        (Some(listed), _, _) => listed.clone(),
        (None, Some(names), _) => names.clone(),
        (None, None, Some(fields)) => (1..=fields).map(|n| format!("column{n}")).collect(),
        (None, None, None) => {
            return Err(Error::usage_with_hint(
                "there is nothing to infer columns from",
                "give --schema FILE.sql, or a table that is there already",
            ));
        }
    };
    let has_header = dialect.header != fullbore_core::parse::dialect::Header::None;
    let mut samples = Vec::new();
    for sample in &sources.samples {
        let first = &sample.first[sample.bom_bytes..];
        samples.push(Sample { text: first, has_header, is_from_within: false });
        let within = |text| Sample { text, has_header: false, is_from_within: true };
        samples.extend(sample.others.iter().map(|text| within(text.as_slice())));
    }
    let is_given = |name: &str| name == "-" || given_type(job, name).is_some();
    let columns = infer(&names, is_given, &samples, dialect);
    for column in columns.iter().flatten() {
        let InferredColumn { name, field_type, because, odd, .. } = column;
        said.notes.push(format!("{name}: {because}"));
        let type_name = schema::type_name(field_type);
        if let Some((count, value)) = odd {
            said.warnings.push(format!(
                "column {name} is inferred as {type_name}, which does not fit {}, such as {value:?}; \
                 use --type {} to take them",
                counted(*count, "sampled value"),
                option_text(name)
            ));
        }
        if *field_type != FieldType::text() {
            said.inferred.insert(name.clone(), type_name);
        }
    }
    // What is given takes the place of the type that stands here.
    let type_of =
        |column: Option<InferredColumn>| column.map_or(FieldType::text(), |c| c.field_type);
    Ok(names.into_iter().zip(columns.into_iter().map(type_of)).filter(|(n, _)| n != "-").collect())
}

/// Inferred columns for destinations that have none of their own.
fn inferred_columns(
    job: &TableJob,
    sources: &Sources,
    said: &mut Schema,
) -> Result<Vec<TargetColumn>> {
    let inferred = inferred(job, sources, said)?;
    check_given_types(job, inferred.iter().map(|(name, _)| name.as_str()))?;
    inferred
        .into_iter()
        .map(|(name, field_type)| {
            let field_type = match given_type(job, &name) {
                None => field_type,
                Some(given) => schema::field_type(given).ok_or_else(|| {
                    Error::usage_with_hint(
                        format!("--type {name}={given}: no such type is known without a server"),
                        "use one of PostgreSQL's own scalar types, or text",
                    )
                })?,
            };
            Ok(TargetColumn {
                type_name: schema::type_name(&field_type),
                name,
                field_type: Some(field_type),
                is_nullable: true,
                is_generated: false,
            })
        })
        .collect()
}
