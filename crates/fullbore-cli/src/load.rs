//! `fullbore load` and `fullbore plan`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use fullbore_core::destination::{Destination, Encoder, Lane};
use fullbore_core::error::{DestinationFailure, Error, Result};
use fullbore_core::job::{Codec, DirectIo, Job, Method, TableJob, read_job_file};
use fullbore_core::plan::Plan;
use fullbore_core::record::Recorder;
use fullbore_core::run::{Failure, Outcome};
use fullbore_core::sinks::{Null, ParquetFiles};
use fullbore_postgres::connection::{ConnectionOptions, Environment};
use fullbore_postgres::encode_copy::{BinaryEncoder, SentColumn, TextEncoder};
use fullbore_postgres::server::Embedded;
use fullbore_postgres::{Postgres, Settings};

use crate::args::LoadArgs;
use crate::assemble::{Assembled, assemble};
use crate::exit::Ended;
use crate::words::complain;
use crate::{log_file, plan_view, progress, summary};

/// Set by SIGINT and SIGTERM.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

pub fn run(args: &LoadArgs) -> Ended {
    if args.dry_run {
        return plan(args);
    }
    match load(args) {
        Ok(ended) => ended,
        Err(error) => fail(args, &error, Ended::Usage),
    }
}

pub fn plan(args: &LoadArgs) -> Ended {
    let planned = job_of(args).and_then(|job| {
        let to = Destinations::open(&job)?;
        let assembled = assemble(&job, to.postgres(), reject_dir(args))?;
        Ok(plan_view::render(&assembled.plan, &assembled.statements))
    });
    match planned {
        Ok(text) => {
            print!("{text}");
            Ended::Loaded
        }
        Err(error) => fail(args, &error, Ended::Usage),
    }
}

fn fail(args: &LoadArgs, error: &Error, ended: Ended) -> Ended {
    tracing::error!("refused: {error}");
    complain(&error.to_string(), error.hint());
    if args.json {
        println!("{}", serde_json::json!({ "error": error.to_string(), "hint": error.hint() }));
    }
    ended
}

/// The job that the command line, or its job file, describes. What is said of the run on the
/// command line holds for a job file too.
fn job_of(args: &LoadArgs) -> Result<Job> {
    let mut job = match args.sources.as_slice() {
        [file] if file.ends_with(".toml") && Path::new(file).is_file() => {
            let of_a_table = TableJob { sources: Vec::new(), ..table_job(args) };
            if of_a_table != TableJob::default() {
                return Err(Error::usage_with_hint(
                    "options of a table can't be given beside a job file, which may have several",
                    "write them into the file, or change it with --set table.NAME.option=value",
                ));
            }
            read_job_file(Path::new(file), &args.settings)?
        }
        _ if !args.settings.is_empty() => {
            return Err(Error::usage_with_hint("--set changes a job file", "name one: JOB.toml"));
        }
        _ => Job { tables: vec![table_job(args)], ..Job::default() },
    };
    job.to = args.to.clone().or(job.to);
    job.streams = args.streams.unwrap_or(job.streams);
    job.parsers = args.parsers.unwrap_or(job.parsers);
    job.method = args.method.unwrap_or(job.method);
    job.compress = args.compress.unwrap_or(job.compress);
    job.direct_io = args.direct_io.unwrap_or(job.direct_io);
    job.max_rejects = args.max_rejects.unwrap_or(job.max_rejects);
    job.max_field_bytes = args.max_field_bytes.or(job.max_field_bytes);
    job.allow_publication |= args.allow_publication;
    job.no_analyze |= args.no_analyze;
    if !args.tablespaces.is_empty() {
        job.tablespaces = args.tablespaces.clone();
    }
    if job.method == Method::Copy {
        let option = match (job.compress, job.direct_io) {
            (Codec::None, DirectIo::Auto) => None,
            (Codec::None, _) => Some("--direct-io"),
            _ => Some("--compress"),
        };
        if let Some(option) = option {
            return Err(Error::usage_with_hint(
                format!("{option} is for the direct method, and --method copy was asked for"),
                format!("leave {option} out, or choose --method auto or direct"),
            ));
        }
    }
    if job.tables.is_empty() {
        return Err(Error::usage_with_hint("the job has no table", "add a [[table]] to it"));
    }
    Ok(job)
}

