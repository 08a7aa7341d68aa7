//! Where rows can go: a server, nowhere, Parquet files.

use arrow_array::RecordBatch;
use fullbore_core::destination::{Destination, Encoder, Lane};
use fullbore_core::error::{DestinationFailure, Error, Result};
use fullbore_core::job::{Job, Method};
use fullbore_core::plan::Plan;
use fullbore_core::sinks::{Null, ParquetFiles};
use fullbore_postgres::connection::{ConnectionOptions, Environment};
use fullbore_postgres::encode_copy::{BinaryEncoder, SentColumn, TextEncoder};
use fullbore_postgres::server::Embedded;
use fullbore_postgres::{Postgres, Settings};

use crate::words::complain;

/// Where rows can go.
pub enum Destinations {
    Postgres(Box<Postgres>),
    Null(Null),
    Parquet(ParquetFiles),
}

impl Destinations {
    pub fn open(job: &Job) -> Result<Self> {
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
            Some("null:batches") => Ok(Self::Null(parsed_only())),
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

    pub fn postgres(&self) -> Option<&Postgres> {
        match self {
            Self::Postgres(postgres) => Some(postgres),
            Self::Null(_) | Self::Parquet(_) => None,
        }
    }

    pub fn as_destination(&self) -> &dyn Destination {
        match self {
            Self::Postgres(postgres) => postgres.as_ref(),
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

/// The server to connect to: the one named, the environment's, else the embedded one.
pub fn connection(to: Option<&str>) -> Result<ConnectionOptions> {
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
