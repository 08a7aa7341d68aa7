//! Where rows can go: a server, another database, nowhere, Parquet files.

use std::sync::Arc;

use arrow_array::RecordBatch;
use fullbore_databases::{Database, Place, Rows};
use fullbore_load::job::{IfLoaded, Job, WireSize};
use fullbore_load::plan::Plan;
use fullbore_load::sink::{Encoder, Null, ParquetFiles, Sink};
use fullbore_parse::Lane;
use fullbore_pgwire::{ConnectionError, ConnectionOptions, Environment, check_congestion};
use fullbore_postgres::encode_copy::{BinaryEncoder, SentColumn, TextEncoder};
use fullbore_postgres::ledger::Ledger;
use fullbore_postgres::{Attended, Postgres, PostgresTable, Server, Settings};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_server::Embedded;

/// Where rows can go.
pub enum Destinations {
    Postgres(Arc<Server>),
    Database(Arc<Database>),
    Null(Null),
    Parquet(ParquetFiles),
}

/// The same for one run, once its plan is finished.
pub enum RunSink {
    Postgres(Box<Postgres>),
    Database(Rows),
    Null(Null),
    Parquet(ParquetFiles),
}

impl Destinations {
    /// Opens the destination of a job; `warn` hears what is wrong with its connection options.
    pub fn open(job: &Job, warn: &dyn Fn(&str)) -> Result<Self> {
        match job.to.as_deref() {
            Some("null:") => Ok(Self::Null(Null { encoder_of: Box::new(copy_encoder) })),
            Some("null:batches") => Ok(Self::Null(parsed_only())),
            Some(to) if to.starts_with("parquet:") => {
                let place = to.trim_start_matches("parquet:");
                Ok(Self::Parquet(ParquetFiles::into(place, &job.store)?))
            }
            Some(to) if Place::is(to) => {
                let may_make = job.tables.iter().any(|table| table.create);
                Ok(Self::Database(Arc::new(Database::open(to, may_make)?)))
            }
            to => {
                let refused = |error: ConnectionError| {
                    Error::usage_with_hint(error.to_string(), error.hint().unwrap_or_default())
                };
                job.congestion.as_deref().map_or(Ok(()), check_congestion).map_err(refused)?;
                let mut options = connection(to)?;
                let bytes = |size: WireSize| size.bytes() as usize;
                options.message_bytes = job.message_size.map(bytes);
                for host in &mut options.hosts {
                    host.way.congestion.clone_from(&job.congestion);
                    host.way.send_buffer = job.send_buffer.map(bytes);
                }
                options.warnings.iter().for_each(|warning| warn(warning));
                let settings = Settings {
                    tablespaces: job.tablespaces.clone(),
                    allow_publication: job.allow_publication,
                    skip_logical_decoding: job.skip_logical_decoding,
                    statistics: job.statistics,
                    loads_again: job.if_loaded == Some(IfLoaded::Again),
                    endpoints: job.endpoints.clone(),
                    endpoint_policy: job.endpoint_policy,
                };
                Ok(Self::Postgres(Arc::new(Server::connect(options, settings)?)))
            }
        }
    }

    pub fn server(&self) -> Option<&Server> {
        match self {
            Self::Postgres(server) => Some(server),
            Self::Database(_) | Self::Null(_) | Self::Parquet(_) => None,
        }
    }

    /// Refuses a database that only `fullbore load` knows how to load into.
    pub fn for_measuring(self) -> Result<Self> {
        match &self {
            Self::Database(database) => Err(Error::usage_with_hint(
                format!("this command does not measure {}", database.name()),
                "use --to null: to measure what does not depend on the destination",
            )),
            _ => Ok(self),
        }
    }

    /// What a run loads into; of a server, these targets, which are the plan's tables. Another database has its
    /// own ([`crate::databases::sink`]).
    pub fn into_sink(
        self,
        targets: Vec<PostgresTable>,
        ledger: Option<Ledger>,
        attended: Option<Attended>,
    ) -> RunSink {
        match self {
            Self::Postgres(server) => {
                RunSink::Postgres(Box::new(Postgres::new(server, targets, ledger, attended)))
            }
            Self::Database(_) => {
                unreachable!("a database has a load of its own")
            }
            Self::Null(null) => RunSink::Null(null),
            Self::Parquet(files) => RunSink::Parquet(files),
        }
    }
}