fn table_job(args: &LoadArgs) -> TableJob {
    TableJob {
        name: args.table.clone(),
        sources: args.sources.clone(),
        format: args.format,
        delimiter: args.delimiter.clone(),
        quote: args.quote.clone(),
        escape: args.escape.clone(),
        null: args.null.clone(),
        header: args.header,
        encoding: args.encoding.clone(),
        columns: args.columns.clone(),
        publish: args.publish,
        atomic: args.atomic,
        create: args.create,
        schema_file: args.schema.clone(),
        types: args.types.clone(),
        partition_by: args.partition_by.clone(),
        partition_bounds: args.partition_bounds.clone(),
        scan_keys: args.scan_keys,
        as_text: args.as_text,
    }
}

/// Where rows can go.
enum Destinations {
    Postgres(Box<Postgres>),
    Null(Null),
    Parquet(ParquetFiles),
}

impl Destinations {
    fn open(job: &Job) -> Result<Self> {
        let is_server =
            |to: Option<&str>| !to.is_some_and(|to| to == "null:" || to.starts_with("parquet:"));
        if job.method == Method::Direct && !is_server(job.to.as_deref()) {
            return Err(Error::usage_with_hint(
                "--method direct needs a PostgreSQL server to ask how its rows are laid out",
                "name one with --to URL, or leave --method out",
            ));
        }
        match job.to.as_deref() {
            Some("null:") => Ok(Self::Null(Null { encoder_of: Box::new(copy_encoder) })),
            Some("null:batches") => {
                Ok(Self::Null(Null { encoder_of: Box::new(|_, _, _| Box::new(Discard)) }))
            }
            Some(to) if to.starts_with("parquet:") => {
                let folder = to.trim_start_matches("parquet:").into();
                Ok(Self::Parquet(ParquetFiles { folder }))
            }
            to => {
                let options = connection(to)?;
                for warning in &options.warnings {
                    complain(warning, None);
                }
                let settings = Settings {
                    tablespaces: job.tablespaces.clone(),
                    allow_publication: job.allow_publication,
                    analyze: !job.no_analyze,
                };
                Ok(Self::Postgres(Box::new(Postgres::connect(options, settings)?)))
            }
        }
    }

    fn postgres(&self) -> Option<&Postgres> {
        match self {
            Self::Postgres(postgres) => Some(postgres),
            Self::Null(_) | Self::Parquet(_) => None,
        }
    }

    fn as_destination(&self) -> &dyn Destination {
        match self {
            Self::Postgres(postgres) => postgres.as_ref(),
            Self::Null(null) => null,
            Self::Parquet(files) => files,
        }
    }
}

/// Encodes nothing: what `null:batches` measures ends with the parser.
struct Discard;

impl Encoder for Discard {
    fn encode(&mut self, _: &RecordBatch, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}

/// Encodes for `null:` what would be sent to PostgreSQL.
fn copy_encoder(plan: &Plan, table: usize, lane: Lane) -> Box<dyn Encoder> {
    if lane == Lane::Text {
        return Box::new(TextEncoder::default());
    }
    let columns = plan.tables[table].shape.columns.iter();
    let columns =
        columns.map(|c| SentColumn { field_type: c.field_type.clone(), element_oid: 0 }).collect();
    Box::new(BinaryEncoder::new(columns))
}

/// The server to connect to: the one named, the environment's, else the embedded one.
fn connection(to: Option<&str>) -> Result<ConnectionOptions> {
    let refused = |message: String, hint: Option<String>| Error::Destination {
        message,
        hint,
        kind: DestinationFailure::Refused,
    };
    let environment = Environment::of_process();
    let named = ["PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE", "DATABASE_URL"]
        .iter()
        .any(|name| environment.variable(name).is_some());
    let database_url = environment.variable("DATABASE_URL").map(str::to_owned);
    let url = match (to, named) {
        (Some(to), _) => Some(to.to_owned()),
        (None, true) if environment.variable("PGHOST").is_none() => database_url,
        (None, true) => None,
        (None, false) => {
            let started = Embedded::open().and_then(|embedded| {
                embedded.ensure_started()?;
                Ok(embedded.url("postgres"))
            });
            Some(started.map_err(|error| refused(error.to_string(), error.hint()))?)
        }
    };
    ConnectionOptions::resolve(url.as_deref(), &environment)
        .map_err(|error| refused(error.to_string(), error.hint().map(str::to_owned)))
}

fn reject_dir(args: &LoadArgs) -> std::path::PathBuf {
    args.reject_dir.clone().unwrap_or_else(|| ".".into())
}

fn load(args: &LoadArgs) -> Result<Ended> {
    if let Some(path) = &args.log_file {
        log_file::open(path)?;
    }
    let job = job_of(args)?;
    let to = Destinations::open(&job)?;
    let Assembled { plan, targets, statements } = assemble(&job, to.postgres(), reject_dir(args))?;
    if let Destinations::Postgres(postgres) = &to {
        postgres.adopt(targets);
    }
    if !args.quiet {
        for note in plan.tables.iter().flat_map(|table| &table.notes) {
            eprintln!("note: {note}");
        }
    }
    let expected: Vec<_> =
        plan.tables.iter().map(|table| (table.name.clone(), table.bytes)).collect();
    let listener = progress::listener(&expected, args.quiet || args.json);
    let recorder = Recorder::create(&plan.run_dir, listener)?;
    for line in plan_view::render(&plan, &statements).lines() {
        tracing::debug!("plan: {line}");
    }
    let plan = Arc::new(plan);
    listen_for_signals();
    let result = fullbore_core::run::run(&plan, to.as_destination(), &recorder, &INTERRUPTED);
    Ok(match result {
        Ok(outcome) => finished(args, &plan, &outcome),
        Err(failure) => failed(args, &plan, &failure),
    })
}

fn finished(args: &LoadArgs, plan: &Plan, outcome: &Outcome) -> Ended {
    if !args.quiet {
        summary::print(plan, outcome);
    }
    if args.json {
        summary::JsonSummary::of(plan, outcome, None).print();
    }
    if outcome.rejected > 0 { Ended::LoadedWithRejects } else { Ended::Loaded }
}

fn failed(args: &LoadArgs, plan: &Plan, failure: &Failure) -> Ended {
    let Failure { error, outcome, left_behind, rows_kept } = failure;
    complain(&error.to_string(), error.hint());
    for path in &outcome.reject_files {
        eprintln!("  rejected rows are in {}", path.display());
    }
    for name in left_behind {
        eprintln!("  left behind, drop it by hand: {name}");
    }
    if *rows_kept > 0 {
        eprintln!(
            "  {} rows of committed pieces stay in the table (plain append is not atomic; see --atomic)",
            crate::words::grouped(*rows_kept)
        );
    }
    if args.json {
        summary::JsonSummary::of(plan, outcome, Some(error.to_string())).print();
    }
    match error {
        _ if *rows_kept > 0 => Ended::Stopped,
        Error::Interrupted => Ended::Stopped,
        Error::Usage { .. } => Ended::Usage,
        Error::Destination { kind: DestinationFailure::Refused, .. } => Ended::Usage,
        _ => Ended::Failed,
    }
}

/// The first signal asks the run to stop; a second one ends the process at once.
fn listen_for_signals() {
    extern "C" fn stop(_: libc::c_int) {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            // SAFETY: _exit may be called from a signal handler.
            unsafe { libc::_exit(i32::from(Ended::Stopped.code())) };
        }
    }
    let handler = stop as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only touches an atomic, or ends the process.
        unsafe { libc::signal(signal, handler) };
    }
}