impl RunSink {
    pub fn postgres(&self) -> Option<&Postgres> {
        match self {
            Self::Postgres(postgres) => Some(postgres),
            Self::Database(_) | Self::Null(_) | Self::Parquet(_) => None,
        }
    }

    pub fn as_sink(&self) -> &dyn Sink {
        match self {
            Self::Postgres(postgres) => postgres.as_ref(),
            Self::Database(rows) => rows,
            Self::Null(null) => null,
            Self::Parquet(files) => files,
        }
    }
}

/// A destination for which nothing is even encoded.
pub fn parsed_only() -> Null {
    Null { encoder_of: Box::new(|_, _, _| Box::new(Discard)) }
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

/// Whether rows go to a PostgreSQL server.
pub fn is_server(to: Option<&str>) -> bool {
    !to.is_some_and(|to| to.starts_with("null:") || to.starts_with("parquet:") || Place::is(to))
}

/// Whether rows go to another database.
pub fn is_database(to: Option<&str>) -> bool {
    to.is_some_and(Place::is)
}

/// Where rows go, as people call it and without a password.
pub fn words(job: &Job, server: Option<&Server>) -> String {
    let to = job.to.clone().or_else(of_environment);
    match server {
        Some(_) if to.is_none() && !is_named(&Environment::of_process()) => {
            "the embedded server (`fullbore psql` opens it)".to_owned()
        }
        Some(server) => server.options().redacted(),
        None => to.unwrap_or_default(),
    }
}

/// Whether the environment names a server.
fn is_named(environment: &Environment) -> bool {
    ["PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE", "DATABASE_URL"]
        .iter()
        .any(|name| environment.filled(name).is_some())
}

/// Where rows go by the environment, for the commands that load or look at a server.
pub fn of_environment() -> Option<String> {
    std::env::var("FULLBORE_TO").ok().filter(|to| !to.is_empty())
}

/// The server to connect to: the one named, the environment's, else the embedded one.
pub fn connection(to: Option<&str>) -> Result<ConnectionOptions> {
    let url = url(to)?;
    ConnectionOptions::resolve(url.as_deref(), &Environment::of_process())
        .map_err(|error| refused(error.to_string(), error.hint().map(str::to_owned)))
}

/// The URL of that server; none where variables of the environment say all of it. The embedded server is
/// started.
pub fn url(to: Option<&str>) -> Result<Option<String>> {
    let environment = Environment::of_process();
    let named = is_named(&environment);
    let database_url = environment.filled("DATABASE_URL").map(str::to_owned);
    Ok(match (to.map(str::to_owned).or_else(of_environment), named) {
        (Some(to), _) => Some(to),
        (None, true) if environment.filled("PGHOST").is_none() => database_url,
        (None, true) => None,
        (None, false) => {
            let started = Embedded::open().and_then(|embedded| {
                embedded.ensure_started()?;
                Ok(embedded.url("postgres"))
            });
            Some(started.map_err(|error| refused(error.to_string(), error.hint()))?)
        }
    })
}

fn refused(message: String, hint: Option<String>) -> Error {
    Error::Destination { message, hint, kind: DestinationFailure::Refused }
}

/// The way to a run's server as its job kept it, which has no password: with that of the
/// environment's own URL, where that is the same connection else. The embedded server is started.
pub fn reopened(kept: &str) -> String {
    let environment = Environment::of_process();
    let resolve = |url: &str| ConnectionOptions::resolve(Some(url), &environment).ok();
    // To look for the embedded server takes time, which no server elsewhere is worth.
    if let Some(kept) = resolve(kept).filter(ConnectionOptions::is_this_machine)
        && let Ok(embedded) = Embedded::open()
        && resolve(&embedded.url("postgres")).is_some_and(|own| own.hosts == kept.hosts)
    {
        // What is wrong with it is told when it is connected to.
        let _ = embedded.ensure_started();
    }
    let database_url = environment.filled("DATABASE_URL").map(str::to_owned);
    let is_same = |url: &String| resolve(url).is_some_and(|options| options.kept().url == kept);
    let known = [of_environment(), database_url].into_iter().flatten().find(is_same);
    known.unwrap_or_else(|| kept.to_owned())
}
